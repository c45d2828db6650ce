package schedule_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Changes race with the run of the slot in which the schedules are due. Each notes, in its own
// transaction and as the last thing it does, how many events the schedule has: none may be added
// after that, except by what it has asked for.
func TestNothingOfWhatAChangeHasEndedIsPublishedAfterItsCommit(t *testing.T) {
	t.Parallel()
	changes := map[string]func(w *world, id string) error{
		"delete": func(w *world, id string) error { return w.store.Delete(w.t.Context(), w.db, id, schedule.AnyVersion) },
		"pause": func(w *world, id string) error {
			_, err := w.store.Pause(w.t.Context(), w.db, id, schedule.AnyVersion)
			return err
		},
		"update of the payload": func(w *world, id string) error {
			spec := every(id)
			spec.Payload = json.RawMessage(`"new"`)
			_, err := w.store.Update(w.t.Context(), w.db, spec, schedule.AnyVersion)
			return err
		},
		"update of the crontab": func(w *world, id string) error {
			_, err := w.store.Update(w.t.Context(), w.db, schedule.Spec{ID: id, Crontab: "*/10 * * * *", Payload: json.RawMessage(`"new"`)}, schedule.AnyVersion)
			return err
		},
		"pause and resume": func(w *world, id string) error {
			if _, err := w.store.Pause(w.t.Context(), w.db, id, schedule.AnyVersion); err != nil {
				return err
			}
			spec := every(id)
			spec.Payload = json.RawMessage(`"new"`)
			_, err := w.store.Update(w.t.Context(), w.db, spec, schedule.AnyVersion)
			return err
		},
	}
	const schedules = 40
	rounds := 15
	if testing.Short() {
		rounds = 4
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for n := 1; n <= rounds; n++ {
				specs := make([]schedule.Spec, schedules)
				for i := range specs {
					specs[i] = every(fmt.Sprintf("%d-%d", n, i))
					specs[i].Payload = json.RawMessage(`"old"`)
				}
				if _, err := w.store.CreateAll(t.Context(), w.db, slices.Values(specs)); err != nil {
					t.Fatal(err)
				}
				w.clock.Set(slot(n))
				var wg sync.WaitGroup
				oldAfter := make([]int, schedules)
				for worker := range 4 {
					wg.Go(func() {
						for i := worker; i < schedules; i += 4 {
							id := fmt.Sprintf("%d-%d", n, i)
							if err := change(w, id); err != nil {
								t.Errorf("%s: %v", id, err)
							}
							oldAfter[i] = w.old(id)
						}
					})
				}
				if _, err := w.runner().Run(t.Context(), slot(n)); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
				after := w.oldOfAll()
				for i, before := range oldAfter {
					id := fmt.Sprintf("%d-%d", n, i)
					if after := after[id]; after != before {
						t.Errorf("%s: %d events of the version before when the change was committed, now %d", id, before, after)
					}
				}
				w.stop(n, schedules)
			}
			if n := w.count(`select count(*) - count(distinct id) from prescient.event_outbox`); n != 0 {
				t.Errorf("%d ids were published twice", n)
			}
			t.Logf("%d events", w.count(`select count(*) from prescient.event_outbox`))
		})
	}
}

// old counts the events of a schedule as it was before its change.
func (w *world) old(id string) int {
	return w.count(`select count(*) from prescient.event_outbox where subject = $1 and data::text = '"old"'`, id)
}

// oldOfAll counts the events of each schedule as it was before its change.
func (w *world) oldOfAll() map[string]int {
	w.t.Helper()
	var rows []struct {
		Subject string
		Count   int
	}
	err := w.db.Select(&rows, `select subject, count(*) from prescient.event_outbox where data::text = '"old"' group by subject`)
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.Subject] = r.Count
	}
	return counts
}

// stop deletes what is left of a round, so that the next one has its own schedules alone.
func (w *world) stop(round, schedules int) {
	w.t.Helper()
	if _, err := w.store.Apply(w.t.Context(), w.db, given(), schedule.ApplyOptions{Prune: true}); err != nil {
		w.t.Fatal(err)
	}
	if n := w.count(`select count(*) from prescient.future_job`); n != 0 {
		w.t.Errorf("%d rows wait without a schedule after round %d of %d", n, round, schedules)
	}
}

