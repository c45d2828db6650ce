package slots_test

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// broken panics in every method.
type broken struct{}

func (broken) Recorded([]slots.Recorded) { panic("metrics are broken") }
func (broken) Ran(slots.Result, error)   { panic("metrics are broken") }
func (broken) progress(slots.Progress)   { panic("the bar is broken") }

// A panic of an observer does not end a run: it is logged once.
func TestAPanicOfWhoeverIsToldOfARunEndsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 120)
	var log strings.Builder
	result := w.run(slot(1), func(c *slots.Config) {
		c.Observer, c.Progress, c.Logger = broken{}, broken{}.progress, slog.New(slog.NewTextHandler(&log, nil))
	})
	if result.Finished != 120 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	for _, said := range []string{"function=Observer.Recorded", "function=Observer.Ran", "function=Progress"} {
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("%q is said %d times:\n%s", said, n, log.String())
		}
	}
}

func TestProgressIsNeverToldConcurrently(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("first", jobs.Row(done))
	w.registry.Register("second", jobs.Row(done))
	w.enqueue("first", slot(1), 1)
	w.enqueue("second", slot(2), 1)
	w.clock.Set(slot(2))
	var going, calls atomic.Int64
	together := make(chan struct{})
	runner := w.runner(func(c *slots.Config) {
		c.Progress = func(slots.Progress) {
			calls.Add(1)
			if going.Add(1) > 1 {
				close(together)
			}
			defer going.Add(-1)
			select {
			case <-together:
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	var work sync.WaitGroup
	for n := 1; n <= 2; n++ {
		work.Go(func() {
			if _, err := runner.Run(t.Context(), slot(n)); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
	select {
	case <-together:
		t.Error("two calls at once")
	default:
	}
}
