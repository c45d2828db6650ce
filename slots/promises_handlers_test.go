package slots_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
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

// txShapes are the ways to register a check of one row that writes through a transaction.
var txShapes = map[string]func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option){
	"a row": func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.InTx(check), opts...)
	},
	"a batch": func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.BatchInTx(oneByOne(check)), opts...)
	},
	"a group": func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option) {
		r.Register(name, jobs.Group("family of "+name, oneByOne(check)), opts...)
	},
}

// triedShapes are those of txShapes that a promise is tried with. make test tries a batch, which is divided when it fails.
func triedShapes() map[string]func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option) {
	if testing.Short() {
		return map[string]func(r *jobs.Registry, name string, check jobs.TxCheckFunc, opts ...jobs.Option){"a batch": txShapes["a batch"]}
	}
	return txShapes
}

func oneByOne(check jobs.TxCheckFunc) jobs.TxBatchFunc {
	return func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) (results []jobs.Result, err error) {
		for _, job := range batch {
			next, err := check(ctx, tx, job)
			if err != nil {
				return nil, err
			}
			results = append(results, jobs.Result{Next: next})
		}
		return results, nil
	}
}

// leaveEffect is a check that leaves an effect behind.
func leaveEffect(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	_, err := tx.ExecContext(ctx, `insert into effect values ($1)`, job.EntityKey)
	return nil, err
}

// executing is a check that executes, for the n-th row, the n-th statement, and returns as if nothing had been.
func executing(statements ...string) jobs.TxCheckFunc {
	return func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		var n int
		if _, err := fmt.Sscan(job.EntityKey, &n); err != nil {
			return nil, err
		}
		_, _ = tx.ExecContext(ctx, statements[n])
		return nil, nil
	}
}

func TestACheckThatEndsItsTransactionByAStatementIsAnError(t *testing.T) {
	t.Parallel()
	statements := []string{
		`rollback`, `abort`, `commit`, `end`,
		`rollback; begin`, `commit; begin`, `rollback and chain`, `commit and chain`,
	}
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`create table effect (key text)`)
			register(w.registry, "statement", executing(statements...))
			register(w.registry, "other", leaveEffect)
			const others = 20
			w.enqueue("statement", slot(1), len(statements))
			w.enqueue("other", slot(1), others)
			result := w.run(slot(1), func(c *slots.Config) { c.Page = 1 })
			if result.Finished != others || result.Failed != int64(len(statements)) || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: others}, w.outcomes()); diff != "" {
				t.Error(diff)
			}
			for _, job := range w.waiting() {
				if !job.NextCheckAt.Equal(slot(2)) || job.ErrorCount != 1 || job.LastError == "" {
					t.Errorf("the row of %s: %+v", statements[job.EntityKey[0]-'0'], job)
				}
			}
			if n := w.count(`select count(*) from effect`); n != others {
				t.Errorf("%d effects of other checks, want %d", n, others)
			}
		})
	}
}

func TestWhatACheckSetsInItsSessionIsLeftToNobody(t *testing.T) {
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setup(t).leavesToNobody(register,
				`set statement_timeout = 1`, `set search_path = nowhere`, `set role pg_monitor`, `set lock_timeout = 1`,
				`set default_transaction_read_only = on`, `set session characteristics as transaction isolation level serializable`,
				`set idle_in_transaction_session_timeout = 1`, `select set_config('search_path', 'nowhere', false)`,
				`create temporary table effect (key text)`, `create temporary table effect (key text); declare open cursor for select from effect`,
				`select pg_try_advisory_lock(7)`, `listen effect`)
		})
	}
}

// A pooler has given its session to another client by then.
func TestWhatACheckSetsInItsSessionAfterItHasEndedItsTransactionIsLeftToNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("a check that does not end its transaction remains")
	}
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			setupAt(t, pgtest.Direct(t)).leavesToNobody(register,
				`commit; set role pg_monitor`, `rollback; set default_transaction_read_only = on`,
				`rollback; listen effect; select pg_try_advisory_lock(7)`)
		})
	}
}

