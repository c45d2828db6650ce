package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asking is a way to ask for a check of order 1, beside one of an order that nothing waits for.
type asking func(w *world, db jobs.Tx, at time.Time, on jobs.OnConflict) (jobs.EnqueueCounts, error)

var ways = map[string]asking{
	"Enqueue": func(w *world, db jobs.Tx, at time.Time, on jobs.OnConflict) (jobs.EnqueueCounts, error) {
		e, err := w.client.Enqueue(w.t.Context(), db, check("1", at), on)
		return countOf(e.Action), err
	},
	"EnqueueMany": func(w *world, db jobs.Tx, at time.Time, on jobs.OnConflict) (jobs.EnqueueCounts, error) {
		n, err := w.client.EnqueueMany(w.t.Context(), db, []jobs.Request{check("2", at), check("1", at)}, on)
		n.Inserted-- // order 2
		return n, err
	},
	"EnqueueAll": func(w *world, db jobs.Tx, at time.Time, on jobs.OnConflict) (jobs.EnqueueCounts, error) {
		n, err := w.client.EnqueueAll(w.t.Context(), db, slices.Values([]jobs.Request{check("2", at), check("1", at)}), on)
		n.Inserted--
		return n, err
	},
}

func countOf(action jobs.EnqueueAction) jobs.EnqueueCounts {
	switch action {
	case jobs.ActionKept:
		return jobs.EnqueueCounts{Kept: 1}
	case jobs.ActionReplaced:
		return jobs.EnqueueCounts{Replaced: 1}
	case jobs.ActionPushedBack:
		return jobs.EnqueueCounts{PushedBack: 1}
	case jobs.ActionRecorded:
		return jobs.EnqueueCounts{Recorded: 1}
	case jobs.ActionRecent:
		return jobs.EnqueueCounts{Recent: 1}
	case jobs.ActionInserted:
		return jobs.EnqueueCounts{Inserted: 1}
	}
	return jobs.EnqueueCounts{}
}

// due is a world in which order 1 waits for slot 2, which has begun, and may have been opened and claimed by a runner.
func due(t *testing.T, opened, claimed bool) (*world, jobs.EnqueueResult) {
	t.Helper()
	clock := now
	w := setup(t, func(c *jobs.Config) { c.Now = func() time.Time { return clock } })
	row := w.enqueue(check("1", slot(2)), jobs.Keep)
	clock = slot(2).Add(time.Minute)
	if opened {
		w.exec("select prescient.open_slot($1, 'run', 1, 'me', '1 hour', $1)", slot(2))
	}
	if claimed {
		w.exec("select prescient.claim_rows($1, 'run', 2, 'me', '1 hour', array[prescient.find_job('remind')], 10)", slot(2))
	}
	return w, row
}

// A check with a transaction of its own locks its row first.
func TestWhoAsksForAKeyThatIsBeingCheckedInATransactionWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   func(tx *sqlx.Tx) error
		want  jobs.EnqueueAction
		waits time.Time
	}{
		"it is done": {func(tx *sqlx.Tx) error {
			_, err := tx.Exec("select prescient.cancel('remind', 'order', '1')")
			return errors.Join(err, tx.Commit())
		}, jobs.ActionInserted, slot(8)},
		"it moves the row": {func(tx *sqlx.Tx) error {
			_, err := tx.Exec("update prescient.future_job set next_check_at = $1", slot(5))
			return errors.Join(err, tx.Commit())
		}, jobs.ActionKept, slot(5)},
		"it is undone": {func(tx *sqlx.Tx) error { return tx.Rollback() }, jobs.ActionRecorded, slot(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, row := due(t, true, true)
			tx := w.db.MustBegin()
			defer func() { _ = tx.Rollback() }()
			tx.MustExec("select prescient.begin_check(row($1, prescient.find_job('remind'), $2, false, 'me', '100', '1000', 'check of remind')::prescient.row_check)", slot(2), row.ID)
			var got jobs.EnqueueResult
			var wg sync.WaitGroup
			wg.Go(func() {
				var err error
				if got, err = w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(8))); err != nil {
					t.Error(err)
				}
			})
			pgtest.AwaitWaits(t, w.db, 1)
			if err := test.end(tx); err != nil {
				t.Fatal(err)
			}
			if wg.Wait(); got.Action != test.want || !got.Slot.Equal(test.waits) {
				t.Errorf("%+v, want %s in slot %s", got, test.want, test.waits)
			}
		})
	}
}

