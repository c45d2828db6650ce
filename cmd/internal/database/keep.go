package database

import (
	"context"
	"sync"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/pg"
)

// FindAgain is how often Keep looks for stores that are new, gone, or that it could not use. A test
// shortens it.
var FindAgain = 30 * time.Second

// Keep runs fn for each store that the command works on, concurrently, until ctx ends. It tries again
// if fn fails, and begins with stores that are made later. ended is told why fn ended early; a nil
// error says that the store does not exist any more. A store that the command works on alone is not
// tried again: Keep returns its error, but for the beginning that AfterStart waits for.
func Keep(
	ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error,
	ended func(store string, err error),
) error {
	if !f.Many() {
		return AfterStart(ctx, f, func() error { return fn(ctx, f) })
	}
	k := keeper{f: f, fn: fn, runs: map[string]context.CancelFunc{}}
	k.ended = func(store string, err error) {
		ended(store, err) // which may end ctx
		if err != nil && ctx.Err() == nil {
			f.Log().ErrorContext(ctx, "the store cannot be used; trying again", "store", store, "error", Hint(f, err))
		}
	}
	for _, entry := range f.Entries() {
		k.work.Go(func() { k.find(ctx, entry) })
	}
	<-ctx.Done()
	k.work.Wait()
	return nil
}

// startTime is how long AfterStart waits. A server that recovers from a crash may take minutes.
const startTime = 10 * time.Minute

// TryAgain is how often AfterStart tries again. A test lengthens it.
var TryAgain = time.Second

// AfterStart calls fn, and calls it again while the database server says that it does not take connections yet, because
// it starts or recovers from a crash. It gives up after 10 minutes. It returns nil if ctx ends while it waits.
func AfterStart(ctx context.Context, f *factory.Factory, fn func() error) error {
	giveUp := time.NewTimer(startTime)
	defer giveUp.Stop()
	for waits := false; ; waits = true {
		err := fn()
		if !pg.HasState(err, pqerror.CannotConnectNow) || ctx.Err() != nil { // fn may have left work undone
			return err
		}
		if !waits {
			f.Log().WarnContext(ctx, "the database takes no connections yet; trying again", "error", f.Named(err.Error()))
		}
		select {
		case <-time.After(TryAgain):
		case <-giveUp.C:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// Awaited returns the names by which Keep tells of stores before it has found them: those of the
// entries of the settings, or "" for a store that the command works on alone. For an entry that turns
// out to be no store, Keep calls ended with a nil error.
func Awaited(f *factory.Factory) (names []string) {
	if !f.Many() {
		return []string{""}
	}
	for _, entry := range f.Entries() {
		if entry.IsPattern() || f.InShard(entry.Name) { // the stores of a pattern may belong to the shard
			names = append(names, entry.Name)
		}
	}
	return names
}

// keeper is a call of Keep for several stores.
type keeper struct {
	f     *factory.Factory
	fn    func(ctx context.Context, f *factory.Factory) error
	ended func(store string, err error)

	work sync.WaitGroup
	mu   sync.Mutex
	runs map[string]context.CancelFunc // ends fn, by store
}

// find looks for the stores of an entry of the settings until ctx ends. It starts fn for the stores
// that lack it, and ends it for those that are gone. At first the entry counts as a store.
func (k *keeper) find(ctx context.Context, entry config.Store) {
	ticker := time.NewTicker(FindAgain)
	defer ticker.Stop()
	were := map[string]bool{entry.Name: true}
	for {
		list, known := find(ctx, k.f, entry)
		if ctx.Err() != nil {
			return // which is why a pattern could not be listed
		}
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

// begin starts fn for a store, unless it is running.
func (k *keeper) begin(ctx context.Context, s factory.Store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[s.Name] != nil {
		return
	}
	own, cancel := context.WithCancel(ctx)
	k.runs[s.Name] = cancel
	k.work.Go(func() {
		defer cancel()
		err := s.Err
		if err == nil {
			err = k.fn(own, k.f.On(s))
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.runs, s.Name)
		switch {
		case ctx.Err() == nil && own.Err() != nil:
			k.ended(s.Name, nil)
		case err != nil:
			k.ended(s.Name, err)
		}
	})
}

// gone ends fn for a store that does not exist any more.
func (k *keeper) gone(store string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cancel := k.runs[store]; cancel != nil {
		cancel()
		return
	}
	k.ended(store, nil)
}
