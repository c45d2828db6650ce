package slots_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestCatchUpLeavesASlotThatIsBeingRunToItsRunner(t *testing.T) {
	t.Parallel()
	w := setup(t)
	started := make(chan struct{}, 1000)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		started <- struct{}{}
		time.Sleep(40 * time.Millisecond)
		return nil, nil
	}), jobs.OnMisfire(jobs.MisfireSkip))
	const rows = 200
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.Workers = 4 })
	<-started
	w.clock.Set(slot(2).Add(time.Minute)) // the slot is past, and still being run
	for running := true; running; {
		w.catchUp(slots.CatchUp{})
		select {
		case result := <-finished:
			running = false
			if result.Finished != rows || result.State != slots.StateDone {
				t.Errorf("the run: %+v", result)
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: rows}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpStartsNoRowBeforeItsSlotHoweverTheWidthHasChanged(t *testing.T) {
	t.Parallel()
	for _, mode := range []slots.Mode{slots.ModeRun, slots.ModeDefer} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				if now := w.clock.Now(); now.Before(job.Slot) {
					t.Errorf("the row of %s was started at %s", job.Slot, now)
				}
				return nil, nil
			}))
			w.clock.Set(slot(0).Add(6 * time.Minute))
			before := w.runner() // knows slots 12:00 and 12:15
			minute, err := grid.New(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.ledger.SetWidth(t.Context(), minute); err != nil {
				t.Fatal(err)
			}
			if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: w.clock.Now}); err != nil {
				t.Fatal(err)
			}
			ahead := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "0"}
			ahead.CheckAt = slot(0).Add(9 * time.Minute)
			if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), ahead); err != nil {
				t.Fatal(err)
			}
			if _, err := before.CatchUp(t.Context(), slots.CatchUp{Mode: mode}); err != nil {
				t.Fatal(err)
			}
			if got := w.fate(); got.Outcome != "" || !got.Slot.Equal(slot(0).Add(9*time.Minute)) {
				t.Errorf("the row: %+v, want it to wait for 12:09", got)
			}
			if result := w.run(slot(0).Add(9 * time.Minute)); result.Finished != 1 {
				t.Errorf("the run of 12:09: %+v", result)
			}
		})
	}
}

func TestRowsOfAPausedJobAreShownAfterItsResumptionHoweverMuchWasPrunedMeanwhile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 100)
	if _, err := admin.New(w.client).Pause(t.Context(), w.db, "job"); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 8; n++ {
		w.run(slot(n))
	}
	if _, err := w.ledger.Prune(t.Context(), slot(8)); err != nil {
		t.Fatal(err)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("while the job is paused: %+v", s.Trouble)
	}
	if _, err := admin.New(w.client).Resume(t.Context(), w.db, "job"); err != nil {
		t.Fatal(err)
	}
	if s := w.status(); s.OK() || rowsInTrouble(s) != 100 {
		t.Errorf("the status after the resumption: %+v", s.Trouble)
	}
	w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 100}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("the status after catch-up: %+v", s.Trouble)
	}
}