// The check ends, and the check that was asked for meanwhile waits under the same key.
func TestWhoWaitsForTheEndOfACheckFindsTheOneThatFollows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(w *world) (found bool, err error)
		want []time.Time // the slots of the rows that wait then
	}{
		"Cancel": {func(w *world) (bool, error) {
			return w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1"))
		}, nil},
		"CancelEntity": {func(w *world) (bool, error) {
			n, err := w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "order", "1")
			return n == 1, err
		}, nil},
		"Reschedule": {func(w *world) (bool, error) {
			_, found, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(9))
			return found, err
		}, []time.Time{slot(9)}},
		"PushBack": {func(w *world) (bool, error) {
			_, found, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(9), 0)
			return found, err
		}, []time.Time{slot(9)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, row := due(t, true, true)
			if e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(8))); err != nil || e.Action != jobs.ActionRecorded {
				t.Fatalf("%+v, %v", e, err)
			}
			tx := w.db.MustBegin()
			defer func() { _ = tx.Rollback() }()
			tx.MustExec("select from prescient.future_job where id = $1 for update", row.ID)
			var found bool
			var wg sync.WaitGroup
			wg.Go(func() {
				var err error
				if found, err = test.call(w); err != nil {
					t.Error(err)
				}
			})
			pgtest.AwaitWaits(t, w.db, 1)
			tx.MustExec("select set_config('prescient_caller.clock', $3, true), prescient.end_row($1, prescient.find_job('remind'), $2, 'remind', 'done')",
				slot(2), row.ID, slot(2).Add(time.Minute).Format(time.RFC3339))
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if wg.Wait(); !found {
				t.Error("no check was found")
			}
			var got []time.Time
			for _, job := range w.waiting() {
				got = append(got, job.NextCheckAt)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Slots are a second apart here, and the clock is the database's.
func TestAMoveThatWaitsForTheRowOverABoundaryDoesNotGoIntoThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec("select prescient.set_width('1 second')")
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(key string, at time.Time) (time.Time, error){
		"Reschedule": func(key string, at time.Time) (time.Time, error) {
			moved, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf(key), at)
			return moved, err
		},
		"PushBack": func(key string, at time.Time) (time.Time, error) {
			moved, _, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf(key), at, 0)
			return moved, err
		},
		"Enqueue, PushBack": func(key string, at time.Time) (time.Time, error) {
			e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), w.check(key, at), jobs.PushBack(0))
			return e.Slot, err
		},
		"Enqueue, Replace": func(key string, at time.Time) (time.Time, error) {
			e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), w.check(key, at), jobs.Replace)
			return e.Slot, err
		},
	}
	waits := w.clock().Truncate(time.Second).Add(2 * time.Second)
	for key := range calls {
		w.enqueue(w.check(key, waits), jobs.Keep)
	}
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job for update")
	asked := waits.Add(time.Second)
	moved := map[string]time.Time{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for key, call := range calls {
		wg.Go(func() {
			at, err := call(key, asked)
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
			mu.Lock()
			defer mu.Unlock()
			moved[key] = at
		})
	}
	pgtest.AwaitWaits(t, w.db, len(calls))
	released := pgtest.AwaitClock(t, w.db, asked)
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for key := range calls {
		if key != "Reschedule" {
			if !moved[key].Equal(waits) { // it was due by then, so the call is recorded on it
				t.Errorf("%s: moved into slot %s at %s", key, moved[key], released)
			}
		} else if !moved[key].After(released) {
			t.Errorf("%s: moved into slot %s at %s", key, moved[key], released)
		}
		if list, err := admin.New(w.client).Show(t.Context(), w.db, "order", key); err != nil || len(list) != 1 || !list[0].NextCheckAt.Equal(moved[key]) {
			t.Errorf("%s: %+v, %v", key, list, err)
		}
	}
}

