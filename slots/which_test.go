package slots_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestWhichSlotARunIsFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.runner()
	for _, test := range []struct {
		name    string
		now     time.Time
		jobName string
		want    time.Time
	}{
		{"at a boundary", slot(4), "", slot(4)},
		{"after it", slot(4).Add(14 * time.Minute), "", slot(4)},
		{"a few milliseconds before a boundary it is that boundary", slot(4).Add(-3 * time.Millisecond), "", slot(4)},
		{"as early as is tolerated", slot(4).Add(-5 * time.Second), "", slot(4)},
		{"earlier it is the slot before", slot(4).Add(-6 * time.Second), "", slot(3)},
		{"a Job's name gives the slot, however late its pod starts", slot(6), "checks-31643310", time.Unix(31643310*60, 0).UTC()},
		{"a Job scheduled between two slots", slot(4), "checks-31643317", time.Unix(31643310*60, 0).UTC()},
		{"a CronJob whose own name ends in digits", slot(6), "checks-2-31643310", time.Unix(31643310*60, 0).UTC()},
		{"a Job made by hand", slot(4), "checks-manual-2", slot(4)},
		{"a name that is nothing but digits", slot(4), "31643310", slot(4)},
		{"a suffix that is not a number", slot(4), "checks-3165483x", slot(4)},
		{"a suffix in the future", slot(4), "checks-99999999", slot(4)},
		{"the ledger's first slot", slot(4), "checks-31643295", slot(1)},
		{"a suffix from before the ledger", slot(4), "checks-31643294", slot(4)},
		{"a date", slot(4), "prescient-run-20261125", slot(4)},
	} {
		w.clock.Set(test.now)
		if got := r.Due(test.jobName); !got.Equal(test.want) {
			t.Errorf("%s: at %s, Job %q: %s, want %s", test.name, test.now.Format(time.TimeOnly), test.jobName, got, test.want)
		}
	}
}

func TestARunAFewMillisecondsEarlyWaitsForTheBoundary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 1)

	// A clock that runs, from 30 ms before the boundary on.
	started := time.Now()
	running := func() time.Time { return slot(1).Add(-30*time.Millisecond + time.Since(started)) }
	r := w.runner(func(c *slots.Config) { c.Now = running })
	at := r.Due("")
	if !at.Equal(slot(1)) {
		t.Fatalf("due: %s", at)
	}
	result, err := r.Run(t.Context(), at)
	if err != nil || result.Checked != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if waited := time.Since(started); waited < 30*time.Millisecond {
		t.Errorf("the run began %s before its slot", 30*time.Millisecond-waited)
	}
}

// 13:00 is a slot of both widths, and 14:30 of the old one alone.
func TestARunRecordsOnTheGridThatWasSetWhileItWaitedForItsBoundary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var calls, looks atomic.Int64 // looks at the clock
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		calls.Add(1)
		return new(slot(4).Add(80 * time.Minute)), nil
	}))
	w.enqueue("job", slot(4), 1)
	hour, err := grid.New(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r := w.runner(func(c *slots.Config) {
		c.Now = func() time.Time {
			switch looks.Add(1) {
			case 1:
				return slot(4).Add(-time.Millisecond)
			case 2: // it has waited
				if _, err := w.ledger.SetWidth(t.Context(), hour); err != nil {
					t.Error(err)
				}
			}
			return slot(4)
		}
	})
	looks.Store(0)
	result, err := r.Run(t.Context(), slot(4))
	if err != nil || result.Rescheduled != 1 || result.State != slots.StateDone || calls.Load() != 1 {
		t.Errorf("%+v, %v, after %d calls", result, err, calls.Load())
	}
	if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(12)) {
		t.Errorf("waits: %+v, want a row at %s", list, slot(12))
	}
}

// A runner catches up after its run, as "run --catch-up" does. 15:30 is no slot of the new width.
func TestACatchUpRecordsOnTheGridThatWasSetSinceItsRunnerWasMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return new(slot(4).Add(140 * time.Minute)), nil
	}))
	w.enqueue("job", slot(4), 1)
	r := w.runner()
	hour, err := grid.New(time.Hour)
	if err == nil {
		_, err = w.ledger.SetWidth(t.Context(), hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(8))
	caught, err := r.CatchUp(t.Context(), slots.CatchUp{})
	if err != nil || caught.Total.Rescheduled != 1 || caught.Total.Failed != 0 {
		t.Errorf("%+v, %v", caught, err)
	}
	if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(16)) {
		t.Errorf("waits: %+v, want a row at %s", list, slot(16))
	}
}

func TestARunRefusesWhatIsNoSlotWhatLiesAheadAndWhatIsBeforeTheLedger(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.runner()
	w.clock.Set(slot(2))
	if _, err := r.Run(t.Context(), slot(0)); err == nil || !strings.Contains(err.Error(), "before the ledger, which begins at 2030-03-01T12:15:00Z") {
		t.Errorf("before the ledger: %v", err)
	}
	if runs, err := seq.Collect(w.ledger.List(t.Context(), time.Time{}, time.Time{}, 1)); err != nil || len(runs) != 0 {
		t.Errorf("a refused slot has a row in the ledger: %+v, %v", runs, err)
	}
	w.clock.Set(noon)
	if _, err := r.Run(t.Context(), slot(-1).Add(time.Minute)); err == nil || !strings.Contains(err.Error(), "is not a slot") {
		t.Errorf("off the grid: %v", err)
	}
	if _, err := r.Run(t.Context(), time.Time{}); err == nil || !strings.Contains(err.Error(), "the slot is not set") {
		t.Errorf("the zero time: %v", err)
	}
	if _, err := r.Run(t.Context(), slot(1)); err == nil || !strings.Contains(err.Error(), "never run early") {
		t.Errorf("ahead: %v", err)
	}
	w.clock.Set(slot(1).Add(-time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Run(ctx, slot(1)); !errors.Is(err, slots.ErrStopped) {
		t.Errorf("stopped while it waits: %v", err)
	}
}

// setBack is a clock that shows a slot's boundary at first, and is then set back. It runs from there on.
type setBack struct {
	by    time.Duration
	asked int       // how often it was asked
	early int       // how often it was asked while the slot was ahead
	since time.Time // since when it runs
}

func (c *setBack) now() time.Time {
	if c.asked++; c.asked <= 1 { // the run waits for the boundary
		return slot(1)
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	now := slot(1).Add(time.Since(c.since) - c.by)
	if now.Before(slot(1)) {
		c.early++
	}
	return now
}

func TestARunWhoseClockIsSetBackAsksOnceAndNotAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	clock := &setBack{by: time.Hour}
	r := w.runner(func(c *slots.Config) { c.Now = clock.now })
	if _, err := r.Run(t.Context(), slot(1)); err == nil || !strings.Contains(err.Error(), "1h ahead by the database's clock") || clock.early != 1 {
		t.Errorf("by an hour: %v; asked %d times", err, clock.early)
	}
	clock = &setBack{by: 300 * time.Millisecond}
	r = w.runner(func(c *slots.Config) { c.Now = clock.now })
	if result, err := r.Run(t.Context(), slot(1)); err != nil || result.State != slots.StateDone || clock.early != 1 {
		t.Errorf("by 300 ms: %+v, %v; asked %d times", result, err, clock.early)
	}
}