// leavesToNobody runs checks that execute statements, and then return or fail, among others.
func (w *world) leavesToNobody(register func(*jobs.Registry, string, jobs.TxCheckFunc, ...jobs.Option), statements ...string) {
	w.t.Helper()
	w.db.MustExec(`create table effect (key text)`)
	executes := executing(statements...)
	register(w.registry, "statement", executes)
	register(w.registry, "failing", func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, _ = executes(ctx, tx, job)
		return nil, errors.New("and fails")
	})
	register(w.registry, "other", leaveEffect)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return new(slot(2)), nil }))
	const connections, rows = 12, 100
	db := open(w.t, w.url)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	want := w.settings(db, connections)
	w.enqueue("statement", slot(1), len(statements))
	w.enqueue("failing", slot(1), len(statements))
	w.enqueue("other", slot(1), rows)
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.DB = db; c.Page = 1 }).Run(w.t.Context(), slot(1))
	if err != nil || result.State != slots.StateDone {
		w.t.Errorf("%+v, %v", result, err)
	}
	if n := w.count(`select count(*) from effect`); n != rows {
		w.t.Errorf("%d effects of other checks, want %d", n, rows)
	}
	moved := slices.DeleteFunc(w.waiting(), func(job jobs.FutureJob) bool { return job.JobExec != "job" || job.CheckCount != 1 })
	if len(moved) != rows {
		w.t.Errorf("%d rows of another job were moved, want %d", len(moved), rows)
	}
	if diff := cmp.Diff(want, w.settings(db, connections)); diff != "" {
		w.t.Error(diff)
	}
}

// settings returns what the sessions of a pool have set, each only once.
func (w *world) settings(db *sqlx.DB, connections int) []string {
	w.t.Helper()
	list := make([]string, connections)
	for i := range list {
		conn, err := db.Conn(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		defer func(conn *sql.Conn) { _ = conn.Close() }(conn) // not before all are taken
		err = conn.QueryRowContext(w.t.Context(), `
			select string_agg(name || ' = ' || setting, ', ' order by name) || ', as ' || current_user ||
				', advisory locks: ' || (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') ||
				', listens: ' || (select count(*) from pg_listening_channels())
			from pg_settings
			where name in ('statement_timeout', 'lock_timeout', 'search_path', 'default_transaction_read_only',
				'default_transaction_isolation', 'idle_in_transaction_session_timeout')`).Scan(&list[i])
		if err != nil {
			list[i] = err.Error()
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// The driver finishes the copy when the transaction has ended, and before that takes no rollback.
func TestACheckThatLeavesACopyUnfinishedLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`create table effect (key text)`)
			copies := func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				s, err := tx.PrepareContext(ctx, `copy effect from stdin`) //nolint:sqlclosecheck // left unfinished, on purpose
				if err == nil {
					_, err = s.ExecContext(ctx, "copied")
				}
				return nil, err
			}
			register(w.registry, "copying", copies)
			register(w.registry, "failing", func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_, err := copies(ctx, tx, job)
				return nil, errors.Join(err, errors.New("and fails"))
			})
			register(w.registry, "other", leaveEffect)
			const others = 50
			w.enqueue("copying", slot(1), 1)
			w.enqueue("failing", slot(1), 1)
			w.enqueue("other", slot(1), others)
			result := w.run(slot(1), func(c *slots.Config) { c.Page, c.Connections = 1, 1 })
			if result.Finished != others || result.Failed != 2 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if n := w.count(`select count(*) from effect where key = 'copied'`); n != 0 {
				t.Errorf("%d effects of checks that failed", n)
			}
			if n := w.count(`select count(*) from effect where key <> 'copied'`); n != others {
				t.Errorf("%d effects of other checks, want %d", n, others)
			}
		})
	}
}

// It may be what the check does that breaks its connection, each time: then the others are done, and the row has an error.
func TestACheckThatBreaksItsConnectionIsAnError(t *testing.T) {
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`create table effect (key text)`)
			const breaking = `copy effect from stdin` // the driver does it by other means
			register(w.registry, "statement", executing(breaking))
			register(w.registry, "failing", func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.ExecContext(ctx, breaking)
				return nil, err
			})
			register(w.registry, "other", leaveEffect)
			const others = 20
			w.enqueue("statement", slot(1), 1)
			w.enqueue("failing", slot(1), 1)
			w.enqueue("other", slot(1), others)
			result := w.run(slot(1), func(c *slots.Config) { c.Lease = 2 * time.Second })
			if result.Finished != others || result.Failed != 2 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if n := w.count(`select count(*) from effect`); n != others {
				t.Errorf("%d effects of other checks, want %d", n, others)
			}
		})
	}
}

