// Package servecmd has the command that serves pages and an API: serve.
package servecmd

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/each"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/server"
	"github.com/prescient-go/prescient/cmd/serve/api"
	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/serve/pages"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/metrics"
)

// NewCmdServe returns the command serve.
func NewCmdServe(f *factory.Factory) *cobra.Command {
	c := each.Help(&cobra.Command{
		Use:   "serve",
		Short: "Serve pages and an API over HTTP, to read the state and to act on it",
		Long: `Serve pages and an API over HTTP until SIGTERM. They show the slots of the last and the next day, overdue, missed,
failing and given-up rows, each slot, job, entity, schedule and event, and the ledger as a heat map. They offer actions:
cancel, reschedule, retry, pause, resume, catch-up, and trigger and backfill of schedules. The server previews an action
in numbers first, and records who did it.

  /         for people: pages that need no JavaScript, and update themselves if the browser has it
  /api/v1   for programs; /api/v1/openapi.json describes it
  /healthz  200 or 503; for readers with the names of the conditions that "status --check" finds
  /metrics  for Prometheus, and for readers: tokens that were wrong, and the process

It listens on this machine only, and everyone who reaches it there may read. On another address, and behind a proxy, it
wants a token. Readers have server.read_token, and operators have server.token. Without server.token no action is possible.
A token may have a name before it, by which its actions are recorded: ops:0123456789abcdef.

The server sends the database two statements a second on average, and 40 at once at first, for any number of readers. It
needs the role of a reader. Actions need the role of an operator, and are refused if the server lacks it. Catch-up runs
the checks of the jobs that this binary has registered, and leaves the checks of other jobs.

It runs no slots: the daemon or cron does that.

With several stores, / is a page of all of them. Each has its own pages and its own API below /stores/NAME, and
/api/v1/stores lists them.`,
		Example: `  prescient serve
  prescient serve --listen :8088   # with server.token or server.read_token
  curl -fsS localhost:8088/api/v1/overview | jq .findings`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runServer(c.Context(), f) },
	})
	config.ServeFlags(c.Flags())
	checks.EventFlags(c)
	addRunFlags(c.Flags(), "workers", "connections", "batch-size")
	return c
}

// addRunFlags adds the run flags that the server uses.
func addRunFlags(fs *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.RunFlags(all)
	for _, name := range names {
		fs.AddFlag(all.Lookup(name))
	}
}

// door decides who may read and who may act.
type door struct {
	access *web.Access
	open   bool // everyone may read
}

// mayRead reports whether the sender of a request may read.
func (d door) mayRead(r *http.Request) bool {
	return d.open && r.Header.Get("Authorization") == "" || d.access.Allows(r)
}

// api returns the configuration of an API without its data.
func (d door) api(f *factory.Factory) api.Config {
	return api.Config{Access: d.access, OpenReading: d.open, Logger: f.Log()}
}

// pages returns the configuration of pages without their data.
func (d door) pages(f *factory.Factory) pages.Config {
	return pages.Config{Binary: f.Name, Access: d.access, OpenReading: d.open, Secure: f.Config().Server.Proxy == "https", Logger: f.Log()}
}

func runServer(ctx context.Context, f *factory.Factory) error {
	listen, cfg := f.Config().Serve.Listen, f.Config().Server
	keys, err := server.Keys(f)
	if err != nil {
		return err
	}
	private := web.IsLoopback(listen) && cfg.Proxy == "off"
	if !private && len(keys) == 0 {
		why, or := fmt.Sprintf("server.proxy is %s, so other machines may connect", cfg.Proxy), ""
		if cfg.Proxy == "off" {
			why, or = fmt.Sprintf("other machines may connect to %s", listen), ", or listen on localhost"
		}
		return exit.Usagef("%s: set server.token or server.read_token, such as ops: and what `openssl rand -hex 16` prints%s", why, or)
	}
	server.WarnUnencrypted(ctx, f)
	if cfg.Proxy != "off" && len(cfg.ProxyNetworks) == 0 {
		f.Log().WarnContext(ctx, "server.proxy is set and server.proxy_networks is empty: every request counts as the proxy's own, and five wrong tokens "+
			"keep everybody out for a minute. Set server.proxy_networks to the addresses of the proxy", "proxy", cfg.Proxy)
	}
	access := web.NewAccess(keys, web.ProxiedAddress(cfg.ProxyNetworks), f.Log()).LockingOut()
	door := door{access: access, open: private && cfg.ReadToken == config.Secret{}}
	if f.One() != nil {
		return serveBoards(ctx, f, door)
	}
	return serveBoard(ctx, f, door)
}

// serveBoard serves one store, until ctx ends.
func serveBoard(ctx context.Context, f *factory.Factory, door door) error {
	return checks.With(ctx, f, nil, func(bound *checks.Bound) error {
		b, err := newBoard(ctx, f, bound, nil)
		if err != nil {
			return err
		}
		defer b.Close()
		answers := door.api(f)
		answers.Board = b
		handler, err := api.New(answers)
		if err != nil {
			return err
		}
		looks := door.pages(f)
		looks.Board = b
		shown, err := pages.New(looks)
		if err != nil {
			return err
		}
		_, end, err := web.Listen(ctx, f.Config().Serve.Listen, guarded(f, door, serveHandler(b, door, handler, shown)), f.Log())
		if err != nil {
			return err
		}
		<-ctx.Done()
		f.Log().InfoContext(ctx, "server is stopping")
		shown.Close()
		end()
		return nil
	})
}

// newBoard returns the board of a store. Boards that share a pool share plans.
func newBoard(ctx context.Context, f *factory.Factory, b *checks.Bound, plans slots.Bound) (*board.Board, error) {
	view, err := database.NewView(f, b.Setting)
	if err != nil {
		return nil, err
	}
	return board.New(ctx, board.Config{
		DB: b.DB, Schema: f.Config().Database.Schema, Runner: b.Runner(f, nil), Self: f.Self(), Private: view.Private,
		Horizon: f.Config().Jobs.Horizon, MaxPayload: f.Config().Jobs.MaxPayload, Plans: plans, Logger: f.Log(),
		Publishing: &schedule.PublishConfig{Publisher: b.Destination, Source: f.Config().Events.Source, Schema: f.Schema()},
	})
}

// guarded serves /metrics to readers, and refuses requests for another host name than the server's.
func guarded(f *factory.Factory, door door, next http.Handler) http.Handler {
	group := metrics.NewGroup()
	group.CountFailures(door.access.Failed)
	mux := server.WithMetrics(server.ReadersOnly(door.mayRead, group.Handler()), next)
	return web.Guard(web.Names(string(f.Config().Server.Hosts)), "server.hosts", mux)
}

// healthTimeout bounds the wait of a request for the health.
const healthTimeout = 5 * time.Second

// serveHandler returns the handler of all paths.
func serveHandler(b *board.Board, door door, api, pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/api/", api)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		problems := []string{}
		v, err := b.Overview(ctx, 0)
		if err != nil {
			problems = append(problems, "the database cannot be read")
		}
		for _, f := range v.Findings {
			problems = append(problems, f.Condition)
		}
		writeProblems(w, problems, door.mayRead(r))
	})
	return mux
}

// writeProblems answers whether all is well. A reader also gets the names of the problems.
func writeProblems(w http.ResponseWriter, problems []string, reader bool) {
	health := map[string]any{"ok": len(problems) == 0}
	if reader {
		health["problems"] = problems
	}
	web.WriteHealth(w, len(problems) == 0, health)
}
