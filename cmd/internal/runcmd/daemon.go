package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/httpserver"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// NewCmdDaemon returns the command daemon.
func NewCmdDaemon(f *factory.Factory) *cobra.Command {
	c := factory.OnStores(&cobra.Command{
		Use:   "daemon",
		Short: "Run every slot as it begins, and catch up in between: no cron needed",
		Long: `Run every slot as it begins, and catch up in between, until a signal. Any number of daemons,
on any machines, share each slot, also with runs that cron starts. Each claims the next rows, so an
idle daemon claims more. The other daemons take over the rows of one that dies.

A slot that takes longer than the width runs beside the next one. Each of the two, and catch-up,
has its own run.workers and run.connections. So the daemon needs up to 3 x (run.connections + 5)
connections, 5 more for a second catch-up, 1 for the metrics, and 4 if rules were applied. If
history.retention is set, it also does once a day what "jobs prune" and "events prune" do.

If alerts.receiver is set, it looks for findings of "status" every 20 seconds, and tells the receiver of them as "run"
does.

On SIGTERM, SIGINT or SIGHUP it finishes the running checks within run.grace, records them and exits 0. It does not read
its settings again. It exits 1 if a check has ignored its timeout: only the end of the process ends such a check. A
supervisor must then restart the daemon. The daemon does not start without a database. It waits up to 10 minutes for a
server that starts or recovers. If it loses the database later, it waits.

With --listen or server.listen it also serves the pages and the API of "serve", with the same tokens
and host names. They use up to run.connections + 5 more connections, and the daemon's database role.
The role of a runner may read everything. An action that needs an operator is refused. On an address
that other machines reach, without server.token and server.read_token, it serves only health and
metrics:
  /healthz  for monitoring: 200, or 503 when "status --check" finds something or the database does not answer; for
            readers its JSON has the problems in words
  /readyz   200 if it runs slots: the database answers, and no stop is under way
  /livez    503 only when the daemon hangs, so that restarting it helps
  /metrics  for Prometheus

Under systemd, with Type=notify, it reports when it is ready and its state, and it feeds the watchdog.`,
		Example: `  prescient daemon
  PRESCIENT_LOG_FORMAT=json prescient daemon --listen localhost:8088
  curl -fsS localhost:8088/healthz`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runDaemon(c.Context(), f) },
	})
	config.RunFlags(c.Flags())
	config.ServerFlags(c.Flags(), "server.listen of the configuration, else no server")
	return c
}

// daemons runs a daemon for each store of the command.
type daemons struct {
	all     *daemon.Multi
	metrics *metrics.Group
	ping    *pinger
	alone   string                  // the name of the store that the command works on alone; empty: it has none
	apart   bool                    // slots have connections of their own, because the pages use those of the Factory
	ctx     context.Context         // ends when the command begins to stop
	end     context.CancelCauseFunc // ends ctx

	mu     sync.Mutex
	failed error // the errors of recording in several stores, after all were stopped
}

func runDaemon(ctx context.Context, f *factory.Factory) (err error) {
	ping, err := newPinger(f)
	if err != nil {
		return err
	}
	served, err := httpserver.New(ctx, f, f.Config().Server.Listen)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	d := &daemons{
		all: daemon.NewMulti(reserved.Caller{}, ctx,
			daemon.MultiConfig{MayRead: served.MayRead, Systemd: true, Logger: f.Log()}),
		metrics: served.Metrics, ping: ping, alone: f.Store().Name, apart: served.Listens(), ctx: ctx, end: end,
	}
	defer func() {
		end(nil)
		d.all.Close()
	}()
	err = served.Run(ctx, httpserver.Work{Run: d.run, Ended: d.ended, Health: d.all.Handler()})
	if cause := context.Cause(ctx); errors.Is(cause, slots.ErrAbandoned) {
		err = errors.Join(cause, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(err, d.failed)
}

// run runs the slots of a store until ctx ends.
func (d *daemons) run(ctx context.Context, f *factory.Factory) error {
	if d.apart {
		f = f.Apart()
	}
	m, begun := metrics.NewStore(f.Store().Name), false
	err := checks.With(ctx, f, m, func(b *checks.Bound) error {
		begun = true
		cfg := daemon.Config{
			Runner: b.Runner(f, nil), Keep: f.Config().History.Retention, BeforeRun: d.ping.begins,
			AfterRun: func(ctx context.Context, result slots.Result, err error) {
				d.ping.ran(ctx, f.Store().Name, result, err)
			},
		}
		b.Watch(f)
		d.metrics.Add(m)
		name := f.Store().Own()
		if name == "" {
			b.DB.SetMaxOpenConns(cfg.Pool() + 1) // one is for the metrics
		}
		err := b.Forward(ctx, f, false, func() error {
			d.ping.works(f.Store().Name)
			return d.all.Run(ctx, name, cfg)
		})
		if name == "" {
			return err
		}
		if err != nil && d.ctx.Err() != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failed = errors.Join(d.failed, fmt.Errorf("store %s: %w", name, err))
		}
		return err
	})
	if !begun && ctx.Err() != nil {
		return nil // stopped while it connected
	}
	return err
}

// ended is told why a store is not run; see database.Keep.
func (d *daemons) ended(store string, err error) {
	name := cmp.Or(store, d.alone)
	switch {
	case err == nil:
		d.all.Gone(store)
		d.metrics.Remove(name)
		d.ping.works(name)
	case errors.Is(err, slots.ErrAbandoned):
		d.end(err) // only the end of the process ends such a check
	default:
		d.all.Down(store, err)
		d.metrics.Add(metrics.NewStore(name)) // which says that its database has not answered
		d.ping.fails(name)
	}
}