// The server ends a session in whose transaction nothing happens for a while. If the message of the record is on its way
// by then, the run sees a network error and not the server's last words.
func TestACheckWhoseConnectionIsResetAtEachRecordIsAnError(t *testing.T) {
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
			register(w.registry, "job", func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
				faults.Set(pgtest.Fault{At: 1, Kind: pgtest.Cut, Reset: true, Of: func(text string) bool {
					return strings.Contains(text, "record_row")
				}})
				return nil, nil
			})
			w.enqueue("job", slot(1), 1)
			result := w.run(slot(1), func(c *slots.Config) { c.DB, c.Lease = faults.DB, 2*time.Second })
			if result.Failed != 1 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
		})
	}
}

// What a check waits for before it is called is no time of its own: a row that somebody has locked, a connection, or an answer that
// is late.
func TestACheckHasItsTimeWhateverItHasWaitedForBefore(t *testing.T) {
	t.Parallel()
	const timeout, takes = time.Second, 600 * time.Millisecond
	takesLong := func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `select pg_sleep($1)`, takes.Seconds())
		return nil, err
	}
	atOnce := func(c *slots.Config) { c.Grace = -1 }
	t.Run("a lock", func(t *testing.T) {
		pgtest.NotOnCitus(t, "who waits does so on a worker")
		t.Parallel()
		w := setup(t)
		w.registry.Register("job", jobs.InTx(takesLong), jobs.Timeout(timeout))
		w.enqueue("job", slot(1), 1)
		holder := w.db.MustBegin()
		defer func() { _ = holder.Rollback() }()
		holder.MustExec(`select from prescient.future_job for update`)
		w.clock.Set(slot(1))
		running := w.background(slot(1), atOnce)
		w.eventually("the run to have waited for most of the timeout", func() bool {
			return w.count(`
				select count(*) from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '700 ms'`) > 0
		})
		if err := holder.Commit(); err != nil {
			t.Fatal(err)
		}
		if result := <-running; result.Finished != 1 || result.Failed != 0 {
			t.Errorf("%+v", result)
		}
	})
	for name, register := range triedShapes() {
		t.Run("a connection, "+name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			own := open(t, w.url)
			own.SetMaxOpenConns(1)
			for _, job := range []string{"job", "another", "third"} {
				register(w.registry, job, takesLong, jobs.Timeout(timeout), jobs.WithPool(own))
				w.enqueue(job, slot(1), 1)
			}
			if result := w.run(slot(1), atOnce); result.Finished != 3 || result.Failed != 0 {
				t.Errorf("%+v", result)
			}
		})
		t.Run("an answer, "+name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry, "job", takesLong, jobs.Timeout(timeout))
			w.enqueue("job", slot(1), 1)
			faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
			faults.Set(pgtest.Fault{At: 1, Kind: pgtest.LateReply, Pause: 2 * timeout, Of: func(text string) bool {
				return strings.HasPrefix(text, "begin read write")
			}})
			if result := w.run(slot(1), atOnce, func(c *slots.Config) { c.DB = faults.DB }); result.Finished != 1 || result.Failed != 0 {
				t.Errorf("%+v", result)
			}
			if k, _ := faults.Hit(); k == 0 {
				t.Error("no check began")
			}
		})
	}
}

func TestATimeoutMayBeAsLongAsAnyDuration(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{
		"longer than the server can count": 30 * 24 * time.Hour,
		"the longest":                      math.MaxInt64,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			const while = 300 * time.Millisecond // in which it is looked whether a check is overdue
			w.registry.Register("without a transaction", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				time.Sleep(while)
				return nil, nil
			}), jobs.Timeout(timeout))
			for shape, register := range triedShapes() {
				register(w.registry, shape, func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
					time.Sleep(while)
					return nil, nil
				}, jobs.Timeout(timeout))
			}
			for def := range w.registry.All() {
				w.enqueue(def.Name, slot(1), 1)
			}
			if result := w.run(slot(1)); result.Finished != int64(1+len(triedShapes())) || result.Abandoned > 0 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
		})
	}
}

