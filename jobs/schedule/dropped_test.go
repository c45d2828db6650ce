package schedule_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule"
)

func TestAChangeBetweenAnInstantAndItsSlotCountsTheInstantAsDropped(t *testing.T) {
	t.Parallel()
	changes := map[string]func(s *schedule.Spec){
		"end":        func(s *schedule.Spec) { s.End = noon.Add(24 * time.Hour) },
		"crontab":    func(s *schedule.Spec) { s.Crontab = "0-59/5 * * * *" },
		"exclusions": func(s *schedule.Spec) { s.Exclude = []string{"2031-01-01"} },
		"paused":     func(s *schedule.Spec) { s.Paused = true },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			spec := every("a")
			w.create(spec)
			w.clock.Set(noon.Add(11 * time.Minute)) // 12:05 and 12:10 wait for the slot of 12:15
			change(&spec)
			if got := w.update(spec).Dropped; got != 2 {
				t.Errorf("dropped %d", got)
			}
			if spec.Paused = false; w.update(spec).Dropped != 2 {
				t.Errorf("dropped %d", w.get("a").Dropped)
			}
			w.run(slot(1))
			if got := times(w.published()); got != "12:15" {
				t.Errorf("published %s", got)
			}
		})
	}
}

func TestAScheduleThatHasLostItsRowGetsAnotherByTheNextUpdate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	if _, err := w.db.ExecContext(t.Context(), `delete from prescient.future_job`); err != nil {
		t.Fatal(err)
	}
	list := func(yield func(schedule.Spec, error) bool) { yield(every("a"), nil) }
	done, err := w.store.Apply(t.Context(), w.db, list, schedule.ApplyOptions{})
	if err != nil || done.Updated != 1 || w.get("a").State != schedule.Active {
		t.Fatalf("%+v, %v, %+v", done, err, w.get("a"))
	}
	if done, err = w.store.Apply(t.Context(), w.db, list, schedule.ApplyOptions{}); err != nil || done.Unchanged != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAScheduleOfAnUnknownZoneCanBePaused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	if _, err := w.db.ExecContext(t.Context(), `update prescient.schedule set timezone = 'Moon/Tycho'`); err != nil {
		t.Fatal(err)
	}
	if s, err := w.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion); err != nil || s.State != schedule.Paused {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := w.store.Resume(t.Context(), w.db, "a", schedule.AnyVersion); fields(err) != "crontab" {
		t.Errorf("resumed: %v", err)
	}
}

func TestAScheduleOfAStatementThatHasBrokenCanBePausedAndApplied(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.withRan()
	w.create(withSQL("dropped"))
	w.set(`'ends', '@hourly', sql => 'commit'`)
	w.db.MustExec("drop table public.ran")
	for _, id := range []string{"dropped", "ends"} {
		if s, err := w.store.Pause(t.Context(), w.db, id, schedule.AnyVersion); err != nil || s.State != schedule.Paused {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
	}
	// A statement that stays is read by the first check. Another one is read now.
	spec := w.get("dropped").Spec
	spec.Crontab = "@daily"
	w.update(spec)
	spec.Crontab = "@weekly"
	for _, dry := range []bool{true, false} {
		if done, err := w.store.Apply(t.Context(), w.db, given(spec, every("other")), schedule.ApplyOptions{DryRun: dry}); err != nil || done.Updated != 1 || done.Created != 1 {
			t.Errorf("applied: %+v, %v", done, err)
		}
	}
	spec.Act.SQL += " where true"
	if _, err := w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion); fields(err) != "sql" {
		t.Errorf("another statement: %v", err)
	}
	if _, err := w.store.Apply(t.Context(), w.db, given(spec), schedule.ApplyOptions{}); fields(err) != "sql" {
		t.Errorf("another statement is applied: %v", err)
	}
}