// An enqueue waits for an open transaction that enqueues the same key. If that one rolls back, the row is written.
func TestARowThatWaitsForItsKeyOverABoundaryDoesNotGoIntoThePast(t *testing.T) {
	t.Parallel()
	for way, ask := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.exec("select prescient.set_width('1 second')")
			var err error
			if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{}); err != nil {
				t.Fatal(err)
			}
			holder := w.db.MustBegin()
			defer func() { _ = holder.Rollback() }()
			if _, err := w.client.Enqueue(t.Context(), holder, check("1", slot(8))); err != nil {
				t.Fatal(err)
			}
			asked, released := w.overABoundary(holder, func(asked time.Time) error {
				_, err := ask(w, jobs.OwnTx(w.db), asked, jobs.Keep)
				return err
			})
			for _, job := range w.waiting() {
				if !job.NextCheckAt.After(released) {
					t.Errorf("order %s was put into slot %s at %s", job.EntityKey, job.NextCheckAt, released)
				}
				if !job.FirstCheckAt.Equal(job.NextCheckAt) {
					t.Errorf("order %s has first waited for slot %s, and waits for %s", job.EntityKey, job.FirstCheckAt, job.NextCheckAt)
				}
			}
			var was time.Time
			if err := w.db.GetContext(t.Context(), &was, "select min(requested_for) from prescient.future_job where entity_key = '1'"); err != nil || !was.Equal(asked) {
				t.Errorf("it was asked for at %s, and is known as %s, %v", asked, was, err)
			}
		})
	}
}

func TestAnEnqueueThatFindsTheSlotBegunInsideItsPushBackSaysThatItWasRecorded(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has other functions on each node")
	w := setup(t)
	w.exec("select prescient.set_width('1 second')")
	// A push back asks for this key after the enqueue has found the row waiting.
	w.exec(`
		create or replace function prescient.window_key(job_exec text, entity_name text, entity_key text, item_key text)
		returns text
		language plpgsql
		as $$
		begin
			perform pg_sleep(1.01 - extract(epoch from clock_timestamp()) % 1);
			return entity_key;
		end
		$$`)
	w.exec("select prescient.enqueue('job', 'order', '1', check_at => clock_timestamp())")
	var action string
	err := w.db.GetContext(t.Context(), &action, `
		select action
		from prescient.enqueue('job', 'order', '1', check_at => clock_timestamp() + interval '5 seconds', on_conflict => 'push_back', payload => '{"n": 2}')`)
	if err != nil {
		t.Fatal(err)
	}
	var recorded bool
	if err := w.db.GetContext(t.Context(), &recorded, `select coalesce((request).payload = '{"n": 2}', false) from prescient.future_job`); err != nil {
		t.Fatal(err)
	}
	if !recorded || action != "recorded" {
		t.Errorf("the request is recorded: %v, and the action is %s", recorded, action)
	}
}

func TestARetryThatWaitsForAFailedRowOverABoundaryDoesNotGoIntoThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(2)), jobs.Keep)
	w.fail()
	w.exec("select prescient.set_width('1 second')")
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{}); err != nil {
		t.Fatal(err)
	}
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job_history for update")
	_, released := w.overABoundary(holder, func(asked time.Time) error {
		n, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, asked)
		if n != 1 {
			t.Errorf("%d rows are put back", n)
		}
		return err
	})
	for _, job := range w.waiting() {
		if !job.NextCheckAt.After(released) {
			t.Errorf("order %s was put into slot %s at %s", job.EntityKey, job.NextCheckAt, released)
		}
	}
}

// overABoundary calls ask for an instant in a second, which waits for what the holder has locked. It lets go after that instant, and
// returns both.
func (w *world) overABoundary(holder *sqlx.Tx, ask func(asked time.Time) error) (asked, released time.Time) {
	w.t.Helper()
	asked = w.clock().Add(time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := ask(asked); err != nil {
			w.t.Error(err)
		}
	})
	pgtest.AwaitWaits(w.t, w.db, 1)
	released = pgtest.AwaitClock(w.t, w.db, asked.Add(time.Second))
	if err := holder.Rollback(); err != nil {
		w.t.Fatal(err)
	}
	wg.Wait()
	return asked, released
}

