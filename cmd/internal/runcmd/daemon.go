package runcmd

import (
	"context"
	"net/http"
	"os"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/each"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/server"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// NewCmdDaemon returns the command daemon.
func NewCmdDaemon(f *factory.Factory) *cobra.Command {
	c := each.Help(&cobra.Command{
		Use:   "daemon",
		Short: "Run every slot as it begins, and catch up in between: no cron needed",
		Long: `Run every slot as it begins, and catch up in between, until SIGTERM. Any number of daemons, on any machines, share
each slot, also with runs that cron starts. Each claims the next rows, so an idle daemon claims more. The other daemons
take over the rows of one that dies.

A slot that takes longer than the width runs beside the next one. Each of the two, and catch-up, has its own --workers
and --connections, so the daemon needs up to 3 x (--connections + 5) connections, and 4 more if rules were applied. If
history.retention is set, it also does once a day what "jobs prune" does.

On SIGTERM it finishes the running checks within run.grace, records them and exits 0. It exits 1 if a check has ignored
its timeout: only the end of the process ends such a check. A supervisor must then restart the daemon. The daemon does
not start without a database. If it loses the database later, it waits.

With --listen it serves
  /healthz  for monitoring: 200, or 503 when "status --check" finds something or the database does not answer; with
            server.token or server.read_token its JSON has the problems in words
  /readyz   200 if it runs slots: the database answers, and no stop is under way
  /livez    503 only when the daemon hangs, so that restarting it helps
  /metrics  for Prometheus; reading them takes one more connection. If a token is set, they need one
  /schedules, /changes, /preview, /openapi.json  recurring schedules, for clients that know server.token or server.read_token
It answers only to these host names: localhost, addresses, the name of the machine, names of Kubernetes services
(NAME.NAMESPACE.svc) and server.hosts.

Under systemd, with Type=notify, it reports when it is ready and its state, and it feeds the watchdog.`,
		Example: `  prescient daemon
  prescient daemon --listen localhost:8080 --log-format json
  curl -fsS localhost:8080/healthz`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runDaemon(c.Context(), f) },
	})
	config.RunFlags(c.Flags())
	config.DaemonFlags(c.Flags())
	checks.EventFlags(c)
	return c
}

func runDaemon(ctx context.Context, f *factory.Factory) error {
	ping, err := newPinger(f)
	if err != nil {
		return err
	}
	server.WarnUnencrypted(ctx, f)
	gate, err := newGate(f)
	if err != nil {
		return err
	}
	if f.One() != nil {
		return runDaemons(ctx, f, gate, ping)
	}
	m := metrics.NewStore(f.Scope().Store)
	return runStore(ctx, f, gate, ping, m, func(cfg daemon.Config) error {
		all := metrics.NewGroup()
		all.Add(m)
		cfg.Listen, cfg.Hosts, cfg.MayRead = f.Config().Daemon.Listen, daemonHosts(f), gate.access.Allows
		cfg.Handler, cfg.Systemd = gate.withMetrics(all, cfg.Handler), true
		return daemon.Run(ctx, cfg)
	})
}

// gate decides who may send requests to a daemon.
type gate struct {
	access *web.Access
	tokens bool // there are some
}

func newGate(f *factory.Factory) (gate, error) {
	keys, err := server.Keys(f)
	if err != nil {
		return gate{}, err
	}
	return gate{web.NewAccess(keys, nil, f.Log()), len(keys) > 0}, nil
}

// daemonHosts returns the names that a daemon answers to, besides the names that package daemon
// adds. In a cluster they include the names of its services, which no site on the internet can
// have.
func daemonHosts(f *factory.Factory) []string {
	names := web.Names(string(f.Config().Server.Hosts))
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
		handler = server.ReadersOnly(g.access.Allows, handler)
	}
	return server.WithMetrics(handler, next)
}

// runStore calls run with the configuration of a daemon for the database of the settings. Its
// handler serves the schedules.
func runStore(ctx context.Context, f *factory.Factory, gate gate, ping *pinger, m *metrics.Metrics, run func(cfg daemon.Config) error) error {
	return checks.With(ctx, f, m, func(b *checks.Bound) error {
		api, err := schedulesAPI(ctx, f, gate, b.DB)
		if err != nil {
			return err
		}
		cfg := daemon.Config{
			Runner: b.Runner(f, nil), Keep: f.Config().History.Retention, Handler: api, BeforeRun: ping.begins,
			AfterRun: func(ctx context.Context, result slots.Result, err error) { ping.ran(ctx, f.Scope().Store, result, err) },
		}
		b.Watch(f)
		if f.Scope().Pools == nil {
			b.DB.SetMaxOpenConns(cfg.Pool() + 1) // one is for the metrics
		}
		return run(cfg)
	})
}

// schedulesAPI returns the handler of the schedules, or nil if no token is set.
func schedulesAPI(ctx context.Context, f *factory.Factory, gate gate, db *sqlx.DB) (http.Handler, error) {
	if !gate.tokens {
		return nil, nil
	}
	store, err := database.Schedules(ctx, f, db)
	if err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Config{Store: store, DB: db, Access: gate.access, Logger: f.Log()})
}
