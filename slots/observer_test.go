package slots_test

import (
	"log/slog"
	"strings"
	"testing"

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
