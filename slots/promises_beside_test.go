package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// missFour enqueues a check of job for each of four slots, and lets them pass.
func (w *world) missFour(job string) {
	w.t.Helper()
	var list []jobs.Request
	for n := range 4 {
		list = append(list, jobs.Request{JobExec: job, EntityName: "order", EntityKey: fmt.Sprint(n), CheckAt: slot(n + 1)})
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Set(slot(5))
}

// states returns the states of the results of a catch-up, by slot.
func states(caught slots.Caught) (list []string) {
	for _, r := range caught.Results {
		list = append(list, fmt.Sprint(r.Slot.Format("15:04 "), r.State, " ", r.Checked))
	}
	return list
}

func TestALockedRowInTheOldestMissedSlotDelaysNoOtherSlot(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(r *jobs.Registry, check jobs.CheckFunc){
		"which waits to be recorded": func(r *jobs.Registry, check jobs.CheckFunc) { r.Register("job", jobs.Row(check)) },
		"which waits to be checked": func(r *jobs.Registry, check jobs.CheckFunc) {
			r.Register("job", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return check(ctx, job)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var checks atomic.Int64
			register(w.registry, func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				if job.EntityKey == "0" {
					checks.Add(1)
				}
				return nil, nil
			})
			w.missFour("job")
			psql := w.db.MustBegin()
			defer func() { _ = psql.Rollback() }()
			psql.MustExec(`select prescient.cancel('job', 'order', '0')`)

			caught, err := w.runner().CatchUp(t.Context(), slots.CatchUp{})
			if !errors.Is(err, slots.ErrLocked) {
				t.Errorf("catch-up beside a lock: %v", err)
			}
			if !pgtest.OnCitus() && !strings.Contains(fmt.Sprint(err), "has a lock of rows of job; 1 row waits; to end it: select pg_terminate_backend(") {
				t.Errorf("the error does not name the session: %v", err)
			}
			want := []string{"12:15 open 0", "12:30 done 1", "12:45 done 1", "13:00 done 1"}
			if diff := cmp.Diff(want, states(caught)); diff != "" {
				t.Error(diff)
			}
			first := checks.Load()
			if first > 1 {
				t.Errorf("the function was called %d times while its row was locked", first)
			}

			// While it is locked, the next catch-up calls no function either. Then the row is cancelled or checked.
			if _, err = w.runner().CatchUp(t.Context(), slots.CatchUp{}); !errors.Is(err, slots.ErrLocked) || checks.Load() > first {
				t.Errorf("the next catch-up: %v after %d calls", err, checks.Load())
			}
			_ = psql.Rollback()
			caught, err = w.runner().CatchUp(t.Context(), slots.CatchUp{})
			if diff := cmp.Diff([]string{"12:15 done 1"}, states(caught)); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if n := checks.Load(); n != first+1 {
				t.Errorf("the function was called %d times", n)
			}
		})
	}
}

// A try of such rows takes longer than the pause before it, and no check gets any further.
func TestCatchUpLeavesRowsThatWaitForALockInLongTries(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for locks for long")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		first string // statement of the check
		rows  int
	}{
		"by a lock_timeout of their own": {"set local lock_timeout = '5s'", 1},
		"after some work":                {"select pg_sleep(2)", 1},
		"on few connections":             {"select", 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`create table orders (seen int); insert into orders values (0)`)
			w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				if _, err := tx.ExecContext(ctx, test.first); err != nil {
					return nil, err
				}
				_, err := tx.ExecContext(ctx, `update orders set seen = seen + 1`)
				return nil, err
			}), jobs.Retry(0))
			w.enqueue("job", slot(1), test.rows)
			w.clock.Set(slot(2))
			holder := w.db.MustBegin()
			defer func() { _ = holder.Rollback() }()
			holder.MustExec(`lock table orders`)
			few := func(c *slots.Config) { c.Connections = 2 }
			ctx, stop := context.WithTimeout(t.Context(), await.Limit)
			defer stop()
			caught, err := w.runner(few).CatchUp(ctx, slots.CatchUp{})
			if diff := cmp.Diff([]string{"12:15 open 0"}, states(caught)); diff != "" || !errors.Is(err, slots.ErrLocked) {
				t.Error(err, diff)
			}
			_ = holder.Rollback()
			caught, err = w.runner(few).CatchUp(t.Context(), slots.CatchUp{})
			if err != nil || caught.Total.Finished != int64(test.rows) {
				t.Errorf("%+v: %v", caught.Total, err)
			}
			if n := w.count(`select seen from orders`); n != test.rows {
				t.Errorf("%d checks are committed, want %d", n, test.rows)
			}
		})
	}
}

func TestCatchUpReturnsToASlotWhoseLockIsGone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}))
	w.missFour("job")
	release := w.hold(1) // it is that of the oldest slot
	caught, err := w.runner(func(c *slots.Config) {
		c.Observer = ranSlots(func(r slots.Result, err error) {
			if errors.Is(err, slots.ErrLocked) {
				release()
			}
		})
	}).CatchUp(t.Context(), slots.CatchUp{})
	want := []string{"12:15 done 1", "12:30 done 1", "12:45 done 1", "13:00 done 1"}
	if diff := cmp.Diff(want, states(caught)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if caught.Total != (slots.Total{Slots: 4, Done: 4, Checked: 4, Finished: 4}) {
		t.Errorf("%+v", caught.Total)
	}
}

