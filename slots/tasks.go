package slots

import (
	"context"
	"sync/atomic"
	"time"
)

// tasks are the goroutines that work on the claims of a run. They wake the goroutine that claims.
type tasks struct {
	going atomic.Int64
	wake  chan struct{}
}

func newTasks() *tasks { return &tasks{wake: make(chan struct{}, 1)} }

// start starts a goroutine that calls fn.
func (t *tasks) start(fn func()) {
	t.going.Add(1)
	go func() {
		defer t.changed()
		defer t.going.Add(-1)
		fn()
	}()
}

// isBusy reports whether a goroutine runs.
func (t *tasks) isBusy() bool { return t.going.Load() > 0 }

// join waits until no goroutine runs.
func (t *tasks) join() {
	for t.isBusy() {
		<-t.wake
	}
}

// changed wakes the goroutine that claims: there may be room for more rows now.
func (t *tasks) changed() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// wait returns true if something has changed, and false if ctx ends, or after limit.
func (t *tasks) wait(ctx context.Context, limit time.Duration) bool {
	select {
	case <-t.wake:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}
