package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

func TestABatchGetsManyRowsAndEachHasItsOwnResult(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	var sizes []int
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		sizes = append(sizes, len(batch))
		mu.Unlock()
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			if !job.Slot.Equal(slot(1)) {
				t.Errorf("slot %s", job.Slot)
			}
			switch n, _ := strconv.Atoi(job.EntityKey); n % 3 {
			case 1:
				results[i].Next = new(slot(2))
			case 2:
				results[i].Err = errors.New("no such order")
			}
		}
		return results, nil
	}))
	w.enqueue("job", slot(1), 900)
	result := w.run(slot(1))
	if result.Finished != 300 || result.Rescheduled != 300 || result.Failed != 300 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if len(sizes) > 900/40 || slices.Max(sizes) > 50 {
		t.Errorf("batches of %v rows, want nearly a page (50)", sizes)
	}
}

func TestAnErrorOfTheWholeBatchIsEveryRows(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]jobs.BatchFunc{
		"an error": func(context.Context, []jobs.FutureJob) ([]jobs.Result, error) { return nil, errors.New("down") },
		"a panic":  func(context.Context, []jobs.FutureJob) ([]jobs.Result, error) { panic("down") },
		"too few results": func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
			return make([]jobs.Result, len(batch)-1), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Batch(fn))
			w.enqueue("job", slot(1), 100)
			if result := w.run(slot(1)); result.Failed != 100 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			for _, job := range w.waiting() {
				if job.ErrorCount != 1 || !job.NextCheckAt.Equal(slot(2)) {
					t.Errorf("%s: %d errors, waits for %s", job.EntityKey, job.ErrorCount, job.NextCheckAt)
				}
			}
		})
	}
}