// ranSlots is an observer of the runs of slots.
type ranSlots func(r slots.Result, err error)

func (ranSlots) Recorded([]slots.Recorded) {}

func (f ranSlots) Ran(r slots.Result, err error) { f(r, err) }

func TestAHangingCheckInTheOldestMissedSlotDelaysNoOtherSlot(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]jobs.Option{
		"of a job without a limit":    nil,
		"of a job with a limit":       {jobs.AtMost(2)},
		"of a job with a concurrency": {jobs.Concurrency(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			others := make(chan struct{}, 3)
			w.registry.Register("other", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				others <- struct{}{}
				return nil, nil
			}))
			w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
				for range 3 {
					select {
					case <-others:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				return nil, nil
			}), append(options, jobs.Timeout(time.Minute), jobs.Retry(0))...)
			w.enqueue("job", slot(1), 1)
			for n := range 3 {
				w.enqueueAs("other", fmt.Sprint(n), slot(n+2), 1)
			}
			w.clock.Set(slot(5))
			caught, err := w.runner(func(c *slots.Config) { c.Workers = 2 }).CatchUp(t.Context(), slots.CatchUp{})
			want := []string{"12:15 done 1", "12:30 done 1", "12:45 done 1", "13:00 done 1"}
			if diff := cmp.Diff(want, states(caught)); diff != "" || err != nil {
				t.Error(err, diff)
			}
			if caught.Total.Failed > 0 {
				t.Errorf("%+v", caught.Total)
			}
		})
	}
}

// One check of the job hangs, or the next one has to wait for its instant, and its other rows have not begun.
func TestAJobAtItsOwnLimitDelaysNoOtherSlot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		option jobs.Option
		hangs  bool
	}{
		"AtMost":      {jobs.AtMost(1), true},
		"Concurrency": {jobs.Concurrency(1), true},
		"PerSecond":   {jobs.PerSecond(1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			ctx, stop := context.WithTimeout(t.Context(), await.Limit)
			defer stop()
			var others atomic.Int64
			w.registry.Register("other", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				if others.Add(1) == 3 {
					stop()
				}
				return nil, nil
			}))
			w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
				if test.hangs {
					<-ctx.Done()
				}
				return nil, ctx.Err()
			}), test.option, jobs.Timeout(2*await.Limit))
			for n := range 2 {
				w.enqueueAs("job", fmt.Sprint(n), slot(n+1), int(await.Limit/time.Second))
			}
			for n := range 3 {
				w.enqueueAs("other", fmt.Sprint(n), slot(n+2), 1)
			}
			w.clock.Set(slot(5))
			_, err := w.runner(func(c *slots.Config) { c.Workers, c.Grace = 2, time.Millisecond }).CatchUp(ctx, slots.CatchUp{})
			if others.Load() != 3 || !errors.Is(err, slots.ErrStopped) {
				t.Errorf("%d checks in the other slots: %v", others.Load(), err)
			}
		})
	}
}

func TestTheSlotsOfACatchUpShareTheBoundsOfARun(t *testing.T) {
	t.Parallel()
	const workers, connections, concurrency, rows = 6, 3, 2, 40
	w := setup(t)
	going := newGauge()
	check := func(keys ...string) {
		for _, key := range keys {
			defer going.enter(key)()
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.registry.Register("plain", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		check("all")
		return nil, nil
	}))
	w.registry.Register("tx", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		check("all", "tx")
		return nil, nil
	}))
	w.registry.Register("few", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		check("all", "few")
		return nil, nil
	}), jobs.Concurrency(concurrency))
	for n := range 6 {
		for _, job := range []string{"plain", "tx", "few"} {
			w.enqueueAs(job, fmt.Sprint(n), slot(n+1), rows/6)
		}
	}
	w.clock.Set(slot(8))
	db := open(t, w.url)
	db.SetMaxOpenConns(connections + slots.OwnConnections)
	caught, err := w.runner(func(c *slots.Config) {
		c.DB, c.Workers, c.Connections = db, workers, connections
	}).CatchUp(t.Context(), slots.CatchUp{})
	if err != nil || caught.Total.Done != 6 {
		t.Errorf("%+v: %v", caught.Total, err)
	}
	for key, most := range map[string]int{"all": workers, "tx": connections, "few": concurrency} {
		if got := going.most[key]; got > most {
			t.Errorf("%d checks of %s ran at once, and %d may", got, key, most)
		}
	}
}

// enqueueAs asks for n checks of a job at a slot, on entities of a name of their own.
func (w *world) enqueueAs(job, entity string, at time.Time, n int) {
	w.t.Helper()
	var list []jobs.Request
	for i := range n {
		list = append(list, jobs.Request{JobExec: job, EntityName: entity, EntityKey: fmt.Sprint(i), CheckAt: at})
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

// The clock goes on with the test, and the slot after the next begins in a few seconds.
func TestARunLeavesALockedRowBeforeTheNextSlotBegins(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 2)
	release := w.hold(1)
	defer release()
	w.clock.Set(slot(1))
	ahead := slot(2).Add(-33 * time.Second)
	began := time.Now()
	result, err := w.runner(func(c *slots.Config) {
		c.Now = func() time.Time { return ahead.Add(time.Since(began)) }
	}).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrLocked) || result.State != slots.StateOpen || result.Finished != 1 {
		t.Errorf("%+v: %v", result, err)
	}
}
