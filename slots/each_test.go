package slots_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// poison is what a check of one row does in a transaction that it shares with 99 good rows, or in a batch of them.
var poison = map[string]func(ctx context.Context, tx *sqlx.Tx) error{
	"returns an error": func(context.Context, *sqlx.Tx) error { return errors.New("no such order") },
	"panics":           func(context.Context, *sqlx.Tx) error { panic("no such order") },
	"calls Goexit":     func(context.Context, *sqlx.Tx) error { runtime.Goexit(); return nil },
	"violates a constraint": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into alert values (null)`)
		return err
	},
	"goes on after an SQL error": func(ctx context.Context, tx *sqlx.Tx) error {
		_, _ = tx.ExecContext(ctx, `select 1/0`)
		return nil
	},
	"violates a deferred constraint": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into part values ('no such alert')`)
		return err
	},
	"ends the transaction by SQL": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `rollback`)
		return err
	},
	"kills its connection": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	},
	"times out in a statement": func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `select pg_sleep(600)`)
		return err
	},
	"times out outside the database": func(ctx context.Context, _ *sqlx.Tx) error {
		<-ctx.Done()
		return ctx.Err()
	},
}

func TestABadRowOfASharedTransactionCostsItselfOneErrorAndTheOthersNone(t *testing.T) {
	t.Parallel()
	for name, bad := range poison {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`
				create table alert (order_key text primary key);
				create table part (of text references alert deferrable initially deferred)`)
			var mu sync.Mutex
			calls := map[string]int{}
			w.registry.RegisterEach("job", func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				mu.Lock()
				calls[job.EntityKey]++
				mu.Unlock()
				if _, err := tx.ExecContext(ctx, `insert into alert values ($1)`, job.EntityKey); err != nil {
					return nil, err
				}
				if job.EntityKey == "bad" {
					return nil, bad(ctx, tx)
				}
				return nil, nil
			}, jobs.Timeout(500*time.Millisecond))
			for n := range 100 {
				key := "good " + strconv.Itoa(n)
				if n == 57 {
					key = "bad"
				}
				if _, err := w.client.Enqueue(t.Context(), w.db, jobs.FutureJob{JobExec: "job", EntityName: "order", EntityKey: key, CheckAt: slot(1)}, jobs.Keep); err != nil {
					t.Fatal(err)
				}
			}
			result := w.run(slot(1))
			if result.Finished != 99 || result.Failed != 1 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			waiting := w.waiting()
			if len(waiting) != 1 || waiting[0].EntityKey != "bad" || waiting[0].ErrorCount != 1 || !waiting[0].NextCheckAt().Equal(slot(2)) {
				t.Errorf("%d wait, want the bad row with one error", len(waiting))
			}
			if n := w.count(`select count(*) from alert where order_key like 'good %'`); n != 99 {
				t.Errorf("%d alerts, want 99", n)
			}
			if n := w.count(`select count(*) from alert`); n != 99 {
				t.Errorf("%d alerts in all: what the bad row wrote is there", n)
			}
			most := 0
			for key, n := range calls {
				if key != "bad" {
					most = max(most, n)
				}
			}
			t.Logf("the bad row was called %d times, a good one at most %d times", calls["bad"], most)
		})
	}
}

func TestABatchWhoseCallFailsAsAWholeIsDivided(t *testing.T) {
	t.Parallel()
	for name, bad := range poison {
		if name == "returns an error" || name == "violates a constraint" || name == "ends the transaction by SQL" {
			continue // the function returns an error, for every row
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`
				create table alert (order_key text primary key);
				create table part (of text references alert deferrable initially deferred)`)
			w.registry.RegisterBatchTx("job", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				for _, job := range batch {
					if _, err := tx.ExecContext(ctx, `insert into alert values ($1)`, job.EntityKey); err != nil {
						return nil, err
					}
				}
				for _, job := range batch {
					if job.EntityKey == "57" {
						if err := bad(ctx, tx); err != nil {
							return nil, err
						}
					}
				}
				return make([]jobs.Result, len(batch)), nil
			}, jobs.Timeout(500*time.Millisecond))
			w.enqueue("job", slot(1), 100)
			if result := w.run(slot(1)); result.Finished != 99 || result.Failed != 1 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if waiting := w.waiting(); len(waiting) != 1 || waiting[0].EntityKey != "57" || waiting[0].ErrorCount != 1 {
				t.Errorf("%d wait, want the bad row with one error", len(waiting))
			}
			if n := w.count(`select count(*) from alert where order_key <> '57'`); n != 99 {
				t.Errorf("%d alerts, want 99", n)
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
	w.registry.RegisterBatchTx("job", func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return nil, errors.New("the carrier does not answer")
	}, jobs.BatchSize(25))
	w.enqueue("job", slot(1), 100)
	if result := w.run(slot(1)); result.Failed != 100 || calls > 6 {
		t.Errorf("%d calls, %+v", calls, result)
	}
}

func TestABatchFunctionMayAskToBeDivided(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.RegisterBatchTx("job", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			if job.EntityKey == "57" {
				return nil, jobs.ErrDivide
			}
		}
		return make([]jobs.Result, len(batch)), nil
	})
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
	w.registry.RegisterEach("job", func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if _, err := tx.ExecContext(ctx, `set local lock_timeout = '50ms'`); err != nil {
			return nil, err
		}
		_, err := tx.ExecContext(ctx, `update orders set seen = true where id = $1`, job.EntityKey)
		return nil, err
	})
	w.enqueue("job", slot(1), 100)
	other := w.db.MustBegin()
	other.MustExec(`update orders set seen = false where id = '57'`)
	w.clock.Set(slot(1))
	run := w.background(slot(1))
	w.eventually("the others are done", func() bool { return w.outcomes()[jobs.Done] == 99 })
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
	w.registry.RegisterBatch("job", func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, len(batch))
		return make([]jobs.Result, len(batch)), nil
	}, jobs.BatchSize(7))
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
