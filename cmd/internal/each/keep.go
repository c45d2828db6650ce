package each

import (
	"context"
	"errors"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/advice"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
)

// FindAgain is how often Keep looks for stores that are new, or that it could not use. A test
// shortens it.
var FindAgain = 30 * time.Second

// Keep runs fn for each store that the command works on, concurrently, until ctx ends. It tries again
// if fn fails, and begins with stores that are made later. ended is told why fn ended early; a nil
// error says that the store does not exist any more. A store that the command works on alone is not
// tried again: Keep returns its error.
func Keep(
	ctx context.Context, f *factory.Factory, fn func(ctx context.Context, f *factory.Factory) error,
	ended func(store string, err error),
) (err error) {
	if f.One() == nil {
		return fn(ctx, f)
	}
	pools := database.NewPools(f)
	defer func() { err = errors.Join(err, pools.Close()) }()
	k := multistore.Keeper{Pools: pools, Every: FindAgain}
	k.Run = func(ctx context.Context, s multistore.Store) error { return fn(ctx, f.Of(s, pools)) }
	k.Failed = func(store string, err error) {
		ended(store, err) // which may end ctx
		if err != nil && ctx.Err() == nil {
			f.Log().ErrorContext(ctx, "the store cannot be used; trying again", "store", store, "error", advice.Hint(f, err))
		}
	}
	k.Keep(ctx)
	return nil
}

// Awaited returns the names by which Keep tells of stores before it has found them: those of the
// entries of the settings, or "" for a store that the command works on alone. For an entry that turns
// out to be no store, Keep calls ended with a nil error.
func Awaited(f *factory.Factory) []string {
	if f.One() == nil {
		return []string{""}
	}
	return f.Stores().EntryNames()
}

// Name returns the name of the store of a Factory that Keep has made, or "" for a store that the
// command works on alone.
func Name(f *factory.Factory) string {
	if f.Scope().Pools == nil {
		return ""
	}
	return f.Scope().Store
}
