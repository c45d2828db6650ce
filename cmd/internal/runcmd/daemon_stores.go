package runcmd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prescient-go/prescient/cmd/internal/advice"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/cmd/internal/server"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// runDaemons runs a daemon for each store, until ctx ends. It retries a store that cannot be used.
func runDaemons(ctx context.Context, f *factory.Factory, gate gate, ping *pinger) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	pools, all := database.NewPools(f), metrics.NewGroup()
	defer func() { err = errors.Join(err, pools.Close()) }()
	group, err := daemon.NewMulti(ctx, daemon.MultiConfig{
		Listen: f.Config().Daemon.Listen, Hosts: daemonHosts(f), MayRead: gate.access.Allows,
		Handler: gate.withMetrics(all, nil), Systemd: true, Logger: f.Log(),
	})
	if err != nil {
		return err
	}
	defer group.Close()
	k := multistore.Keeper{Pools: pools, Every: server.FindAgain}
	var mu sync.Mutex
	var failed error // the error of recording, after all were stopped
	k.Run = func(own context.Context, s multistore.Store) error {
		m := metrics.NewStore(s.Name)
		return runStore(own, f.Of(s, pools), gate, ping, m, func(cfg daemon.Config) error {
			all.Add(m)
			err := group.Run(own, s.Name, cfg)
			if err != nil && ctx.Err() != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, fmt.Errorf("store %s: %w", s.Name, err))
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
			f.Log().ErrorContext(ctx, "the store cannot be run; trying again", "store", store, "error", advice.Hint(f, err))
			group.Down(store, err)
		}
	}
	k.Keep(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, slots.ErrAbandoned) {
		return errors.Join(cause, failed)
	}
	return failed
}
