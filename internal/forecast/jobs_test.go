package forecast_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
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

// The run of a slot is missed while its rows wait; the next slot has other rows.
func TestTheForecastCountsOverdueRowsBesideTheSlots(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	finish := jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	registry.Register("order.late", finish)
	registry.Register("order.paused", finish)
	w := setup(t, registry)
	slot := w.Ledger.Grid().Next(w.Now())
	var list []jobs.Request
	for n := range 7 {
		list = append(list, w.check("order.late", fmt.Sprint(n), slot))
	}
	list = append(list, w.check("order.paused", "1", slot), w.check("order.gone", "1", slot))
	next := w.Ledger.Grid().Next(w.Ledger.Grid().Next(slot))
	w.enqueue(append(list, w.check("order.late", "next", next)))
	w.Set(w.Ledger.Grid().Next(slot).Add(time.Second)) // the slot has passed
	if _, err := admin.New(w.Client).Pause(t.Context(), w.db, "order.paused"); err != nil {
		t.Fatal(err)
	}
	told := w.look(time.Hour)
	if told.Overdue != 7 || told.OverdueAtLeast || told.OverdueTakes <= 0 || told.Slots[0].Slot != next || told.Slots[0].Rows != 1 {
		t.Errorf("%d rows are overdue (%v), which takes %s; the first slot: %+v", told.Overdue, told.OverdueAtLeast, told.OverdueTakes, told.Slots[0])
	}
	if _, err := w.Runner.CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	if told := w.look(time.Hour); told.Overdue != 0 || told.OverdueTakes != 0 {
		t.Errorf("after catch-up %d rows are overdue, which takes %s", told.Overdue, told.OverdueTakes)
	}
}
