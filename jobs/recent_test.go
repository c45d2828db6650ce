package jobs_test

import (
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// conditional is a check that is not enqueued if its key ended as done in the last two hours.
func conditional(key string, at time.Time) jobs.Request {
	j := check(key, at)
	j.UnlessEndedWithin = 2 * time.Hour
	return j
}

// endEach ends every waiting row with the outcome, at an instant.
func (w *world) endEach(outcome jobs.Outcome, at time.Time) {
	w.t.Helper()
	w.exec(`with gone as (delete from prescient.future_job returning *)
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at, lateness, duration)
		select id, name, entity_name, entity_key, item_key, first_check_at, $2, 1, 0, '0', enqueued_at, enqueued_by, $1, $2, '0', '0'
		from gone join prescient.job using (job)`, outcome, at)
}

func TestAKeyThatEndedAsDoneRecentlyIsNotEnqueued(t *testing.T) {
	t.Parallel()
	type ask func(w *world, list []jobs.Request, on jobs.OnConflict) (jobs.EnqueueCounts, error)
	asks := map[string]ask{
		"Enqueue": func(w *world, list []jobs.Request, on jobs.OnConflict) (n jobs.EnqueueCounts, err error) {
			for _, j := range list {
				e, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), j, on)
				if err != nil {
					return n, err
				}
				c := countOf(e.Action)
				n.Inserted, n.Kept, n.Replaced, n.PushedBack, n.Recent =
					n.Inserted+c.Inserted, n.Kept+c.Kept, n.Replaced+c.Replaced, n.PushedBack+c.PushedBack, n.Recent+c.Recent
			}
			return n, nil
		},
		"EnqueueMany": func(w *world, list []jobs.Request, on jobs.OnConflict) (jobs.EnqueueCounts, error) {
			return w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list, on)
		},
		"EnqueueAll": func(w *world, list []jobs.Request, on jobs.OnConflict) (jobs.EnqueueCounts, error) {
			return w.client.EnqueueAll(w.t.Context(), jobs.OwnTx(w.db), slices.Values(list), on)
		},
	}
	for way, ask := range asks {
		for name, on := range map[string]jobs.OnConflict{"keep": jobs.Keep, "replace": jobs.Replace, "push back": jobs.PushBack(0)} {
			for _, virtual := range []bool{true, false} {
				t.Run(fmt.Sprint(way, " ", name, " virtual time: ", virtual), func(t *testing.T) {
					t.Parallel()
					w := setup(t)
					clock := now
					if !virtual {
						clock = time.Now()
						var err error
						if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{}); err != nil {
							t.Fatal(err)
						}
					}
					at := clock.Add(24 * time.Hour)
					for _, e := range []struct {
						key     string
						outcome jobs.Outcome
						ago     time.Duration
					}{
						{"done long ago", jobs.OutcomeDone, 3 * time.Hour},
						{"done", jobs.OutcomeDone, 3 * time.Hour},
						{"done", jobs.OutcomeDone, time.Hour},
						{"failed", jobs.OutcomeFailed, time.Hour},
						{"cancelled", jobs.OutcomeCancelled, time.Hour},
						{"waits", jobs.OutcomeDone, time.Hour},
						{"done, then cancelled", jobs.OutcomeDone, time.Hour},
						{"done, then cancelled", jobs.OutcomeCancelled, time.Minute},
					} {
						w.enqueue(check(e.key, at), jobs.Keep)
						w.endEach(e.outcome, clock.Add(-e.ago))
					}
					w.enqueue(check("waits", at), jobs.Keep)
					otherItem, otherJob := conditional("done", at), conditional("done", at)
					otherItem.ItemKey, otherJob.JobExec = "other", "other"
					list := []jobs.Request{
						conditional("new", at), conditional("done long ago", at), conditional("done", at), conditional("failed", at),
						conditional("cancelled", at), conditional("waits", at.Add(time.Hour)), conditional("done, then cancelled", at), otherItem, otherJob,
					}
					got, err := ask(w, list, on)
					want := jobs.EnqueueCounts{Inserted: 6, Recent: 2}
					switch on {
					case jobs.Replace:
						want.Replaced = 1
					case jobs.Keep:
						want.Kept = 1
					default:
						want.PushedBack = 1
					}
					if err != nil || got != want {
						t.Errorf("%+v, %v; want %+v", got, err, want)
					}
					if n := len(w.waiting()); n != 7 {
						t.Errorf("%d rows wait", n)
					}
					got, err = ask(w, []jobs.Request{check("done", at)}, on)
					if err != nil || got != (jobs.EnqueueCounts{Inserted: 1}) {
						t.Errorf("without the condition: %+v, %v", got, err)
					}
				})
			}
		}
	}
}

