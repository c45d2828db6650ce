package cmd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// runDaemons runs a daemon for each store, until ctx ends. It retries a store that cannot be used.
func runDaemons(ctx context.Context, a *App, ping *pinger) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	gate, err := a.gate()
	if err != nil {
		return err
	}
	pools, all := a.newPools(nil), metrics.NewGroup()
	defer func() { err = errors.Join(err, pools.Close()) }()
	group, err := daemon.NewMulti(ctx, daemon.MultiConfig{
		Listen: a.Config().Daemon.Listen, Hosts: a.daemonHosts(), MayRead: gate.access.Allows,
		Handler: gate.withMetrics(all, nil), Systemd: true, Logger: a.log,
	})
	if err != nil {
		return err
	}
	defer group.Close()
	k := multistore.Keeper{Pools: pools, Every: findAgain}
	var mu sync.Mutex
	var failed error // the error of recording, after all were stopped
	k.Run = func(own context.Context, s multistore.Store) error {
		a := a.of(s, pools)
		a.metrics = metrics.NewStore(a.scope.Store)
		return a.daemon(own, gate, ping, func(cfg daemon.Config) error {
			all.Add(a.metrics)
			err := group.Run(own, a.scope.Store, cfg)
			if err != nil && ctx.Err() != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, fmt.Errorf("store %s: %w", a.scope.Store, err))
			}
			return err
		})
	}
	k.Failed = func(store string, err error) {
		switch {
		case err == nil:
			group.Gone(store)
			all.Remove(store)
			ping.gone(store)
		case errors.Is(err, slots.ErrAbandoned):
			end(err) // only the end of the process ends such a check
		case ctx.Err() == nil:
			a.log.ErrorContext(ctx, "the store cannot be run; trying again", "store", store, "error", a.named(err.Error()+hint(err)))
			group.Down(store, err)
		}
	}
	k.Keep(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, slots.ErrAbandoned) {
		return errors.Join(cause, failed)
	}
	return failed
}
