package multistore

import (
	"context"
	"slices"
	"sync"
)

// Visit calls fn for each store that the command works on, concurrently, and returns the results in
// the order of the settings. A store that is not the first of
// them repeats it: what concerns the machine is done for the first one.
func Visit[T any](ctx context.Context, p *Pools, fn func(ctx context.Context, s Store) T) []T {
	entries := p.cfg.List.entries()
	results := make([][]T, len(entries))
	var work sync.WaitGroup
	for i, entry := range entries {
		work.Go(func() { // a server that is down delays neither another server nor the search for that one's schemas
			list, _ := p.find(ctx, entry)
			results[i] = make([]T, len(list))
			for j, s := range list {
				s.Repeats = i+j > 0
				work.Go(func() { results[i][j] = fn(ctx, s) })
			}
		})
	}
	work.Wait()
	return slices.Concat(results...)
}
