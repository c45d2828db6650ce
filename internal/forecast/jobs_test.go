package forecast_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// All rows of this job come just before their slot, so none of them waits yet.
func TestAJobWithoutWaitingRowsHasItsSLAAndIsPaused(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	registry.Register("late", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.SLA(time.Millisecond))
	w := setup(t, registry)
	for n := range 4 {
		slot := w.Ledger.Grid().Ceil(w.Now())
		w.enqueue([]jobs.Request{w.check("late", fmt.Sprint(n), slot), w.check("late", fmt.Sprint("other ", n), slot)})
		w.Set(slot)
		if _, err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Set(slot.Add(w.Ledger.Grid().Width() - time.Microsecond))
	}
	w.date()
	told := w.look(time.Hour)
	if len(told.Slots) != 4 || told.Slots[1].Rows != 2 || told.Slots[1].Waiting != 0 || len(told.Findings) != 1 || told.Findings[0].Condition != forecast.SLA {
		t.Errorf("%+v", told)
	}
	if _, err := admin.New(w.Client).Pause(t.Context(), w.db, "late"); err != nil {
		t.Fatal(err)
	}
	if told := w.look(time.Hour); told.Slots[1].Rows != 0 || len(told.Slots[1].Jobs) != 1 || !told.Slots[1].Jobs[0].Paused || len(told.Findings) != 0 {
		t.Errorf("paused: %+v", told)
	}
}
