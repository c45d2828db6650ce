package slots_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// poison is the check of a bad row. tx is nil in jobs without a transaction.
type poison struct {
	do    func(ctx context.Context, tx *sqlx.Tx) error
	inTx  bool // it needs a transaction
	waits bool // for the timeout
}

// timeout is short for a poison that waits for it: the engine divides a call that has timed out, and so calls it again and
// again. It is long enough for the 50 good rows of a call on a machine that does much else.
func (p poison) timeout() time.Duration {
	if p.waits {
		return 3 * time.Second
	}
	return time.Minute
}

// endsTx is the poison that has no savepoint to protect the rows of its call.
const endsTx = "ends the transaction by SQL"

var poisons = map[string]poison{
	"returns an error": {func(context.Context, *sqlx.Tx) error { return errors.New("no such order") }, false, false},
	"panics":           {func(context.Context, *sqlx.Tx) error { panic("no such order") }, false, false},
	"calls Goexit":     {func(context.Context, *sqlx.Tx) error { runtime.Goexit(); return nil }, false, false},
	"times out":        {func(ctx context.Context, _ *sqlx.Tx) error { <-ctx.Done(); return ctx.Err() }, false, true},
	"times out in a statement": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `select pg_sleep(600)`)
		return err
	}, true, true},
	"violates a constraint": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into alert values (null)`)
		return err
	}, true, false},
	"goes on after an SQL error": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, `select 1/0`)
		return nil
	}, true, false},
	"violates a deferred constraint": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into part values (1), (1)`)
		return err
	}, true, false},
	endsTx: {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `rollback`)
		return err
	}, true, false},
	"kills its connection": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	}, true, false},
	"deadlocks": {func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$`)
		return err
	}, true, false},
}

// shape registers a job whose check of one row is fn.
type shape struct {
	register func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option)
	inTx     bool
	most     map[string]int // calls of a good row, by poison; "" is for the others
}

// divided is the most calls of a good row in calls of 50 rows: it is in each half that the bad row is in.
var divided = map[string]int{
	"returns an error": 1, "panics": 1, "violates a constraint": 1, "goes on after an SQL error": 1, "kills its connection": 13, "": 7,
}

var shapes = map[string]shape{
	"Row": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) { return fn(ctx, nil, job) }), opts...)
	}, false, map[string]int{"": 1}},
	"InTx": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.InTx(fn), opts...)
	}, true, map[string]int{"": 1}},
	"Each": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.Each(fn), opts...)
	}, true, divided},
	"Batch": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for i, job := range batch {
				_, err := fn(ctx, nil, job)
				if ctx.Err() != nil {
					return nil, err
				}
				results[i].Err = err
			}
			return results, nil
		}), append(opts, jobs.BatchSize(50))...)
	}, false, map[string]int{"returns an error": 1, "": 7}},
	"BatchInTx": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for _, job := range batch {
				if _, err := fn(ctx, tx, job); err != nil {
					return nil, fmt.Errorf("%w: %w", jobs.ErrDivide, err)
				}
			}
			return results, nil
		}), append(opts, jobs.BatchSize(50))...)
	}, true, map[string]int{"kills its connection": 13, "": 7}},
	"Group": {func(r *jobs.Registry, name string, fn jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.Group(name, func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for _, job := range batch {
				if _, err := fn(ctx, tx, job); err != nil {
					return nil, err
				}
			}
			return results, nil
		}), opts...)
	}, true, map[string]int{"": 1}},
}

func TestABadRowCostsItselfOneErrorAndTheOthersRepetitionsAtMost(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks thousands of rows again and again")
	}
	t.Parallel()
	for shape, s := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`
				create table alert (job text not null, order_key text, unique (job, order_key));
				create table part (number int unique deferrable initially deferred)`)
			var mu sync.Mutex
			calls := map[string]map[string]int{}
			jobsOf := 0
			for name, p := range poisons {
				if p.inTx && !s.inTx || name == endsTx && shape == "BatchInTx" { // which commits what it writes after that
					continue
				}
				jobsOf++
				calls[name] = map[string]int{}
				s.register(w.registry, name, func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
					mu.Lock()
					calls[name][job.EntityKey]++
					mu.Unlock()
					if tx != nil {
						if _, err := tx.ExecContext(ctx, `insert into alert values ($1, $2)`, name, job.EntityKey); err != nil {
							return nil, err
						}
					}
					if job.EntityKey == "57" {
						return nil, p.do(ctx, tx)
					}
					return nil, nil
				}, jobs.Timeout(p.timeout()))
				w.enqueue(name, slot(1), 100)
			}
			result := w.run(slot(1), func(c *slots.Config) { c.Page, c.Lease = 0, 3*time.Second })
			if result.Finished != int64(99*jobsOf) || result.Failed != int64(jobsOf) || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			for _, row := range w.waiting() {
				if row.EntityKey != "57" || row.ErrorCount != 1 || !row.NextCheckAt.Equal(slot(2)) {
					t.Errorf("%s: row %s waits for %s with %d errors, want the bad row alone, with one", row.JobExec, row.EntityKey, row.NextCheckAt, row.ErrorCount)
				}
			}
			if n := w.count(`select count(*) from prescient.future_job_history where error_count > 0 or last_error is not null`); n != 0 {
				t.Errorf("%d good rows have had an error", n)
			}
			if n := w.count(`select count(*) from alert where order_key <> '57'`); s.inTx && n != 99*jobsOf {
				t.Errorf("%d alerts of good rows, want %d", n, 99*jobsOf)
			}
			if n := w.count(`select count(*) from alert where order_key = '57'`); n != 0 {
				t.Errorf("%d alerts of bad rows", n)
			}
			for name, calls := range calls {
				bad := calls["57"]
				delete(calls, "57")
				most := slices.Max(slices.Collect(maps.Values(calls)))
				bound, own := s.most[name]
				if !own {
					bound = s.most[""]
				}
				if most > bound {
					t.Errorf("%s: a good row was called %d times, want %d at most", name, most, bound)
				}
				t.Logf("%s: the bad row was called %d times, a good one at most %d times", name, bad, most)
			}
		})
	}
}

// With a service that hangs, dividing each call would wait for it once for each row. Three slow rows make three calls
// time out of each size, so the fourth of a size tells that more is wrong: 1 + 2 + 4 calls, and the halves of three.
func TestCallsThatAllTimeOutAreNotDividedDownToTheRow(t *testing.T) {
	t.Parallel()
	const rows, most = 64, 1 + 2 + 4 + 6
	hangs := map[string]func(w *world, calls *atomic.Int64){
		"until its timeout": func(w *world, calls *atomic.Int64) {
			w.registry.Register("job", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				calls.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}), jobs.Timeout(50*time.Millisecond))
		},
		"until statement_timeout": func(w *world, calls *atomic.Int64) {
			w.registry.Register("job", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, _ []jobs.FutureJob) ([]jobs.Result, error) {
				calls.Add(1)
				_, err := tx.ExecContext(ctx, `set local statement_timeout = '20ms'; select pg_sleep(60)`)
				return nil, err
			}))
		},
		"until statement_timeout, on a connection of its own": func(w *world, calls *atomic.Int64) {
			w.registry.Register("job", jobs.Batch(func(ctx context.Context, _ []jobs.FutureJob) ([]jobs.Result, error) {
				calls.Add(1)
				_, err := w.db.ExecContext(ctx, `set local statement_timeout = '20ms'; select pg_sleep(60)`)
				return nil, err
			}))
		},
	}
	for name, register := range hangs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var calls atomic.Int64
			register(w, &calls)
			w.enqueue("job", slot(1), rows)
			result := w.run(slot(1), func(c *slots.Config) { c.Page = rows })
			if n := calls.Load(); n > most {
				t.Errorf("%d calls, want %d at most", n, most)
			}
			for _, row := range w.waiting() {
				if row.ErrorCount != 1 {
					t.Errorf("row %s has %d errors", row.EntityKey, row.ErrorCount)
				}
			}
			if result.Failed != rows {
				t.Errorf("%+v", result)
			}
		})
	}
}

// The server names no row with its error.
func TestAValueThatTheServerRefusesIsTheErrorOfItsRowAlone(t *testing.T) {
	t.Parallel()
	const keys = `select sum(1 / (k::int - 57)) from unnest($1::text[]) k`
	keysOf := func(batch []jobs.FutureJob) pq.StringArray {
		var list pq.StringArray
		for _, job := range batch {
			list = append(list, job.EntityKey)
		}
		return list
	}
	for name, register := range map[string]func(w *world){
		"Batch": func(w *world) {
			w.registry.Register("job", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				_, err := w.db.ExecContext(ctx, keys, keysOf(batch))
				return make([]jobs.Result, len(batch)), err
			}))
		},
		"BatchInTx": func(w *world) {
			w.registry.Register("job", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				_, err := tx.ExecContext(ctx, keys, keysOf(batch))
				return make([]jobs.Result, len(batch)), err
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w)
			w.enqueue("job", slot(1), 100)
			if result := w.run(slot(1)); result.Finished != 99 || result.Failed != 1 {
				t.Errorf("%+v", result)
			}
			for _, row := range w.waiting() {
				if row.EntityKey != "57" || !strings.Contains(row.LastError, "division by zero") {
					t.Errorf("row %s waits: %s", row.EntityKey, row.LastError)
				}
			}
		})
	}
}

// A service that is down is not called once for each row.
func TestAnErrorThatABatchWithATransactionReturnsIsEveryRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	calls := 0
	w.registry.Register("job", jobs.BatchInTx(func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return nil, errors.New("the carrier does not answer")
	}), jobs.BatchSize(25))
	w.enqueue("job", slot(1), 100)
	if result := w.run(slot(1)); result.Failed != 100 || calls > 6 {
		t.Errorf("%d calls, %+v", calls, result)
	}
}

func TestABatchFunctionMayAskToBeDivided(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			if job.EntityKey == "57" {
				return nil, jobs.ErrDivide
			}
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), 100)
	if result := w.run(slot(1)); result.Finished != 99 || result.Failed != 1 {
		t.Errorf("%+v", result)
	}
}

// With lock_timeout, a row that another transaction has locked does not hold up the others of its call.
func TestARowThatWaitsForALockLeavesTheOthersOfItsCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table orders as select n::text as id, false as seen from generate_series(0, 99) as n`)
	w.registry.Register("job", jobs.Each(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if _, err := tx.ExecContext(ctx, `set local lock_timeout = '50ms'`); err != nil {
			return nil, err
		}
		_, err := tx.ExecContext(ctx, `update orders set seen = true where id = $1`, job.EntityKey)
		return nil, err
	}))
	w.enqueue("job", slot(1), 100)
	other := w.db.MustBegin()
	other.MustExec(`update orders set seen = false where id = '57'`)
	w.clock.Set(slot(1))
	run := w.background(slot(1))
	w.eventually("the others are done", func() bool { return w.outcomes()[jobs.OutcomeDone] == 99 })
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if result := <-run; result.Finished != 100 || result.Failed != 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

func TestBatchSizeBoundsTheRowsOfACall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	var sizes []int
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, len(batch))
		return make([]jobs.Result, len(batch)), nil
	}), jobs.BatchSize(7))
	w.enqueue("job", slot(1), 100)
	if result := w.run(slot(1)); result.Finished != 100 {
		t.Errorf("%+v", result)
	}
	for _, n := range sizes {
		if n > 7 {
			t.Errorf("a call of %d rows", n)
		}
	}
	if len(sizes) > 100/7+3 {
		t.Errorf("%d calls: %v", len(sizes), sizes)
	}
}
