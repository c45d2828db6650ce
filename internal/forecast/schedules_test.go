package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// setupSchedules is setup with schedules that publish to the outbox.
func setupSchedules(t *testing.T) (*world, *schedule.Store) {
	t.Helper()
	registry := jobs.NewRegistry()
	var to schedule.PublishConfig
	schedule.Register(registry, &to)
	w := setup(t, registry)
	to.Publisher = outbox.New(w.db, "")
	store, err := schedule.NewStore(t.Context(), w.db, schedule.Config{Now: w.Now})
	if err != nil {
		t.Fatal(err)
	}
	return w, store
}

// A forecast may be made at any time, for example when a slot begins, by the daemon that runs it.
func TestSchedulesAreForecastBeforeAndAfterTheRunOfTheSlotThatHasBegun(t *testing.T) {
	t.Parallel()
	w, store := setupSchedules(t)
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

// The anchor of "@every" is its creation, which also counts as an instant. A slot that lies ahead
// then is not the first.
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
	schedule.Register(registry, &schedule.PublishConfig{})
	f, err := forecast.Compute(t.Context(), forecast.Config{DB: db, Registry: registry, For: 90 * time.Minute})
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

func TestAScheduleIsForecastUntilMaxRunsEndsIt(t *testing.T) {
	t.Parallel()
	w, store := setupSchedules(t)
	for _, spec := range []schedule.Spec{
		{ID: "always", Crontab: "*/15 * * * *"},
		{ID: "four", Crontab: "*/15 * * * *", MaxRuns: 4},
		{ID: "twenty in two slots", Crontab: "*/1 * * * *", MaxRuns: 20},
		{ID: "twenty thousand seconds", Crontab: "@every 1s", MaxRuns: 20_000},
		{ID: "one", Crontab: "*/15 * * * *", MaxRuns: 1},
		{ID: "cancelled", Crontab: "*/15 * * * *"},
	} {
		if _, err := store.Create(t.Context(), w.db, spec); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int64{6, 5, 4, 4, 3, 3}, rowsOf(w.look(90*time.Minute))); diff != "" {
		t.Errorf("before the first run, -want +got:\n%s", diff)
	}
	w.Set(w.Ledger.Grid().Next(w.Now()).Add(time.Second))
	if _, err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.ExecContext(t.Context(), "delete from prescient.future_job where entity_key = 'cancelled'"); err != nil {
		t.Fatal(err)
	}
	want := []int64{4, 3, 3, 2, 2, 2}
	if diff := cmp.Diff(want, rowsOf(w.look(90*time.Minute))); diff != "" {
		t.Errorf("after the first run, -want +got:\n%s", diff)
	}
	for _, one := range w.look(8 * time.Hour).Slots {
		if later := one.Slot.Sub(start); later > 20_000*time.Second+30*time.Minute && one.Rows != 1 {
			t.Errorf("%d rows %s later, when only one schedule goes on", one.Rows, later)
		}
	}
}
