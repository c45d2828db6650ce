package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// hold locks some of the rows that wait, spread over all, as a business transaction does, until release.
func (w *world) hold(rows int) (release func()) {
	w.t.Helper()
	business := w.db.MustBegin()
	w.t.Cleanup(func() { _ = business.Rollback() })
	business.MustExec(`
		select from prescient.future_job
		where id % (select count(*) / $1 from prescient.future_job) = 0
		order by id
		limit $1
		for update`, rows)
	return func() { _ = business.Rollback() }
}

// ended is how many rows have ended.
func (w *world) ended() int {
	w.t.Helper()
	return w.count(`select count(*) from prescient.future_job_history`)
}

func TestRowsThatStayLockedHoldUpNoOthersAndCostNoLease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rows, locked int
		lease        time.Duration
	}{
		{rows: 20000, locked: 20, lease: 10 * time.Second},
		{rows: 4000, locked: 400, lease: 2 * time.Second},
	} {
		if testing.Short() && test.rows > 4000 {
			continue
		}
		t.Run(fmt.Sprintf("%d of %d", test.locked, test.rows), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var checks atomic.Int64
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				checks.Add(1)
				return nil, nil
			}))
			db := open(t, w.url)
			db.SetMaxOpenConns(slots.DefaultConnections + slots.OwnConnections)
			documented := func(c *slots.Config) { c.DB = db; c.Page = 0; c.Lease = test.lease }
			w.enqueue("job", slot(1), test.rows)
			usual := w.run(slot(1), documented).Took

			w.enqueue("job", slot(2), test.rows)
			release := w.hold(test.locked)
			w.clock.Set(slot(2))
			started := time.Now()
			finished := w.background(slot(2), documented)
			w.eventually("all others to be recorded", func() bool { return w.ended() == 2*test.rows-test.locked })
			if took := time.Since(started); took > 10*usual+time.Minute {
				t.Errorf("the others took %s, and %s where no row is locked", took, usual)
			}
			time.Sleep(max(0, 4*time.Second-time.Since(started))) // two of the short leases
			release()
			result := <-finished
			if result.Finished != int64(test.rows) || result.Lost+result.TakenOver > 0 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if n := checks.Load(); n != 2*int64(test.rows) {
				t.Errorf("%d checks, want %d", n, 2*test.rows)
			}
		})
	}
}

func TestARowThatStaysLockedForThreeLeasesCostsNoLeaseAndFewStatements(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(r *jobs.Registry, check jobs.CheckFunc){
		"it waits to be recorded": func(r *jobs.Registry, check jobs.CheckFunc) { r.Register("job", jobs.Row(check)) },
		"it waits to be checked": func(r *jobs.Registry, check jobs.CheckFunc) {
			r.Register("job", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return check(ctx, job)
			}))
		},
		"its group waits to be checked": func(r *jobs.Registry, check jobs.CheckFunc) {
			r.Register("job", jobs.Group("family", oneByOne(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return check(ctx, job)
			})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			network := w.network()
			db := network.open()
			var checks atomic.Int64
			register(w.registry, func(context.Context, jobs.FutureJob) (*time.Time, error) {
				checks.Add(1)
				return nil, nil
			})
			const rows, lease, messages = 100, 2 * time.Second, 20
			w.enqueue("job", slot(1), rows)
			release := w.hold(1)
			w.clock.Set(slot(1))
			finished := w.background(slot(1), func(c *slots.Config) { c.DB = db; c.Lease = lease })
			w.eventually("all others to be recorded", func() bool { return w.ended() == rows-1 })
			before := network.sent()
			time.Sleep(3 * lease)
			if n := float64(network.sent()-before) / (3 * lease).Seconds(); n > messages {
				t.Errorf("%.0f messages a second, want %d at the most", n, messages)
			}
			release()
			result := <-finished
			if result.Finished != rows || result.Lost+result.TakenOver > 0 || checks.Load() != rows || result.State != slots.StateDone {
				t.Errorf("%+v after %d checks", result, checks.Load())
			}
		})
	}
}