func TestAnEnqueueOfARecentKeyNamesTheRowThatEnded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	e := w.enqueue(check("1", slot(1)), jobs.Keep)
	w.endEach(jobs.OutcomeDone, slot(0))
	got := w.enqueue(conditional("1", slot(8)), jobs.Keep)
	if want := (jobs.EnqueueResult{ID: e.ID, Slot: slot(0), Action: jobs.ActionRecent}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAConditionIsRefusedWhereItCannotApply(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, change := range map[string]func(j *jobs.Request){
		"anonymous":    func(j *jobs.Request) { j.Anonymous = true },
		"negative":     func(j *jobs.Request) { j.UnlessEndedWithin = -time.Second },
		"half seconds": func(j *jobs.Request) { j.UnlessEndedWithin = time.Second / 2 },
		"two years":    func(j *jobs.Request) { j.UnlessEndedWithin = 2 * 366 * 24 * time.Hour },
	} {
		j := conditional("1", slot(1))
		change(&j)
		_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), j)
		if fieldErrors(err)["unless_ended_within"] == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, query := range map[string]string{
		"anonymous": `select prescient.enqueue('remind', 'order', '1', item_key => null, check_at => now(), unless_ended_within => '1 day')`,
		"negative":  `select prescient.enqueue('remind', 'order', '1', check_at => now(), unless_ended_within => '-1 day')`,
		"two years": `select prescient.enqueue('remind', 'order', '1', check_at => now(), unless_ended_within => '2 years')`,
	} {
		if _, err := w.db.ExecContext(t.Context(), query); !pg.HasState(err, "22023") {
			t.Errorf("SQL, %s: %v", name, err)
		}
	}
	if n := len(w.waiting()); n != 0 {
		t.Errorf("%d rows wait", n)
	}
}

// TestAConditionStaysOnTheRequestOfADueRow asks for order 1 while it is due, ends it, and looks whether it waits again.
func TestAConditionStaysOnTheRequestOfADueRow(t *testing.T) {
	t.Parallel()
	ask := func(unless time.Duration, on jobs.OnConflict) func(w *world) jobs.EnqueueResult {
		return func(w *world) jobs.EnqueueResult {
			j := check("1", slot(8))
			j.UnlessEndedWithin = unless
			return w.enqueue(j, on)
		}
	}
	const short, long = time.Hour, 48 * time.Hour
	for name, test := range map[string]struct {
		asks              []func(w *world) jobs.EnqueueResult
		doneBefore        bool // the key has ended as done a day before
		done, failed, not int  // the slot in which it waits after each outcome; not: the row goes on, to slot 5
	}{
		"unconditional":                       {[]func(w *world) jobs.EnqueueResult{ask(0, jobs.Keep)}, true, 8, 8, 5},
		"keep":                                {[]func(w *world) jobs.EnqueueResult{ask(short, jobs.Keep)}, false, 0, 8, 5},
		"replace":                             {[]func(w *world) jobs.EnqueueResult{ask(short, jobs.Replace)}, false, 0, 8, 8},
		"push back":                           {[]func(w *world) jobs.EnqueueResult{ask(short, jobs.PushBack(0))}, false, 0, 8, 8},
		"longer than since the last time":     {[]func(w *world) jobs.EnqueueResult{ask(long, jobs.Keep)}, true, 0, 0, 5},
		"shorter than since the last time":    {[]func(w *world) jobs.EnqueueResult{ask(short, jobs.Keep)}, true, 0, 8, 5},
		"a weaker one after it":               {[]func(w *world) jobs.EnqueueResult{ask(long, jobs.Keep), ask(short, jobs.Keep)}, true, 0, 8, 5},
		"a stronger one after it":             {[]func(w *world) jobs.EnqueueResult{ask(short, jobs.Keep), ask(long, jobs.Keep)}, true, 0, 8, 5},
		"an unconditional one after it":       {[]func(w *world) jobs.EnqueueResult{ask(long, jobs.Keep), ask(0, jobs.Keep)}, true, 8, 8, 5},
		"an unconditional one before it":      {[]func(w *world) jobs.EnqueueResult{ask(0, jobs.Keep), ask(long, jobs.Keep)}, true, 8, 8, 5},
		"one that replaces an unconditional":  {[]func(w *world) jobs.EnqueueResult{ask(0, jobs.Keep), ask(long, jobs.Replace)}, true, 8, 8, 8},
		"one that pushes an unconditional":    {[]func(w *world) jobs.EnqueueResult{ask(0, jobs.Keep), ask(long, jobs.PushBack(0))}, true, 8, 8, 5},
		"pushed back by an unconditional one": {[]func(w *world) jobs.EnqueueResult{ask(long, jobs.Keep), ask(0, jobs.PushBack(0))}, true, 8, 8, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && len(test.asks) > 1 {
				t.Skip("make test-all has several requests")
			}
			for outcome, want := range map[string]int{"done": test.done, "failed": test.failed, "": test.not} {
				w, row := due(t, true, true)
				if test.doneBefore {
					w.exec(`insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
							error_count, spent, enqueued_at, enqueued_by, outcome)
						values (0, 'remind', 'order', '1', '', $1, $1, 1, 0, '0', $1, 'me', 'done')`, slot(2).Add(-24*time.Hour))
				}
				for _, ask := range test.asks {
					if e := ask(w); e.Action != jobs.ActionRecorded || e.ID != row.ID {
						t.Errorf("outcome %q: %+v", outcome, e)
					}
				}
				w.record(row.ID, outcome)
				got := 0
				for _, j := range w.waiting() {
					got = int(j.NextCheckAt.Sub(slot(0)) / (15 * time.Minute))
				}
				if got != want {
					t.Errorf("outcome %q: it waits in slot %d, want %d", outcome, got, want)
				}
			}
		})
	}
}