// check is one on the grid of the database.
func (w *world) check(key string, at time.Time) jobs.Request {
	job := check(key, at)
	job.CheckAt = at
	return job
}

// clock is the database's.
func (w *world) clock() (at time.Time) {
	w.t.Helper()
	if err := w.db.GetContext(w.t.Context(), &at, "select clock_timestamp()"); err != nil {
		w.t.Fatal(err)
	}
	return at.UTC()
}

// Whoever opens a slot knows from the numbers of transactions which of them may still bring rows into it. One that
// has chosen the slot, and writes nothing for a while, must have its number.
func TestASlotThatOpensKnowsOfWhoeverHasChosenIt(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	const old = 4 // slot of the rows that are moved
	calls := map[string]func(w *world) error{
		"Reschedule": func(w *world) error {
			_, _, err := w.client.Reschedule(w.t.Context(), jobs.OwnTx(w.db), keyOf("old"), slot(1))
			return err
		},
		"Retry": func(w *world) error {
			_, _, err := admin.New(w.client).Retry(w.t.Context(), w.db, admin.RetryFilter{All: true}, slot(1))
			return err
		},
	}
	for way, ask := range ways {
		for _, on := range []jobs.OnConflict{jobs.Keep, jobs.Replace} {
			calls[fmt.Sprint(way, on)] = func(w *world) error {
				_, err := ask(w, jobs.OwnTx(w.db), slot(1), on)
				return err
			}
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue(check("failed", slot(old)), jobs.Keep)
			w.fail()
			w.enqueue(check("old", slot(old)), jobs.Keep)
			w.enqueue(check("due", slot(1)), jobs.Keep)
			// Rows are held up between the choice of the slot and the first write.
			w.exec(`create function hold() returns trigger language plpgsql as
				$$ begin perform pg_advisory_xact_lock_shared(7); return new; end $$;
				create trigger hold before insert or update on prescient.future_job for each row execute function hold()`)
			holder := w.db.MustBegin()
			defer func() { _ = holder.Rollback() }()
			holder.MustExec("select pg_advisory_xact_lock(7)")
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := call(w); err != nil {
					t.Error(err)
				}
			})
			pgtest.AwaitWaits(t, w.db, 1)
			var settled bool
			if err := w.db.GetContext(t.Context(), &settled, "select settled from prescient.open_slot($1, 'run', 1, 'me', '1 hour', $1)", slot(1)); err != nil {
				t.Fatal(err)
			}
			if settled {
				t.Error("the slot is opened as one into which nobody brings rows")
			}
			if err := holder.Rollback(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			w.exec("delete from prescient.future_job where entity_key = 'due'")
			w.exec("update prescient.slot_job set drained = true")
			var state string
			if err := w.db.GetContext(t.Context(), &state, "select state from prescient.close_slot($1)", slot(1)); err != nil || state != "again" {
				t.Errorf("the slot closes as %s, %v", state, err)
			}
		})
	}
}

// A number that was given in a transaction which rolls back belongs to no row.
func TestAStreamAsksForTheNumbersOfItsJobsInEveryTransaction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 {
		tx := w.db.MustBegin()
		if _, err := w.client.EnqueueAll(t.Context(), tx, orders(3, nil)); err != nil {
			t.Error(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	several := slices.Values([]jobs.Request{{JobExec: "b"}, {JobExec: "a"}, {JobExec: "b"}, {JobExec: "c"}})
	n, err := w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), func(yield func(jobs.Request) bool) {
		for job := range several {
			job.EntityName, job.EntityKey, job.Anonymous = "order", job.JobExec, true
			job.CheckAt = slot(1)
			if !yield(job) {
				return
			}
		}
	})
	if err != nil || n.Inserted != 4 {
		t.Error(n, err)
	}
	var got []string
	for _, job := range w.waiting() {
		got = append(got, job.JobExec+job.EntityKey)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"aa", "bb", "bb", "cc"}, got); diff != "" {
		t.Error(diff)
	}
}