func TestABatchWithATransactionCommitsItsWritesWithAllItsOutcomes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table alert (order_key text primary key)`)
	failures := 3
	var mu sync.Mutex
	w.registry.Register("job", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			if _, err := tx.ExecContext(ctx, `insert into alert values ($1)`, job.EntityKey); err != nil {
				return nil, err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if failures--; failures >= 0 {
			return nil, errors.New("down") // its alerts are rolled back
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), 500)
	first := w.run(slot(1))
	second := w.run(slot(2))
	if first.Failed == 0 || first.Finished+second.Finished != 500 {
		t.Errorf("%+v, %+v", first, second)
	}
	if n := w.count(`select count(*) from alert`); n != 500 {
		t.Errorf("%d alerts, want 500", n)
	}
}

func TestABatchTellsTheNextCheckOfEachRowWhatItHasToKnow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			switch job.EntityKey {
			case "0":
				results[i] = jobs.Result{Next: new(slot(2)), Payload: json.RawMessage(`{"seen": "it's 1"}`)}
			case "1":
				results[i] = jobs.Result{Err: errors.New("half done"), Payload: json.RawMessage(`[1, 2]`)}
			case "2":
				results[i] = jobs.Result{Next: new(slot(2))}
			case "3":
				results[i] = jobs.Result{Next: new(slot(2)), Payload: json.RawMessage(`{"nul": "\u0000"}`)}
			}
		}
		return results, nil
	}), jobs.Retry(1))
	for i := range 5 {
		j := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(i), Payload: json.RawMessage(`"old"`)}
		j.CheckAt = slot(1)
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), j); err != nil {
			t.Fatal(err)
		}
	}
	result := w.run(slot(1))
	if result.Finished != 1 || result.Rescheduled != 2 || result.Failed != 2 {
		t.Errorf("%+v", result)
	}
	got := map[string]string{}
	for _, job := range w.waiting() {
		got[job.EntityKey] = string(job.Payload) + " " + job.LastError
	}
	want := map[string]string{
		"0": `{"seen": "it's 1"} `,
		"1": `[1, 2] half done`,
		"2": `"old" `,
		"3": `"old" payload: must not contain \u0000 or half a surrogate pair, which PostgreSQL cannot store`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// One row of a page is cancelled while it is checked, and a row that nobody has checked comes into the range of its ids:
// their number is the same.
func TestOnlyWhatWasCheckedIsFinished(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("job", slot(1), 2000)
	var page []int64
	if err := w.db.SelectContext(t.Context(), &page, `select id from prescient.future_job order by id`); err != nil {
		t.Fatal(err)
	}
	gap, cancelled := page[51], page[50] // neighbours: one claim has both, however large it is
	w.db.MustExecContext(t.Context(), `
		create table late as select * from prescient.future_job where id = $1`, gap)
	w.db.MustExecContext(t.Context(), `delete from prescient.future_job where id = $1`, gap)
	var mu sync.Mutex
	gapIsChecked := false // a transaction of another test lets the run read the slot again
	w.registry.Register("job", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			if job.ID == gap {
				mu.Lock()
				gapIsChecked = true
				mu.Unlock()
			}
			if job.ID != cancelled {
				continue
			}
			if _, err := w.client.Cancel(ctx, jobs.OwnTx(w.db), job.Key()); err != nil {
				t.Error(err)
			}
			w.db.MustExecContext(ctx, `
				insert into prescient.future_job (id, job, entity_name, entity_key, first_check_at, next_check_at)
				overriding system value
				select id, job, entity_name, entity_key, first_check_at, next_check_at from late`)
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	result := w.run(slot(1), func(c *slots.Config) { c.Page = 1000 })
	want, left := 1998, 1
	if gapIsChecked {
		want, left = 1999, 0
	}
	if result.Finished != int64(want) || result.Yielded != 1 {
		t.Errorf("%+v", result)
	}
	if got := w.outcomes(); got[jobs.OutcomeDone] != want || got[jobs.OutcomeCancelled] != 1 {
		t.Errorf("%v", got)
	}
	if waiting := w.waiting(); len(waiting) != left || left == 1 && waiting[0].ID != gap {
		t.Errorf("%d rows wait, want the one that came late, unless it was checked", len(waiting))
	}
}

func TestARowThatIsLockedElsewhereLeavesItsBatchAndIsCheckedLater(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	checks := map[string]int{}
	w.registry.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, job := range batch {
			checks[job.EntityKey]++
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), 100)
	business := w.db.MustBegin()
	defer func() { _ = business.Rollback() }()
	if _, _, err := w.client.Reschedule(t.Context(), business, key(7), slot(9)); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	w.eventually("the other rows to be recorded", func() bool { return w.outcomes()[jobs.OutcomeDone] == 99 })
	if err := business.Rollback(); err != nil {
		t.Fatal(err)
	}
	if result := <-finished; result.Finished != 100 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	for key, n := range checks {
		if n != 1 {
			t.Errorf("order %s was checked %d times", key, n)
		}
	}
}

func TestARowThatIsLockedWhenItsBatchBeginsIsCheckedByTheSameRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	business := w.db.MustBegin()
	var calls []int
	w.registry.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		_ = business.Rollback()
		calls = append(calls, len(batch))
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), 10)
	if _, _, err := w.client.Reschedule(t.Context(), business, key(1), slot(9)); err != nil {
		t.Fatal(err)
	}
	result := w.run(slot(1))
	if result.Finished != 10 || result.State != slots.StateDone || !slices.Equal(calls, []int{9, 1}) {
		t.Errorf("%+v in calls of %v rows", result, calls)
	}
}

func TestAGroupIsCheckedWholeInOneCallHoweverManyPagesItHas(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	calls := map[string][]int{}
	customer := jobs.Group("customer", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[groupOf(batch[0])] = append(calls[groupOf(batch[0])], len(batch))
		for _, job := range batch {
			if groupOf(job) != groupOf(batch[0]) {
				t.Errorf("%s among %s", groupOf(job), groupOf(batch[0]))
			}
		}
		var locks int
		if err := tx.GetContext(ctx, &locks, `select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`); err != nil || locks != 1 {
			t.Errorf("%d advisory locks held, want 1 (%v)", locks, err)
		}
		return make([]jobs.Result, len(batch)), nil
	})
	w.registry.Register("a", customer, jobs.MaxChecks(2))
	w.registry.Register("b", customer, jobs.MaxChecks(2))
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 200)
	want := map[string][]int{"order\x1fno group": {1}, "or\x1fder\x1fno group": {2}}
	var list []jobs.Request
	for group, size := range map[string]int{"small": 3, "page": 50, "large": 180, "ünïcode": 20, "Z": 49, "a": 51} {
		want[group] = []int{size}
		for i := range size {
			list = append(list, jobs.Request{
				JobExec: []string{"a", "b"}[i%2], EntityName: "customer", EntityKey: fmt.Sprint(group, i), GroupKey: group,
			})
		}
	}
	list = append(list,
		jobs.Request{JobExec: "a", EntityName: "order", EntityKey: "no group"},
		jobs.Request{JobExec: "a", EntityName: "or\x1fder", EntityKey: "no group"},
		jobs.Request{JobExec: "b", EntityName: "or\x1fder", EntityKey: "no group"},
	)
	for i := range list {
		list[i].CheckAt = slot(1)
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	result := w.run(slot(1))
	if result.Finished != int64(len(list)+200) || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}

// A call of a group has rows of several jobs, each with options of its own.
func TestTheOptionsOfItsOwnJobDecideAboutARowOfAGroup(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var called []string
	family := jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			called, results[i].Next = append(called, job.JobExec), new(slot(9))
		}
		return results, nil
	})
	w.registry.Register("once", family, jobs.MaxChecks(1))
	w.registry.Register("often", family, jobs.MaxChecks(5))
	w.registry.Register("skips", family, jobs.OnMisfire(jobs.MisfireSkip))
	w.registry.Register("ends", family, jobs.Deadline(time.Minute))
	for _, name := range []string{"often", "once", "skips", "ends"} {
		request := jobs.Request{JobExec: name, EntityName: "customer", EntityKey: "1", GroupKey: "a", CheckAt: slot(1)}
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), request); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Set(slot(2))
	w.catchUp(slots.CatchUp{})
	slices.Sort(called)
	if diff := cmp.Diff([]string{"often", "once"}, called); diff != "" {
		t.Error(diff)
	}
	var ended []string
	if err := w.db.Select(&ended, `select job_exec || ' ' || outcome from prescient.future_job_history order by 1`); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ends deadline", "once max_checks", "skips skipped"}, ended); diff != "" {
		t.Error(diff)
	}
}

// The claim is too large to be read at once: the last row of the group comes when the first one has been tried.
func TestARowOfAGroupIsCheckedThoughTheOneThatStoodForItIsCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const rows = 40
	first := jobs.Key{JobExec: "job", EntityName: "order", EntityKey: "00"}
	var tried, cancelled bool
	w.registry.Register("job", jobs.Group("family", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		var err error
		switch {
		case !tried:
			tried = true
			_, err = tx.ExecContext(ctx, "do $$ begin raise serialization_failure; end $$")
		case !cancelled:
			cancelled, err = w.client.Cancel(ctx, jobs.OwnTx(w.db), first)
		}
		return make([]jobs.Result, len(batch)), err
	}))
	var list []jobs.Request
	for i := range rows {
		job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprintf("%02d", i), GroupKey: fmt.Sprint(i % (rows - 1))}
		job.CheckAt = slot(1)
		list = append(list, job)
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec("update prescient.future_job set payload = to_jsonb(repeat('x', 900000))")
	result := w.run(slot(1), func(c *slots.Config) { c.Connections = 1 })
	if left := w.waiting(); len(left) > 0 || !cancelled || result.Finished != rows-1 || result.State != slots.StateDone {
		t.Errorf("%d rows left: %+v", len(left), result)
	}
}

func TestAGroupsCheckWaitsForWhoeverHoldsTheGroup(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), 1)
	business := w.db.MustBegin()
	defer func() { _ = business.Rollback() }()
	if _, err := business.Exec(`select prescient.lock_group('order' || chr(31) || '0')`); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	select {
	case <-finished:
		t.Fatal("the run did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	if err := business.Rollback(); err != nil {
		t.Fatal(err)
	}
	if result := <-finished; result.Finished != 1 {
		t.Errorf("%+v", result)
	}
}

// doneGroup finishes every row.
func doneGroup(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
	return make([]jobs.Result, len(batch)), nil
}

// While a batch is checked, another runner takes over its claim and dies.
func TestABatchThatLosesItsLeaseIsNotRecordedAndCheckedAgain(t *testing.T) {
	t.Parallel()
	for _, inTx := range []bool{false, true} {
		t.Run(fmt.Sprintf("transaction %t", inTx), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExecContext(t.Context(), `create table effect (id bigint)`)
			var checked atomic.Int64
			var once sync.Once
			steal := func() {
				w.db.MustExecContext(t.Context(), `
					update prescient.slot_claim
					set token = token + 1, allocated_until = statement_timestamp() - interval '1 second'
					where jobs <> '{}'`)
			}
			check := func(batch []jobs.FutureJob) []jobs.Result {
				checked.Add(int64(len(batch)))
				once.Do(steal)
				return make([]jobs.Result, len(batch))
			}
			if inTx {
				w.registry.Register("job", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
					for _, job := range batch {
						if _, err := tx.ExecContext(ctx, `insert into effect (id) values ($1)`, job.ID); err != nil {
							return nil, err
						}
					}
					return check(batch), nil
				}))
			} else {
				w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
					return check(batch), nil
				}))
			}
			const rows = 200
			w.enqueue("job", slot(1), rows)
			result := w.run(slot(1), func(c *slots.Config) { c.Page = 1000 })
			if result.Finished != rows || result.Lost != 1 || result.TakenOver != 1 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if got := w.outcomes(); got[jobs.OutcomeDone] != rows || len(got) != 1 {
				t.Errorf("history has %v", got)
			}
			effects := w.count(`select count(*) from effect`)
			switch {
			case inTx && effects != rows:
				t.Errorf("%d effects, want one of each of %d rows", effects, rows)
			case checked.Load() != 2*rows:
				t.Errorf("%d checks, want %d, and the same again", checked.Load(), rows)
			}
		})
	}
}
