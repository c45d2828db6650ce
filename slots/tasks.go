package slots

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/lane"
)

// tasks are the goroutines that work on the claims of a run. They wake the goroutine that claims.
type tasks struct {
	wake chan struct{}

	mu    sync.Mutex
	going map[*work]bool
}

func newTasks() *tasks { return &tasks{wake: make(chan struct{}, 1), going: map[*work]bool{}} }

// start starts a goroutine that calls fn to work on a claim.
func (t *tasks) start(w *work, fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.going[w] = true
	go func() {
		defer t.changed()
		defer t.end(w)
		fn()
	}()
}

func (t *tasks) end(w *work) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.going, w)
}

// list returns the claims that goroutines work on.
func (t *tasks) list() []*work {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.going))
}

// isBusy reports whether a goroutine runs.
func (t *tasks) isBusy() bool { return len(t.list()) > 0 }

// starting returns the lanes of the claims that have rows to start which wait for nothing but room.
func (t *tasks) starting() (lanes []*lane.Lane) {
	for _, w := range t.list() {
		if w.wait.current() == nil && w.account.Unstarted() > 0 {
			lanes = append(lanes, w.lanes...)
		}
	}
	return lanes
}

// isLimited reports whether a claim has or wants permits of a limit.
func (t *tasks) isLimited() bool {
	return slices.ContainsFunc(t.list(), func(w *work) bool { return len(w.limits()) > 0 })
}

// isLocked reports whether there are claims, and each of them waits for locks alone.
func (t *tasks) isLocked() bool {
	list := t.list()
	return len(list) > 0 && !slices.ContainsFunc(list, func(w *work) bool {
		p := w.wait.current()
		return p == nil || p.others
	})
}

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

// wait returns true if something has changed, and false if ctx ends, or after idleEvery.
func (t *tasks) wait(ctx context.Context) bool {
	select {
	case <-t.wake:
		return true
	case <-time.After(idleEvery):
	case <-ctx.Done():
	}
	return false
}
