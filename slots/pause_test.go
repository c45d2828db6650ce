package slots_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

func TestAPausedJobsRowsWaitWithoutTroubleAndCatchUpTakesThemAfter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.registry.Register("other", jobs.Row(done))
	w.enqueue("job", slot(1), 100)
	w.enqueue("other", slot(1), 10)
	w.enqueue("job", slot(2), 0)
	if paused, err := admin.New(w.client).Pause(t.Context(), w.db, "job"); err != nil || !paused {
		t.Fatal(paused, err)
	}
	if again, err := admin.New(w.client).Pause(t.Context(), w.db, "job"); err != nil || again {
		t.Fatal(again, err)
	}
	if result := w.run(slot(1)); result.Finished != 10 || result.State != slots.StateDone {
		t.Errorf("the run: %+v", result)
	}
	w.run(slot(2))
	if s := w.status(); !s.OK() {
		t.Errorf("the status: %+v", s.Trouble)
	}
	if caught := w.catchUp(slots.CatchUp{}); len(caught.Slots) != 0 {
		t.Errorf("catch-up took %+v", caught.Slots)
	}
	if n := len(w.waiting()); n != 100 {
		t.Errorf("%d rows wait, want the 100 of the paused job", n)
	}

	if resumed, err := admin.New(w.client).Resume(t.Context(), w.db, "job"); err != nil || !resumed {
		t.Fatal(resumed, err)
	}
	if diff := cmp.Diff([]ledger.Trouble{{Slot: slot(1), State: slots.StateDone, Jobs: []ledger.JobCount{{JobExec: "job", Waiting: ledger.Count{N: 100}}}}}, w.status().Trouble); diff != "" {
		t.Error(diff)
	}
	w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 110}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	if s := w.status(); !s.OK() {
		t.Errorf("after catch-up: %+v", s.Trouble)
	}
}

func TestASlotWithNothingButPausedRowsIsDone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Group("family", doneGroup))
	w.enqueue("job", slot(1), 10)
	if _, err := admin.New(w.client).Pause(t.Context(), w.db, "job"); err != nil {
		t.Fatal(err)
	}
	if result := w.run(slot(1)); result.Checked != 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}
