package multistore

import (
	"context"
	"slices"
	"sync"
)

// Visit calls fn for each store that the command works on, concurrently, and returns the results in
// the order of the settings. first says that the store is the first of them.
func Visit[T any](ctx context.Context, p *Pools, fn func(ctx context.Context, s Store, first bool) T) []T {
	entries := p.cfg.List.entries()
	results := make([][]T, len(entries))
	var work sync.WaitGroup
	for i, entry := range entries {
		work.Go(func() { // a server that is down delays neither another server nor the search for that one's schemas
			list, _ := p.find(ctx, entry)
			results[i] = make([]T, len(list))
			for j, s := range list {
				work.Go(func() { results[i][j] = fn(ctx, s, i+j == 0) })
			}
		})
	}
	work.Wait()
	return slices.Concat(results...)
}