// The way to the server is long, so that locks are held for a while, and the server looks for deadlocks at once.
func TestBatchesAndHeartbeatsNeverWaitForEachOtherInACircle(t *testing.T) {
	t.Parallel()
	for _, runners := range []int{1, 2} {
		t.Run(fmt.Sprintf("runners: %d", runners), func(t *testing.T) {
			t.Parallel()
			w := setupAt(t, pgtest.Direct(t))
			w.registry.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return make([]jobs.Result, len(batch)), nil
			}))
			const rows = 2000
			w.enqueue("job", slot(1), rows)
			w.clock.Set(slot(1))
			network := w.network()
			network.latency = 3 * time.Millisecond
			db := network.open(pgsql.Param("deadlock_timeout", "10ms"))
			var running []<-chan slots.Result
			for range runners {
				running = append(running, w.background(slot(1), func(c *slots.Config) { c.DB = db; c.Lease = time.Second; c.Page = 40 }))
			}
			for _, finished := range running {
				if result := <-finished; result.State != slots.StateDone {
					t.Errorf("%+v", result)
				}
			}
			_ = db.Close() // a session tells of its deadlocks at its end at the latest
			w.eventually("the sessions of the runners to end", func() bool {
				return w.count(`select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and application_name not like 'citus%'`) <= w.db.Stats().OpenConnections
			})
			if n := w.count(`select deadlocks from pg_stat_database where datname = current_database()`); n > 0 {
				t.Errorf("%d deadlocks", n)
			}
			if n := w.outcomes()[jobs.OutcomeDone]; n != rows {
				t.Errorf("%d rows are done, want %d", n, rows)
			}
		})
	}
}

// citusDeadlocks is why who waits there may be ended within the moment that a run waits.
const citusDeadlocks = "it looks for deadlocks between nodes every other second, and ends the youngest transaction"

// A check holds its row and wants an account, an application the account and the row. It is the application that
// waits first, so that the server would end its transaction.
func TestACheckNeverMakesAnApplicationTheVictimOfADeadlock(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, citusDeadlocks)
	const reschedule = `select prescient.reschedule('job', 'order', '0', check_at => case when set_config('prescient_caller.clock', ('2030-03-01 12:15:00+00')::timestamptz::text, true) is not null then ('2030-03-01 14:15:00+00')::timestamptz end)`
	for name, register := range triedShapes() {
		t.Run(name+", which stays", func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.crossWaits(register, `select from prescient.future_job where entity_key = '0' for update`)
			if diff := cmp.Diff(ended{jobs.OutcomeDone, slot(1), 1, 0, ""}, w.fate()); diff != "" {
				t.Error(diff)
			}
			if n := w.count(`select balance from account`); n != 11 {
				t.Errorf("the balance is %d, want 11", n)
			}
		})
		t.Run(name+", which is moved", func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.crossWaits(register, reschedule)
			if diff := cmp.Diff(ended{"", slot(9), 0, 0, ""}, w.fate()); diff != "" {
				t.Error(diff)
			}
			if n := w.count(`select balance from account`); n != 10 {
				t.Errorf("the balance is %d, want 10", n)
			}
		})
	}
}

// crossWaits lets an application and a check each wait for a lock of the other. query is the application's query of the row.
func (w *world) crossWaits(register func(*jobs.Registry, string, jobs.TxCheckFunc, ...jobs.Option), query string) {
	w.t.Helper()
	w.db.MustExec(`create table account (balance int); insert into account values (0)`)
	started, waits := make(chan struct{}), make(chan struct{})
	var once sync.Once
	register(w.registry, "job", func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		once.Do(func() { close(started) })
		<-waits
		_, err := tx.ExecContext(ctx, `update account set balance = balance + 1`)
		return nil, err
	}, jobs.Retry(0))
	w.enqueue("job", slot(1), 1)
	application := w.db.MustBegin()
	defer func() { _ = application.Rollback() }()
	application.MustExec(`update account set balance = balance + 10`)
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	<-started
	answered := make(chan error, 1)
	go func() {
		_, err := application.Exec(query)
		answered <- err
	}()
	w.eventually("the application to wait for the row", w.waitsForALock)
	close(waits)
	if err := <-answered; err != nil {
		w.t.Errorf("the application: %v", err)
	} else if err := application.Commit(); err != nil {
		w.t.Errorf("the application: %v", err)
	}
	_ = application.Rollback()
	if result := <-finished; result.Failed > 0 || result.State != slots.StateDone {
		w.t.Errorf("%+v", result)
	}
}

// The transaction has the lock of its row from then on, and an application may wait for that.
func TestACheckThatHasWaitedLongForItsRowWaitsBrieflyForOtherLocks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	timeouts := make(chan string, 10)
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		var timeout string
		err := tx.GetContext(ctx, &timeout, `show lock_timeout`)
		timeouts <- timeout
		return nil, err
	}))
	w.enqueue("job", slot(1), 1)
	release := w.hold(1)
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	w.eventually("the check to wait for its row", w.waitsForALock)
	release()
	if result := endOf(t, finished); result.Finished != 1 {
		t.Errorf("%+v", result)
	}
	if timeout := <-timeouts; timeout != "100ms" {
		t.Errorf("the check waits %s for a lock, want 100 ms", timeout)
	}
}