// Else its run would never end.
func TestACheckThatCannotBeSerializedForALeaseIsAnError(t *testing.T) {
	t.Parallel()
	for when, timing := range map[string]string{"at a statement": "immediate", "at its commit": "deferred"} {
		for shape, register := range triedShapes() {
			t.Run(shape+" "+when, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.db.MustExec(`
					create table effect (key text);
					create function conflict() returns trigger language plpgsql as 'begin raise serialization_failure; end';
					create constraint trigger conflict after insert on effect deferrable initially ` + timing + ` for each row execute function conflict()`)
				register(w.registry, "job", leaveEffect)
				w.enqueue("job", slot(1), 1)
				w.clock.Set(slot(1))
				ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
				defer cancel()
				result, err := w.runner(func(c *slots.Config) { c.Lease = time.Second }).Run(ctx, slot(1))
				if err != nil || result.Failed != 1 || result.State != slots.StateDone {
					t.Errorf("%+v, %v", result, err)
				}
			})
		}
	}
}

// The driver closes a connection on which a context ends.
func TestAStatementThatACheckGivesUpItselfIsItsError(t *testing.T) {
	t.Parallel()
	for name, register := range triedShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var calls atomic.Int64
			register(w.registry, "job", func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				calls.Add(1)
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				_, err := tx.ExecContext(ctx, `select pg_sleep(10)`)
				return nil, err
			})
			w.enqueue("job", slot(1), 1)
			if result := w.run(slot(1), func(c *slots.Config) { c.Lease = time.Second }); result.Failed != 1 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if n := calls.Load(); n > 2 { // the server may say that another user has cancelled it
				t.Errorf("%d calls", n)
			}
		})
	}
}

// What goes to the server together with its outcome is not in the encoding of the check.
func TestACheckThatSetsTheEncodingOfItsSessionSpoilsNoText(t *testing.T) {
	t.Parallel()
	w := setup(t)
	more := jobs.Request{JobExec: "more", EntityName: "order", EntityKey: "Zoë"}
	more.CheckAt = slot(5)
	w.registry.Register("batch", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		_, err := tx.ExecContext(ctx, "set client_encoding to latin1")
		results := make([]jobs.Result, len(rows))
		results[0] = jobs.Result{Next: new(slot(2)), Payload: json.RawMessage(`"€"`), Enqueue: []jobs.Request{more}}
		results[1].Err = errors.New("ä")
		return results, err
	}))
	w.registry.Register("one", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, "set client_encoding to latin1; do $$ begin raise exception '%', chr(228); end $$")
		return nil, err
	}))
	w.enqueue("batch", slot(1), 20)
	w.enqueue("one", slot(1), 1)
	w.run(slot(1), alone)
	var got []string
	for _, j := range w.waiting() {
		got = append(got, fmt.Sprint(j.Key(), " ", string(j.Payload), j.LastError))
	}
	slices.Sort(got)
	want := []string{`batch on order 0 "€"`, "batch on order 1 ä", "more on order Zoë ", "one on order 0 pq: \uFFFD (P0001)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatACheckEnqueuesMayHaveTheLargestPayloadOfTheDatabase(t *testing.T) {
	t.Parallel()
	w := setup(t)
	sizes := map[string]int{"0": 100 << 10, "1": 1 << 20, "2": 1<<20 + 1}
	w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (jobs.Result, error) {
		return jobs.Result{Enqueue: []jobs.Request{{
			JobExec: "more", EntityName: "order", EntityKey: job.EntityKey, CheckAt: slot(5),
			Payload: json.RawMessage(`"` + strings.Repeat("x", sizes[job.EntityKey]-2) + `"`),
		}}}, nil
	}))
	w.enqueue("job", slot(1), len(sizes))
	w.run(slot(1), alone)
	got := map[string]string{}
	for _, j := range w.waiting() {
		got[j.JobExec+" "+j.EntityKey] = fmt.Sprint(len(j.Payload), " ", j.LastError)
	}
	want := map[string]string{
		"more 0": "102400 ", "more 1": "1048576 ",
		"job 2": "0 check 1 that it enqueues: payload: must be at most 1048576 bytes, is 1048577",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
