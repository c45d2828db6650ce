package cmd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/config"
)

// findAgain is how often stores are looked for that are new, or could not be used.
var findAgain = 30 * time.Second

// keeper keeps something going for each store of the settings, beside each other: also for those that are made later, and once more
// where it has failed.
type keeper struct {
	*App
	fleet *fleet
	// run goes on for one store, with an App that knows no other, until ctx ends.
	run func(ctx context.Context, a *App) error
	// failed is told why that has ended before; nil: the store is none any more.
	failed func(store string, err error)

	work sync.WaitGroup
	mu   sync.Mutex
	runs map[string]bool // stores for which it goes on
}

// keep returns when ctx has ended, and run for every store.
func (k *keeper) keep(ctx context.Context) {
	k.runs = map[string]bool{}
	for _, entry := range k.chosenStores() {
		k.work.Go(func() { k.find(ctx, entry) })
	}
	<-ctx.Done()
	k.work.Wait()
}

// find finds the stores of an entry of the settings again and again, and begins with those that are not run.
func (k *keeper) find(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(findAgain)
	defer ticker.Stop()
	for {
		found := k.fleet.find(ctx, k.App, entry)
		for _, s := range found {
			k.begin(ctx, s)
		}
		if !slices.ContainsFunc(found, func(s store) bool { return s.name == entry.Name }) && ctx.Err() == nil {
			k.failed(entry.Name, nil) // the pattern could not be looked for, and now it can
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// begin begins with a store, unless it goes on.
func (k *keeper) begin(ctx context.Context, s store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[s.name] {
		return
	}
	k.runs[s.name] = true
	k.work.Go(func() {
		err := k.one(ctx, s)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.runs, s.name)
		if err != nil {
			k.failed(s.name, err)
		}
	})
}

func (k *keeper) one(ctx context.Context, s store) error {
	if s.err != nil {
		return s.err
	}
	one := *k.App
	one.enter(s)
	one.many, one.fleet = false, k.fleet
	one.log = k.log.With("store", s.name)
	return k.run(ctx, &one)
}