// An enqueue that waits for the transaction in which a row ends sees that end, though it began before.
func TestAnEnqueueBesideTheEndOfARowSeesIt(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[jobs.Outcome]jobs.EnqueueAction{jobs.OutcomeDone: jobs.ActionRecent, jobs.OutcomeCancelled: jobs.ActionInserted} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue(check("1", slot(2)), jobs.Keep)
			row := w.waiting()[0]
			tx := w.db.MustBegin()
			t.Cleanup(func() { _ = tx.Rollback() })
			if n, err := w.client.End(t.Context(), tx, outcome, row); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			var got jobs.EnqueueResult
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { got, err = w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), conditional("1", slot(2))) })
			pgtest.AwaitWaits(t, w.db, 1)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if err != nil || got.Action != want {
				t.Errorf("%+v, %v; want %s", got, err, want)
			}
			if n := len(w.waiting()); (n == 1) != (want == jobs.ActionInserted) {
				t.Errorf("%d rows wait", n)
			}
		})
	}
}

// A check that has ended since the snapshot is not in it, and the key is free, so the enqueue would insert another one.
func TestAConditionIsRefusedInATransactionWithOneSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue(check("1", slot(2)), jobs.Keep)
			tx, err := w.db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			tx.MustExec("select 1; savepoint before") // it has its snapshot now
			w.endEach(jobs.OutcomeDone, slot(0))
			got, err := w.client.Enqueue(t.Context(), tx, conditional("1", slot(2)))
			if !pg.HasState(err, pqerror.InvalidParameterValue) {
				t.Errorf("%+v, %v", got, err)
			}
			tx.MustExec("rollback to before")
			if got, err = w.client.Enqueue(t.Context(), tx, check("2", slot(2))); err != nil || got.Action != jobs.ActionInserted {
				t.Errorf("without the condition: %+v, %v", got, err)
			}
		})
	}
}

func TestOfManyConditionalEnqueuesAtOnceOneIsInserted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	actions := map[jobs.EnqueueAction]int{}
	atOnce(8, func(int) {
		e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), conditional("1", slot(2)))
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		actions[e.Action]++
	})
	if diff := cmp.Diff(map[jobs.EnqueueAction]int{jobs.ActionInserted: 1, jobs.ActionKept: 7}, actions); diff != "" {
		t.Error(diff)
	}
}

// The function of a group ends related rows, and another transaction may have asked for one of them meanwhile.
func TestARequestOnARowThatAFunctionEndsIsHonoured(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome jobs.Outcome
		unless  time.Duration
		want    int // the slot in which the key waits then; 0: it does not
	}{
		"done":                  {jobs.OutcomeDone, 0, 8},
		"done, and conditional": {jobs.OutcomeDone, time.Hour, 0},
		"cancelled":             {jobs.OutcomeCancelled, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, row := due(t, true, true)
			rows := w.waiting()
			again := check("1", slot(8))
			again.UnlessEndedWithin = test.unless
			if e := w.enqueue(again, jobs.Keep); e.Action != jobs.ActionRecorded || e.ID != row.ID {
				t.Fatalf("%+v", e)
			}
			if n, err := w.client.End(t.Context(), jobs.OwnTx(w.db), test.outcome, rows...); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			got := 0
			for _, j := range w.waiting() {
				got = int(j.NextCheckAt.Sub(slot(0)) / (15 * time.Minute))
			}
			if got != test.want {
				t.Errorf("it waits in slot %d, want %d", got, test.want)
			}
		})
	}
}
