package multistore

import (
	"context"
	"sync"
	"time"

	"github.com/prescient-go/prescient/config"
)

// Keeper keeps a function running for each store that the command works on, concurrently. It starts
// the function again after a failure, and for stores that are made later.
type Keeper struct {
	Pools *Pools
	// Every is the time between two searches for stores that are new, gone, or failed.
	Every time.Duration
	// Run goes on for one store until ctx ends.
	Run func(ctx context.Context, s Store) error
	// Failed is told why Run ended early. A nil error says that the store does not exist any more.
	Failed func(store string, err error)

	work sync.WaitGroup
	mu   sync.Mutex
	runs map[string]context.CancelFunc // ends Run, by store
}

// Keep returns when ctx has ended, and Run for every store.
func (k *Keeper) Keep(ctx context.Context) {
	k.runs = map[string]context.CancelFunc{}
	for _, entry := range k.Pools.cfg.List.entries() {
		k.work.Go(func() { k.find(ctx, entry) })
	}
	<-ctx.Done()
	k.work.Wait()
}

// find looks for the stores of an entry of the settings until ctx ends. It starts Run for the
// stores that lack it, and ends it for those that are gone. At first the entry counts as a store.
func (k *Keeper) find(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(k.Every)
	defer ticker.Stop()
	were := map[string]bool{entry.Name: true}
	for {
		list, known := k.Pools.find(ctx, entry)
		are := map[string]bool{}
		for _, s := range list {
			are[s.Name], were[s.Name] = true, true
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

// begin starts Run for a store, unless it is running.
func (k *Keeper) begin(ctx context.Context, s Store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[s.Name] != nil {
		return
	}
	own, end := context.WithCancel(ctx)
	k.runs[s.Name] = end
	k.work.Go(func() {
		defer end()
		err := s.Err
		if err == nil {
			err = k.Run(own, s)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.runs, s.Name)
		switch {
		case ctx.Err() == nil && own.Err() != nil:
			k.Failed(s.Name, nil)
		case err != nil:
			k.Failed(s.Name, err)
		}
	})
}

// gone ends Run for a store that does not exist any more.
func (k *Keeper) gone(store string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if end := k.runs[store]; end != nil {
		end()
		return
	}
	k.Failed(store, nil)
}
