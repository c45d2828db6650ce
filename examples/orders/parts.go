package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// partSize is how many orders justify a replay of their own.
const partSize = 2000

// partsOf returns in how many parts to play orders. A replay runs one slot after another, so it
// uses less than two processors. The result for an order does not depend on other orders.
func partsOf(orders []order) int {
	return max(1, min(len(orders)/partSize, runtime.GOMAXPROCS(0), 4))
}

// playParts plays orders in parts, by the time they were placed, each in a replay of its own,
// concurrently. It calls progress with the sum of all parts, from one goroutine at a time.
func playParts(
	ctx context.Context, db *sqlx.DB, orders []order, r rule, parts int, progress func(summary),
) (summary, error) {
	if len(orders) == 0 {
		return summary{}, nil
	}
	started := time.Now() //nolint:forbidigo // measures
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orders = slices.SortedStableFunc(slices.Values(orders), func(a, b order) int { return a.placedAt.Compare(b.placedAt) })
	sums := make([]summary, parts)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var first error // the others only say that they were stopped because of it
	for i := range parts {
		part := orders[len(orders)*i/parts : len(orders)*(i+1)/parts]
		wg.Go(func() {
			sum, err := play(ctx, db, part, r, func(s summary) {
				mu.Lock()
				defer mu.Unlock()
				sums[i] = s
				progress(total(sums))
			})
			mu.Lock()
			defer mu.Unlock()
			sums[i] = sum
			if err != nil && first == nil {
				first = err
				cancel()
			}
		})
	}
	wg.Wait()
	sum := total(sums)
	sum.took = time.Since(started)
	return sum, first
}

// total adds up the results, and sorts alerts by slot, order and kind, texts by their bytes.
func total(sums []summary) summary {
	var t summary
	for _, s := range sums {
		t.orders += s.orders
		t.slots += s.slots
		t.asked += s.asked
		t.cancelled += s.cancelled
		t.checks += s.checks
		t.ended += s.ended
		t.alerts = append(t.alerts, s.alerts...)
	}
	slices.SortFunc(t.alerts, func(a, b alert) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.Alert, b.Alert))
	})
	return t
}