func TestChangesOfTheSameSchedulesAtOnceNeitherFailNorLeaveTwoRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const schedules = 5
	for i := range schedules {
		w.create(every(fmt.Sprint(i)))
	}
	stop := make(chan struct{})
	var runs, wg sync.WaitGroup
	runs.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				w.clock.Set(slot(n))
				if _, err := w.runner().Run(t.Context(), slot(n)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for worker := range 6 {
		wg.Go(func() {
			for n := range 60 {
				id := fmt.Sprint((n + worker) % schedules)
				spec := every(id)
				var err error
				switch (n + worker) % 4 {
				case 0:
					_, err = w.store.Pause(t.Context(), w.db, id, schedule.AnyVersion)
				case 1:
					_, err = w.store.Resume(t.Context(), w.db, id, schedule.AnyVersion)
				case 2:
					spec.Payload = json.RawMessage(fmt.Sprint(n))
					_, err = w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion)
				case 3:
					spec.Crontab = fmt.Sprintf("*/%d * * * *", 3+n%5)
					_, err = w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion)
				}
				if err != nil {
					t.Errorf("worker %d: %v", worker, err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	runs.Wait()
	for i := range schedules {
		s := w.get(fmt.Sprint(i))
		rows := w.count(`select count(*) from prescient.future_job where entity_key = $1`, s.ID)
		if (s.State == schedule.Active) != (rows == 1) || rows > 1 || s.State == schedule.Ended {
			t.Errorf("%s is %s with %d rows", s.ID, s.State, rows)
		}
	}
	if n := w.count(`select count(*) - count(distinct id) from prescient.event_outbox`); n != 0 {
		t.Errorf("%d ids were published twice", n)
	}
}

// An owner's transaction that is open while the slot is run: the run leaves its schedule alone, and
// publishes it when the owner has rolled back.
func TestARunLeavesAScheduleThatIsBeingChangedAndTakesItUpAfterwards(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	w.create(every("b"))
	owner := w.db.MustBegin()
	defer func() { _ = owner.Rollback() }()
	if err := w.store.Delete(t.Context(), owner, "a", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(1))
	done := make(chan error, 1)
	runner := w.runner()
	go func() {
		_, err := runner.Run(t.Context(), slot(1))
		done <- err
	}()
	w.eventually("the other one to be published", func() bool {
		return w.count(`select count(*) from prescient.event_outbox where subject = 'b'`) == 3
	})
	if n := w.count(`select count(*) from prescient.event_outbox where subject = 'a'`); n != 0 {
		t.Errorf("%d events of a schedule that is being deleted", n)
	}
	if err := owner.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := w.count(`select count(*) from prescient.event_outbox where subject = 'a'`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	if s := w.get("a"); !s.Next.Equal(slot(1).Add(5 * time.Minute)) {
		t.Errorf("%+v", s)
	}
}

// A change that has waited for a run across a boundary starts after what the run has published.
func TestAChangeStartsAfterTheRunThatItHasWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	run := w.db.MustBegin()
	defer func() { _ = run.Rollback() }()
	run.MustExec(`select from prescient.future_job where entity_key = 'a' for update`)
	done := make(chan error, 1)
	go func() {
		spec := every("a")
		spec.Crontab = "*/3 * * * *"
		_, err := w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion)
		done <- err
	}()
	w.eventually("the change to wait", func() bool {
		return pgtest.Waits(w.t, w.db) > 0
	})
	w.clock.Set(slot(1))
	if err := run.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := w.get("a"); !s.Next.After(slot(1)) {
		t.Errorf("the next instant is %s, want one after %s", s.Next, slot(1))
	}
}

// The same for a change by SQL, which reads the clock of the database.
func TestAChangeBySQLStartsAfterTheRunThatItHasWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(`'a', '@every 2s'`)
	run := w.db.MustBegin()
	defer func() { _ = run.Rollback() }()
	run.MustExec(`select from prescient.future_job where entity_key = 'a' for update`)
	done := make(chan error, 1)
	go func() {
		_, err := w.db.ExecContext(t.Context(), `select prescient.set_schedule('a', '@every 1s')`)
		done <- err
	}()
	w.eventually("the change to wait", func() bool {
		return pgtest.Waits(w.t, w.db) > 0
	})
	const clock = `select date_trunc('second', clock_timestamp())`
	var waits, published time.Time
	if err := w.db.Get(&waits, clock); err != nil {
		t.Fatal(err)
	}
	w.eventually("the run to publish an instant", func() bool {
		err := w.db.Get(&published, clock)
		return err == nil && published.After(waits)
	})
	if err := run.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := w.get("a"); !s.Next.After(published) {
		t.Errorf("the next instant is %s, want one after %s", s.Next, published)
	}
}
