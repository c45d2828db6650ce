package cmd

import (
	"context"
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
	runs map[string]context.CancelFunc // ends it for a store for which it goes on
}

// keep returns when ctx has ended, and run for every store.
func (k *keeper) keep(ctx context.Context) {
	k.runs = map[string]context.CancelFunc{}
	for _, entry := range k.chosenStores() {
		k.work.Go(func() { k.find(ctx, entry) })
	}
	<-ctx.Done()
	k.work.Wait()
}

// find finds the stores of an entry of the settings again and again, begins with those that are not run, and ends those that are gone.
func (k *keeper) find(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(findAgain)
	defer ticker.Stop()
	were := map[string]bool{}
	for {
		list, known := k.fleet.find(ctx, k.App, entry)
		are := map[string]bool{}
		for _, s := range list {
			are[s.name], were[s.name] = true, true
			k.begin(ctx, s)
		}
		for name := range were {
			if known && !are[name] {
				delete(were, name)
				k.gone(name)
			}
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
	if k.runs[s.name] != nil {
		return
	}
	own, end := context.WithCancel(ctx)
	k.runs[s.name] = end
	k.work.Go(func() {
		defer end()
		err := k.one(own, s)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.runs, s.name)
		switch {
		case ctx.Err() == nil && own.Err() != nil:
			k.failed(s.name, nil)
		case err != nil:
			k.failed(s.name, err)
		}
	})
}

// gone ends what goes on for a store that is there no more.
func (k *keeper) gone(store string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if end := k.runs[store]; end != nil {
		end()
		return
	}
	k.failed(store, nil)
}

func (k *keeper) one(ctx context.Context, s store) error {
	if s.err != nil {
		return s.err
	}
	return k.run(ctx, k.of(s, k.fleet))
}
