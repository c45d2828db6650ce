package slots

import (
	"context"
	"sync/atomic"
	"time"
)

// crew is the goroutines that work on the claims of a run. They wake the goroutine of do, which claims.
type crew struct {
	going atomic.Int64
	wake  chan struct{}
}

func newCrew() *crew { return &crew{wake: make(chan struct{}, 1)} }

// start starts the work on a claim.
func (c *crew) start(work func()) {
	c.going.Add(1)
	go func() {
		defer c.changed()
		defer c.going.Add(-1)
		work()
	}()
}

// isBusy reports whether work goes on.
func (c *crew) isBusy() bool { return c.going.Load() > 0 }

// join waits until no work goes on.
func (c *crew) join() {
	for c.isBusy() {
		<-c.wake
	}
}

// changed wakes the goroutine of do: something to claim may have room now.
func (c *crew) changed() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// wait returns true if something has changed, and false if ctx ends, or after limit.
func (c *crew) wait(ctx context.Context, limit time.Duration) bool {
	select {
	case <-c.wake:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}