func TestACheckWaitsForAnApplicationWithoutCountingAnError(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table account (balance int); insert into account values (0)`)
	started := make(chan struct{}, 1000)
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		started <- struct{}{}
		_, err := tx.ExecContext(ctx, `update account set balance = balance + 1`)
		return nil, err
	}), jobs.Retry(0))
	w.registry.Register("other", jobs.Row(done))
	w.enqueue("job", slot(1), 20)
	w.enqueue("other", slot(1), 500)
	app := w.db.MustBegin()
	defer func() { _ = app.Rollback() }()
	app.MustExec(`update account set balance = balance + 10`)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.Lease = time.Second })
	<-started
	w.eventually("the rows of the other job to be recorded", func() bool { return w.ended() == 500 })
	time.Sleep(1500 * time.Millisecond) // longer than any lock timeout, and a lease
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	if result := <-finished; result.Failed+int64(result.Lost) > 0 || result.Finished != 520 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if n := w.count(`select balance from account`); n != 30 {
		t.Errorf("the balance is %d, want 30", n)
	}
}

// The last record of a claim has no rows left, and closes the slot. It waits 5 s for the lock at a time.
func TestARunWaitsForTheLockOfItsSlotToCloseIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits 12 s for a lock")
	}
	t.Parallel()
	w := setup(t)
	locked := make(chan *sqlx.Tx, 1)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		tx, err := w.db.BeginTxx(t.Context(), nil)
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec(`select pg_advisory_xact_lock_shared(hashtextextended('prescient.slot ' || extract(epoch from $1::timestamptz), 0))`, slot(1))
		locked <- tx
		return nil, err
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	running := w.startRun(t.Context(), w.runner())
	tx := await.Receive(t, "the check", locked)
	time.AfterFunc(12*time.Second, func() { _ = tx.Rollback() })
	if result := endOf(t, running); result.err != nil || result.State != slots.StateDone || result.Finished != 1 {
		t.Errorf("%+v", result)
	}
}

// The server may report a lock timeout as a cancelled statement.
func TestAStatementThatIsCancelledIsRepeatedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var once, always atomic.Int64
	cancel := func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `select pg_cancel_backend(pg_backend_pid()), pg_sleep(10)`)
		return err
	}
	w.registry.Register("once", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		if once.Add(1) == 1 {
			return nil, cancel(ctx, tx)
		}
		return nil, nil
	}), jobs.Retry(0))
	w.registry.Register("always", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		always.Add(1)
		return nil, cancel(ctx, tx)
	}), jobs.Retry(0))
	w.enqueue("once", slot(1), 1)
	w.enqueue("always", slot(1), 1)
	if result := w.run(slot(1)); result.Finished != 1 || result.Failed != 1 {
		t.Errorf("%+v", result)
	}
	if once.Load() != 2 || always.Load() != 2 {
		t.Errorf("%d and %d calls, want two each", once.Load(), always.Load())
	}
}

// syncBuffer is a log that is written and read by several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// The run itself does not wait in the database, where a lock view would show the holder.
func TestARunThatWaitsLongForTheLockOfARowNamesTheSessionThatHoldsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for locks for long")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	for name, test := range map[string]struct {
		register func(r *jobs.Registry)
		lock     string
	}{
		"a row to be recorded": {
			func(r *jobs.Registry) { r.Register("job", jobs.Row(done)) },
			"select from prescient.future_job for update",
		},
		"a row to be checked": {
			func(r *jobs.Registry) {
				r.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
			},
			"update prescient.future_job set spent = spent",
		},
		"a row of a batch": {
			func(r *jobs.Registry) { r.Register("job", jobs.BatchInTx(doneGroup)) },
			"select from prescient.future_job for update",
		},
		"a row of a group": {
			func(r *jobs.Registry) { r.Register("job", jobs.Group("family", doneGroup)) },
			"select from prescient.future_job for update",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			test.register(w.registry)
			w.enqueue("job", slot(1), 1)
			holder, err := w.db.Connx(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var pid, user string
			err = holder.QueryRowxContext(t.Context(), "select pg_backend_pid(), current_user").Scan(&pid, &user)
			if _, locked := holder.ExecContext(t.Context(), "set application_name = 'terminal'; begin; "+test.lock); err != nil || locked != nil {
				t.Fatal(err, locked)
			}
			var log syncBuffer
			w.clock.Set(slot(1))
			finished := w.background(slot(1), func(c *slots.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			said := "holder=\"session " + pid + " of " + user + " (terminal, idle in transaction)\" to_end_it=\"select pg_terminate_backend(" + pid + ")\""
			w.eventually("the log to name the session", func() bool { return strings.Contains(log.String(), said) })
			if _, err := holder.ExecContext(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
			if err := holder.Close(); err != nil {
				t.Fatal(err)
			}
			if result := <-finished; result.Finished != 1 {
				t.Errorf("%+v", result)
			}
			l, err := ledger.New(t.Context(), w.db, "", w.clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			run, err := l.Show(t.Context(), slot(1))
			if want := "session " + pid + " of " + user + " (terminal, idle in transaction)"; err != nil || run.WaitedFor != want || len(run.Runners) != 1 {
				t.Errorf("the ledger says that runners %q have waited for %q, %v; want %q", run.Runners, run.WaitedFor, err, want)
			}
			if n := strings.Count(log.String(), "rows wait for a lock of another session"); n != 1 {
				t.Errorf("it says so %d times: %s", n, log.String())
			}
		})
	}
}

// The log names the older of two sessions, which then ends. The other one has the row that is left.
func TestARunNamesTheSessionThatHasTheRowsThatItLeaves(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for locks for long")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	for name, register := range map[string]func(r *jobs.Registry){
		"rows to be recorded": func(r *jobs.Registry) { r.Register("job", jobs.Row(done)) },
		"rows to be checked": func(r *jobs.Registry) {
			r.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry)
			w.enqueue("job", slot(1), 2)
			var holders [2]*sqlx.Tx
			var names [2]string
			for i := range holders {
				holders[i] = w.db.MustBegin()
				defer func() { _ = holders[i].Rollback() }()
				holders[i].MustExec(`select from prescient.future_job where entity_key = $1 for update`, fmt.Sprint(i))
				if err := holders[i].Get(&names[i], `select 'session ' || pg_backend_pid() || ' of '`); err != nil {
					t.Fatal(err)
				}
			}
			var log syncBuffer
			w.clock.Set(slot(1))
			running := w.startRun(t.Context(), w.runner(func(c *slots.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
			w.eventually("the log to name the older session", func() bool { return strings.Contains(log.String(), names[0]) })
			_ = holders[0].Rollback()
			w.eventually("its row to be recorded", func() bool { return w.ended() == 1 })
			var result ending
			w.eventually("the run to leave the other row to the next slot", func() bool {
				w.clock.Advance(time.Minute)
				select {
				case result = <-running:
					return true
				default:
					return false
				}
			})
			if !errors.Is(result.err, slots.ErrLocked) || !strings.Contains(result.err.Error(), names[1]) || strings.Contains(result.err.Error(), names[0]) {
				t.Errorf("the run ended with %v, want %s", result.err, names[1])
			}
			for _, name := range names {
				if n := strings.Count(log.String(), `holder="`+name); n != 1 {
					t.Errorf("the log names %s %d times: %s", name, n, log.String())
				}
			}
		})
	}
}

