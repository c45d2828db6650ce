// Package servecmd has the command that serves pages and an API: serve.
package servecmd

import (
	"cmp"
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/httpserver"
	"github.com/prescient-go/prescient/config"
)

// NewCmdServe returns the command serve.
func NewCmdServe(f *factory.Factory) *cobra.Command {
	c := factory.OnStores(&cobra.Command{
		Use:   "serve",
		Short: "Serve pages and an API over HTTP, to read the state and to act on it",
		Long: `Serve pages and an API over HTTP until a signal. They show the slots of the last and the
next day, overdue, missed, failing and given-up rows, each slot, job, entity, schedule and event,
and the ledger as a heat map. Operators act there on checks, jobs, rules, schedules, dead letters,
consumers and findings, and catch up. The server previews an action in numbers first, and records
who did it.

  /         for people: pages that need no JavaScript, and update themselves if the browser has it
  /api/v1   for programs, also to write schedules; /api/v1/openapi.json describes it
  /healthz  200 or 503; for readers with the names of the conditions that "status --check" finds
  /readyz   200 if a database can be read
  /livez    200
  /metrics  for Prometheus, for readers: counts of wrong tokens, and figures of the process

It listens on this machine only, and everyone who reaches it there may read, unless server.read_token is set. On
another address, and behind a proxy, it requires a token. Readers have server.read_token, and operators have
server.token. Without server.token no action is possible. A token may have a name before it, by which its actions are
recorded: ops:0123456789abcdef. After five wrong tokens, the page, the API, /healthz or /metrics refuses the tokens of
that address for a minute. It answers only to these host names: localhost, addresses, the name of the machine, in
Kubernetes names of services (NAME.NAMESPACE.svc), and server.hosts.

For any number of readers, the server sends the database at most 100 statements a second on average. It needs the role
of a reader. Actions need the role of an operator, and are refused if the server lacks it. Catch-up runs the checks of
the jobs that this binary has registered, and leaves the checks of other jobs.

It runs no slots: cron does that, or the daemon, which can serve all of this itself.

With several stores, / is a page of all of them. Each has its own pages and its own API below /stores/NAME, and
/api/v1/stores lists them.`,
		Example: `  prescient serve
  prescient serve --listen :8088   # with server.token or server.read_token
  curl -fsS localhost:8088/api/v1/overview | jq .findings`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runServer(c.Context(), f) },
	})
	config.ServerFlags(c.Flags(), "server.listen of the configuration, else "+DefaultListen)
	return c
}

// DefaultListen is where serve listens without server.listen.
const DefaultListen = "localhost:8088"

func runServer(ctx context.Context, f *factory.Factory) error {
	s, err := httpserver.New(ctx, f, cmp.Or(f.Config().Server.Listen, DefaultListen))
	if err != nil {
		return err
	}
	if err := s.Closed(); err != nil {
		return err
	}
	stopping := sync.OnceFunc(func() { f.Log().InfoContext(ctx, "server is stopping") })
	return s.Run(ctx, httpserver.Work{Run: func(own context.Context, _ *factory.Factory) error {
		<-own.Done()
		if ctx.Err() != nil { // otherwise the store is gone
			stopping()
		}
		return nil
	}})
}
