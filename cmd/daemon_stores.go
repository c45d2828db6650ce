package cmd

import (
	"context"
	"errors"
	"fmt"
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

	work   sync.WaitGroup
	mu     sync.Mutex
	runs   map[string]context.CancelFunc // ends the daemon of a store that has one
	failed error                         // what could not be recorded when they were stopped
}

// runDaemons runs a daemon for each store, until ctx ends. One that cannot be used is tried again.
func runDaemons(ctx context.Context, a *App, ping *pinger) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	d := &daemons{App: a, fleet: newFleet(a), metrics: metrics.NewGroup(), ping: ping, end: end, runs: map[string]context.CancelFunc{}}
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
		return errors.Join(cause, d.failed)
	}
	return d.failed
}

// keep finds the stores of an entry of the settings again and again, runs those that are not run, and ends those that are gone.
func (d *daemons) keep(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(findAgain)
	defer ticker.Stop()
	were := map[string]bool{}
	for {
		list, known := d.fleet.find(ctx, d.App, entry)
		are := map[string]bool{}
		for _, s := range list {
			are[s.name], were[s.name] = true, true
			d.begin(ctx, s)
		}
		for name := range were {
			if known && !are[name] {
				delete(were, name)
				d.gone(name)
			}
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
	if d.runs[s.name] != nil {
		return
	}
	own, end := context.WithCancel(ctx)
	d.runs[s.name] = end
	d.work.Go(func() {
		defer end()
		begun, err := d.run(own, s)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.runs, s.name)
		switch {
		case errors.Is(err, slots.ErrAbandoned):
			d.end(err) // only the end of the process ends such a check
		case ctx.Err() != nil:
			if begun && err != nil {
				d.failed = errors.Join(d.failed, fmt.Errorf("store %s: %w", s.name, err))
			}
		case own.Err() != nil:
			d.forget(s.name)
		case err != nil:
			d.log.ErrorContext(ctx, "the store cannot be run; trying again", "store", s.name, "error", d.named(err.Error()+hint(err)))
			d.group.Down(s.name, err)
		}
	})
}

// gone ends the daemon of a store that is there no more.
func (d *daemons) gone(store string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := d.runs[store]; end != nil {
		end()
		return
	}
	d.forget(store)
}

// forget no longer tells how a store is.
func (d *daemons) forget(store string) {
	d.group.Gone(store)
	d.metrics.Remove(store)
	d.ping.gone(store)
}

// run runs the daemon of a store until it ends. begun: it has tried to run slots.
func (d *daemons) run(ctx context.Context, s store) (begun bool, err error) {
	if s.err != nil {
		return false, s.err
	}
	one := *d.App
	one.enter(s)
	one.many, one.fleet = false, d.fleet
	one.log, one.metrics = d.log.With("store", s.name), metrics.NewStore(s.name)
	err = one.daemon(ctx, d.ping, func(cfg daemon.Config) error {
		begun = true
		d.metrics.Add(one.metrics)
		return d.group.Run(ctx, s.name, cfg)
	})
	return begun, err
}
