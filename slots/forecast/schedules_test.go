package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/forecast"
	"github.com/prescient-go/prescient/slots/replay"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A forecast is asked for at any time, as when a slot begins, by the daemon that runs it.
func TestSchedulesAreForecastBeforeAndAfterTheRunOfTheSlotThatHasBegun(t *testing.T) {
	t.Parallel()
	registry := jobs.NewRegistry()
	var to schedule.Publishing
	schedule.Register(registry, &to)
	w := setup(t, registry)
	to.Publisher = outbox.New(w.db, "")
	store, err := schedule.NewStore(t.Context(), w.db, schedule.Config{Now: w.Now})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		crontab := []string{"*/15 * * * *", "*/30 * * * *"}[i%2]
		if _, err := store.Create(t.Context(), w.db, schedule.Spec{ID: fmt.Sprint(i), Crontab: crontab}); err != nil {
			t.Fatal(err)
		}
	}
	slot := w.Ledger.Grid().Next(w.Now())
	for n := range 4 {
		w.Set(slot.Add(time.Second))
		want := []int64{6, 3, 6, 3}
		if n%2 == 1 {
			want = []int64{3, 6, 3, 6}
		}
		if n > 0 { // a run has registered the schedules
			if diff := cmp.Diff(want, rowsOf(w.look(time.Hour))[:4]); diff != "" {
				t.Errorf("slot %s has begun: %s", slot, diff)
			}
		}
		if _, err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, rowsOf(w.look(time.Hour))[:4]); diff != "" {
			t.Errorf("slot %s is done: %s", slot, diff)
		}
		slot = w.Ledger.Grid().Next(slot)
	}
}

func rowsOf(f forecast.Forecast) (rows []int64) {
	for _, s := range f.Slots {
		rows = append(rows, s.Rows)
	}
	return rows
}

// "@every" has its anchor, when it was created, for an instant, too; a slot that lies ahead then is not the first to come.
func TestAScheduleIsForecastOnceASlotFromItsCreationOn(t *testing.T) {
	t.Parallel()
	db, err := replay.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := schedule.NewStore(t.Context(), db, schedule.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := store.Create(t.Context(), db, schedule.Spec{ID: fmt.Sprint(i), Crontab: "@every 1h"}); err != nil {
			t.Fatal(err)
		}
	}
	registry := jobs.NewRegistry()
	schedule.Register(registry, &schedule.Publishing{})
	f, err := forecast.Look(t.Context(), forecast.Config{DB: db, Registry: registry, For: 90 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var rows int64
	for _, s := range f.Slots {
		rows += s.Rows
	}
	if rows != 3 {
		t.Errorf("%d rows in 90 minutes, want 3, an hour after they were created: %+v", rows, f.Slots)
	}
}