// Another run takes the permit that the row has given back, and then the lock ends.
func TestARowThatWaitsForAPermitAfterALockIsNotLeft(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var tries atomic.Int64
	w.registry.Register("limited", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}), jobs.AtMost(1), jobs.LimitBy(func(jobs.FutureJob) string { tries.Add(1); return "a" }))
	w.enqueue("limited", slot(1), 1)
	release := w.hold(1)
	w.clock.Set(slot(1))
	running := w.startRun(t.Context(), w.runner())
	w.eventually("the check to wait for its row", w.waitsForALock)
	w.eventually("the run to give its permit back", func() bool { return w.takePermit("limited", "a") })
	release()
	before := tries.Load()
	w.eventually("the row to wait for the permit", func() bool { return tries.Load() >= before+2 })
	w.clock.Set(slot(2)) // locked rows are left now
	time.Sleep(2 * time.Second)
	w.leavePermits()
	if result := endOf(t, running); result.err != nil || result.Finished != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// The checks will run again, which their owner must be able to read in the log.
func TestARunThatCannotRecordChecksThatItHasDoneSaysHowMany(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers report such an error otherwise")
	for name, held := range map[string]int{"their rows were locked": 3, "nothing was in their way": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			breakRecords := func() { w.db.MustExec(`alter table prescient.slot_progress rename to gone`) }
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				if held == 0 {
					breakRecords()
				}
				return nil, nil
			}))
			w.enqueue("job", slot(1), max(held, 1))
			var log syncBuffer
			w.clock.Set(slot(1))
			business := w.db.MustBegin()
			defer func() { _ = business.Rollback() }()
			business.MustExec(`select from prescient.future_job limit $1 for update`, held)
			running := w.startRun(context.WithoutCancel(t.Context()), w.runner(func(c *slots.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}))
			if held > 0 {
				w.eventually("the run to wait for the rows", func() bool { return strings.Contains(log.String(), "holder=") })
				breakRecords()
				if err := business.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
			result := endOf(t, running)
			if result.err == nil || !strings.Contains(result.err.Error(), "slot_progress") {
				t.Errorf("%+v", result)
			}
			if want := `msg="checks were done but not recorded, and will be done again" claim=`; !strings.Contains(log.String(), want) ||
				!strings.Contains(log.String(), fmt.Sprintf("rows=%d\n", max(held, 1))) {
				t.Errorf("the log:\n%s", log.String())
			}
		})
	}
}
