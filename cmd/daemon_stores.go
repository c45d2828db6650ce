package cmd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// findAgain is how often a daemon looks for stores that are new, or could not be used.
var findAgain = 30 * time.Second

// daemons is a daemon of many stores.
type daemons struct {
	*App
	fleet   *fleet
	group   *daemon.Fleet
	metrics *metrics.Group
	ping    *pinger
	end     context.CancelCauseFunc // of all of them

	work sync.WaitGroup
	mu   sync.Mutex
	runs map[string]bool // stores that have a daemon
}

// runDaemons runs a daemon for each store, until ctx ends. One that cannot be used is tried again.
func runDaemons(ctx context.Context, a *App, ping *pinger) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d := &daemons{App: a, fleet: newFleet(a), metrics: metrics.NewGroup(), ping: ping, end: end, runs: map[string]bool{}}
	defer func() { err = errors.Join(err, d.fleet.close()) }()
	d.group, err = daemon.NewFleet(ctx, daemon.FleetConfig{
		Listen: a.Config().Daemon.Listen, Handler: withMetrics(d.metrics.Handler(), nil), Systemd: true, Logger: a.log,
	})
	if err != nil {
		return err
	}
	defer d.group.Close()
	for _, entry := range a.chosenStores() {
		d.work.Go(func() { d.keep(ctx, entry) })
	}
	<-ctx.Done()
	d.work.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, slots.ErrAbandoned) {
		return cause
	}
	return nil
}

// keep finds the stores of an entry of the settings again and again, and runs those that are not run.
func (d *daemons) keep(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(findAgain)
	defer ticker.Stop()
	for {
		for _, s := range d.fleet.find(ctx, d.App, entry) {
			d.begin(ctx, s)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// begin begins the daemon of a store, unless it has one.
func (d *daemons) begin(ctx context.Context, s store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs[s.name] {
		return
	}
	d.runs[s.name] = true
	d.work.Go(func() {
		err := d.run(ctx, s)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.runs, s.name)
		switch {
		case errors.Is(err, slots.ErrAbandoned):
			d.end(err) // only the end of the process ends such a check
		case err != nil && ctx.Err() == nil:
			d.log.ErrorContext(ctx, "the store cannot be run; trying again", "store", s.name, "error", d.named(err.Error()+hint(err)))
			d.group.Down(s.name, err)
		}
	})
}

// run runs the daemon of a store until it ends.
func (d *daemons) run(ctx context.Context, s store) error {
	if s.err != nil {
		return s.err
	}
	one := *d.App
	one.enter(s)
	one.many, one.fleet = false, d.fleet
	one.log, one.metrics = d.log.With("store", s.name), metrics.NewStore(s.name)
	return one.daemon(ctx, d.ping, func(cfg daemon.Config) error {
		d.metrics.Add(one.metrics)
		return d.group.Run(ctx, s.name, cfg)
	})
}
