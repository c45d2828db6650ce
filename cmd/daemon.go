package cmd

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

func newDaemon(a *App) *cobra.Command {
	c := overAll(&cobra.Command{
		Use:   "daemon",
		Short: "Run every slot as it begins, and catch up in between: no cron needed",
		Long: `Run every slot as it begins, and catch up in between, until SIGTERM. Any number of daemons, on any machines, share
each slot, also with runs that cron starts. Each claims the next rows, so an idle daemon claims more. The other daemons
take over the rows of one that dies.

A slot that takes longer than the width runs beside the next one. Each of the two, and catch-up, has its own --workers
and --connections, so the daemon needs up to 3 x (--connections + 5) connections. If history.retention is set, it also
does once a day what "jobs prune" does.

On SIGTERM it finishes the running checks within run.grace, records them and exits 0. It exits 1 if a check has ignored
its timeout: only the end of the process ends such a check. A supervisor must then restart the daemon. The daemon does
not start without a database. If it loses the database later, it waits.

With --listen it serves
  /healthz  for monitoring: 200, or 503 when "status --check" finds something or the database does not answer; with
            daemon.token or daemon.read_token its JSON has the problems in words
  /readyz   200 if it runs slots: the database answers, and no stop is under way
  /livez    503 only when the daemon hangs, so that restarting it helps
  /metrics  for Prometheus; reading them takes one more connection. If a token is set, they need one
  /schedules, /changes, /preview, /openapi.json  recurring schedules, for clients that know daemon.token or daemon.read_token
It answers only to these host names: localhost, addresses, the name of the machine, names of Kubernetes services
(NAME.NAMESPACE.svc) and daemon.hosts.

Under systemd, with Type=notify, it reports when it is ready and its state, and it feeds the watchdog.`,
		Example: `  prescient daemon
  prescient daemon --listen localhost:8080 --log-format json
  curl -fsS localhost:8080/healthz`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runDaemon(c.Context(), a) },
	})
	config.RunFlags(c.Flags())
	config.DaemonFlags(c.Flags())
	eventFlags(c)
	return c
}

func runDaemon(ctx context.Context, a *App) error {
	ping, err := a.pinger()
	if err != nil {
		return err
	}
	a.warnOfClear(ctx)
	if a.scope.Many {
		return runDaemons(ctx, a, ping)
	}
	gate, err := a.gate()
	if err != nil {
		return err
	}
	a.metrics = metrics.NewStore(a.scope.Store)
	defer func() { a.metrics = nil }()
	return a.daemon(ctx, gate, ping, func(cfg daemon.Config) error {
		all := metrics.NewGroup()
		all.Add(a.metrics)
		cfg.Listen, cfg.Hosts, cfg.MayRead = a.Config().Daemon.Listen, a.daemonHosts(), gate.access.Allows
		cfg.Handler, cfg.Systemd = gate.withMetrics(all, cfg.Handler), true
		return daemon.Run(ctx, cfg)
	})
}

// gate decides who may send requests to a daemon.
type gate struct {
	access *web.Access
	tokens bool // there are some
}

func (a *App) gate() (gate, error) {
	cfg := a.Config().Daemon
	keys, err := web.NewNamedKeys(strings.Fields(cfg.Token.Reveal()), strings.Fields(cfg.ReadToken.Reveal()))
	if err != nil {
		return gate{}, usagef("daemon.token, daemon.read_token: %w", err)
	}
	return gate{web.NewAccess(keys, nil, a.log), len(keys) > 0}, nil
}

// daemonHosts returns the names that a daemon answers to, besides the names that package daemon
// adds. In a cluster they include the names of its services, which no site on the internet can
// have.
func (a *App) daemonHosts() []string {
	names := web.Names(a.Config().Daemon.Hosts)
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		names = append(names, ".svc", ".svc.cluster.local")
	}
	return names
}

// withMetrics serves the metrics of a group, and every other path through next. If tokens are set,
// only a request with a token gets the metrics.
func (g gate) withMetrics(group *metrics.Group, next http.Handler) http.Handler {
	group.CountFailures(g.access.Failed)
	handler := group.Handler()
	if g.tokens {
		handler = readersOnly(g.access.Allows, handler)
	}
	return withMetrics(handler, next)
}

// daemon calls run with the configuration of a daemon for the database of the settings. Its handler
// serves the schedules.
func (a *App) daemon(ctx context.Context, gate gate, ping *pinger, run func(cfg daemon.Config) error) error {
	return a.withChecks(ctx, func(db *sqlx.DB, registry *jobs.Registry) error {
		api, err := a.schedulesAPI(ctx, gate, db)
		if err != nil {
			return err
		}
		cfg := daemon.Config{
			Runner: a.runnerConfig(db, registry, nil), Keep: a.Config().History.Retention, Handler: api, BeforeRun: ping.begins,
			AfterRun: func(ctx context.Context, result slots.Result, err error) { ping.ran(ctx, a.scope.Store, result, err) },
		}
		a.watch(db, registry)
		if a.scope.Pools == nil {
			db.SetMaxOpenConns(cfg.Pool() + 1) // one is for the metrics
		}
		return run(cfg)
	})
}

// schedulesAPI returns the handler of the schedules, or nil if no token is set.
func (a *App) schedulesAPI(ctx context.Context, gate gate, db *sqlx.DB) (http.Handler, error) {
	if !gate.tokens {
		return nil, nil
	}
	store, err := a.schedules(ctx, db)
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{Store: store, DB: db, Access: gate.access, Logger: a.log})
}
