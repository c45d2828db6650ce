package pgxjobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// run runs the slot after noon, of jobs whose transactions are of pgx.
func (w *world) run(register func(r *jobs.Registry, through jobs.Option)) slots.Result {
	w.t.Helper()
	registry := jobs.NewRegistry()
	register(registry, jobs.WithPool(pgxjobs.Open(w.pool)))
	result, err := w.runner(registry).Run(w.t.Context(), slot(1))
	if err != nil && !errors.Is(err, slots.ErrAbandoned) {
		w.t.Error(err)
	}
	return result
}

// runner is one of a ledger that begins with the slot after noon.
func (w *world) runner(registry *jobs.Registry, change ...func(*slots.Config)) *slots.Runner {
	w.t.Helper()
	l, err := ledger.New(w.t.Context(), w.db, "", func() time.Time { return now })
	if err == nil {
		err = l.Begin(w.t.Context(), slot(1))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := slots.Config{
		DB: w.db, Registry: registry, Now: func() time.Time { return slot(1) }, Page: 50, Lease: 10 * time.Second, Grace: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	runner, err := slots.NewRunner(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return runner
}

// givenBack fails if a connection of the pool is still in use.
func (w *world) givenBack() {
	w.t.Helper()
	for range 100 {
		if w.pool.Stat().AcquiredConns() == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Errorf("%d connections were not given back", w.pool.Stat().AcquiredConns())
}

// enqueue asks for n checks of a job, on the entities "order 0", "order 1" ...
func (w *world) enqueue(job string, n int) {
	w.t.Helper()
	var list []jobs.Request
	for i := range n {
		row := check(fmt.Sprint(i), slot(1))
		row.JobExec = job
		list = append(list, row)
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

const alerts = "create table alert (number text not null, job text not null)"

// outcomes are how the checks of a job have ended, with the errors of those that go on, by entity.
func (w *world) outcomes(job string) map[string]string {
	w.t.Helper()
	var list []struct{ Key, Text string }
	err := w.db.SelectContext(w.t.Context(), &list, `
		select entity_key as key, outcome || coalesce(': ' || last_error, '') as text from prescient.future_job_history where job_exec = $1
		union all
		select entity_key, 'waits' || coalesce(': ' || last_error, '') from prescient.future_job join prescient.job using (job) where name = $1`, job)
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]string{}
	for _, row := range list {
		found[row.Key] = row.Text
	}
	return found
}

func TestACheckWritesThroughItsTransactionOfPgxOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(alerts + "; alter table alert add constraint late unique (number, job) deferrable initially deferred")
	var broken, deadlock atomic.Bool
	what := map[string]func(ctx context.Context, tx pgx.Tx) (*time.Time, error){
		"0": func(context.Context, pgx.Tx) (*time.Time, error) { return nil, nil },
		"1": func(context.Context, pgx.Tx) (*time.Time, error) { return new(slot(3)), nil },
		"2": func(context.Context, pgx.Tx) (*time.Time, error) { return nil, errors.New("no") },
		"3": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) { return nil, tx.Commit(ctx) },
		"4": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) { return nil, tx.Rollback(ctx) },
		"5": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) {
			_, _ = tx.Exec(ctx, "select 1 / 0")
			return nil, nil
		},
		"6": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) { // the connection breaks, once
			if broken.CompareAndSwap(false, true) {
				_, err := tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
				return nil, err
			}
			return nil, nil
		},
		"7": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) { // it lost to another, once
			if deadlock.CompareAndSwap(false, true) {
				_, err := tx.Exec(ctx, "do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")
				return nil, err
			}
			return nil, nil
		},
		"8": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) {
			_, err := tx.Exec(ctx, "insert into alert values ('8', 'tx')")
			return nil, err
		},
		"10": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) {
			_, err := tx.Query(ctx, "select * from generate_series(1, 100000)") //nolint:sqlclosecheck // on purpose
			return nil, err
		},
		"11": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) {
			_, _ = tx.Query(ctx, "select * from generate_series(1, 100000)") //nolint:sqlclosecheck // on purpose
			return nil, errors.New("early")
		},
		"9": func(ctx context.Context, tx pgx.Tx) (*time.Time, error) { // a savepoint of pgx's
			return nil, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "delete from alert where number = $1 and job = 'gone'", "9")
				return err
			})
		},
	}
	w.enqueue("tx", len(what))
	w.run(func(r *jobs.Registry, through jobs.Option) {
		r.Register("tx", jobs.InTx(pgxjobs.InTx(func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
			if _, err := tx.Exec(ctx, "insert into alert values ($1, $2)", job.EntityKey, job.JobExec); err != nil {
				return nil, err
			}
			return what[job.EntityKey](ctx, tx)
		})), through)
	})
	w.givenBack()
	got := w.outcomes("tx")
	for key, text := range got {
		got[key], _, _ = strings.Cut(text, ": ERROR")
		got[key], _, _ = strings.Cut(got[key], " (SQLSTATE")
	}
	ended := "waits: the check ended its transaction itself: it must return instead"
	want := map[string]string{
		"0": "done", "1": "waits", "2": "waits: no", "3": ended, "4": ended,
		"5": "waits: the check went on after an error of its transaction", "6": "done", "7": "done", "8": "waits: commit", "9": "done",
		"10": "waits: the check has left rows of its transaction open: it must read them to their end, or close them", "11": "waits: early",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var written []string
	if err := w.db.Select(&written, "select number from alert order by number"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0", "1", "3", "6", "7", "9"}, written); diff != "" { // what 3 has committed itself is there
		t.Error(diff)
	}
}

func TestABatchAndAGroupWriteThroughATransactionOfPgx(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(alerts)
	for _, job := range []string{"batch", "group", "lib/pq", "forgotten"} {
		w.enqueue(job, 3)
	}
	write := pgxjobs.InTx(func(ctx context.Context, tx pgx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			if _, err := tx.Exec(ctx, "insert into alert values ($1, $2)", job.EntityKey, job.JobExec); err != nil {
				return nil, err
			}
			if job.EntityKey == "1" {
				results[i].Err = errors.New("no")
			}
		}
		return results, nil
	})
	w.run(func(r *jobs.Registry, through jobs.Option) {
		r.Register("batch", jobs.BatchInTx(write), through)
		r.Register("group", jobs.Group("groups", write), through)
		r.Register("forgotten", jobs.BatchInTx(write))
		r.Register("lib/pq", jobs.BatchInTx(write), jobs.WithPool(w.db))
	})
	for _, job := range []string{"batch", "group"} {
		if diff := cmp.Diff(map[string]string{"0": "done", "1": "waits: no", "2": "done"}, w.outcomes(job)); diff != "" {
			t.Errorf("%s: %s", job, diff)
		}
		if n := w.count("select count(*) from alert where job = $1", job); n != 3 {
			t.Errorf("%s: %d alerts", job, n)
		}
	}
	for _, job := range []string{"forgotten", "lib/pq"} {
		for key, text := range w.outcomes(job) {
			if !strings.Contains(text, "register the job with jobs.WithPool(pgxjobs.Open(pool))") {
				t.Errorf("%s %s: %s", job, key, text)
			}
		}
	}
}

func TestABadRowAmongThoseThatShareATransactionOfPgxCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(alerts + "; alter table alert add constraint late unique (number, job) deferrable initially deferred")
	bad := map[string]func(ctx context.Context, tx pgx.Tx) error{
		"returns an error": func(context.Context, pgx.Tx) error { return errors.New("no") },
		"panics":           func(context.Context, pgx.Tx) error { panic("no") },
		"calls Goexit":     func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil },
		"goes on after an SQL error": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "select 1 / 0")
			return nil
		},
		"leaves rows open": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "select * from generate_series(1, 100000)") //nolint:sqlclosecheck // on purpose
			return err
		},
		"violates a deferred constraint": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into alert select number, job from alert limit 1")
			return err
		},
		"ends the transaction": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
		"kills its connection": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
			return err
		},
		"times out": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select pg_sleep(600)")
			return err
		},
	}
	for job := range bad {
		w.enqueue(job, 10)
	}
	w.run(func(r *jobs.Registry, through jobs.Option) {
		for name, spoil := range bad {
			r.Register(name, jobs.Each(pgxjobs.InTx(func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
				if _, err := tx.Exec(ctx, "insert into alert values ($1, $2)", job.EntityKey, job.JobExec); err != nil {
					return nil, err
				}
				if job.EntityKey == "3" {
					return nil, spoil(ctx, tx)
				}
				return nil, nil
			})), through, jobs.Timeout(time.Second))
		}
	})
	w.givenBack()
	for job := range bad {
		outcomes := w.outcomes(job)
		if !strings.HasPrefix(outcomes["3"], "waits: ") {
			t.Errorf("%s: the bad row %s, want it to wait with an error", job, outcomes["3"])
		}
		delete(outcomes, "3")
		for key, outcome := range outcomes {
			if outcome != "done" {
				t.Errorf("%s: row %s: %s", job, key, outcome)
			}
		}
		if n := w.count("select count(*) from alert where job = $1", job); n != 9 || len(outcomes) != 9 {
			t.Errorf("%s: %d alerts, %d good rows, want 9", job, n, len(outcomes))
		}
	}
}

func TestAGroupIsReadHoweverItsRoleWritesTimes(t *testing.T) {
	pgtest.NotOnCitus(t, "a setting of a database or a role is of one node")
	t.Parallel()
	w := setup(t)
	w.enqueue("group", 2)
	w.exec("update prescient.future_job set first_check_at = first_check_at - interval '1 hour'")
	w.exec("do $$ begin execute format('alter database %I set datestyle to German', current_database()); end $$")
	w.pool.Reset()
	w.run(func(r *jobs.Registry, through jobs.Option) {
		r.Register("group", jobs.Group("groups", pgxjobs.InTx(func(_ context.Context, _ pgx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			for _, job := range batch {
				if !job.FirstCheckAt.Equal(slot(-3)) {
					t.Errorf("%s was asked for at %s", job.EntityKey, job.FirstCheckAt)
				}
			}
			return make([]jobs.Result, len(batch)), nil
		})), through)
	})
	if diff := cmp.Diff(map[string]string{"0": "done", "1": "done"}, w.outcomes("group")); diff != "" {
		t.Error(diff)
	}
}

func TestACheckWithATransactionOfPgxIsStoppedAtItsTimeoutOrAbandoned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("slow", 2)
	release := make(chan struct{})
	defer close(release)
	result := w.run(func(r *jobs.Registry, through jobs.Option) {
		r.Register("slow", jobs.InTx(pgxjobs.InTx(func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
			if job.EntityKey == "0" {
				_, err := tx.Exec(ctx, "select pg_sleep(60)")
				return nil, err
			}
			<-release // it does not listen to its context
			_, err := tx.Exec(context.WithoutCancel(ctx), "select 1")
			return nil, err
		})), through, jobs.Timeout(200*time.Millisecond))
	})
	if result.Abandoned != 1 {
		t.Errorf("%+v", result)
	}
	for key, text := range w.outcomes("slow") {
		if !strings.HasPrefix(text, "waits: ") {
			t.Errorf("%s: %s", key, text)
		}
	}
}

func TestAJobWithoutAFunctionOrAPoolIsNotRegistered(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(r *jobs.Registry){
		"no function": func(r *jobs.Registry) {
			r.Register("tx", jobs.InTx(pgxjobs.InTx[jobs.FutureJob, *time.Time](nil)))
		},
		"no pool": func(r *jobs.Registry) {
			r.Register("tx", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.WithPool(nil))
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error(name)
				}
			}()
			register(jobs.NewRegistry())
		}()
	}
}

// A check that looked for its row in the wrong place must not take it for one that is gone.
func TestAPoolOfAnotherDatabaseIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(r *jobs.Registry, through jobs.Option){
		"a row": func(r *jobs.Registry, through jobs.Option) {
			r.Register("remind", jobs.InTx(pgxjobs.InTx(func(context.Context, pgx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil })), through)
		},
		"a batch": func(r *jobs.Registry, through jobs.Option) {
			r.Register("remind", jobs.BatchInTx(pgxjobs.InTx(func(_ context.Context, _ pgx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return make([]jobs.Result, len(batch)), nil
			})), through)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, other := setup(t), connect(t, pgtest.URL(t))
			w.enqueue("remind", 3)
			registry := jobs.NewRegistry()
			register(registry, jobs.WithPool(pgxjobs.Open(other.pool)))
			result, err := w.runner(registry).Run(t.Context(), slot(1))
			if err == nil || !strings.Contains(err.Error(), "a pool of another database than the runner's") || result.State != slots.StateOpen {
				t.Errorf("%+v: %v", result, err)
			}
		})
	}
}

func TestWhatIsNotPreparedAnyMoreIsToldInEveryLanguage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery", Message: "gecachter Plan darf den Ergebnistyp nicht ändern"}, true},
		{&pq.Error{Code: "0A000", Routine: "RevalidateCachedQuery", Message: "gecachter Plan darf den Ergebnistyp nicht ändern"}, true},
		{&pgconn.PgError{Code: "0A000", Routine: "transformDeclareCursorStmt", Message: "it says cached plan"}, false},
		{&pgconn.PgError{Code: "26000"}, true},
		{nil, false},
	} {
		if test.err != nil {
			test.err = fmt.Errorf("check: %w", test.err)
		}
		if got := pg.IsStale(test.err); got != test.want {
			t.Errorf("%#v: %t", test.err, got)
		}
	}
}

// pgx keeps statements prepared, too, and prepares anew what has other columns now when its
// transaction is over.
func TestAColumnThatIsAddedIsNoErrorOfWhatPgxHasPrepared(t *testing.T) {
	t.Parallel()
	w := connect(t, pgtest.Direct(t))
	var err error
	if w.client, err = jobs.NewClient(t.Context(), pgxjobs.Open(w.pool), jobs.Config{Now: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(`create table orders (key text)`)
	var calls atomic.Int64
	result := w.run(func(r *jobs.Registry, through jobs.Option) {
		r.Register("job", jobs.InTx(pgxjobs.InTx(func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
			if calls.Add(1) == 15 {
				w.db.MustExec(`alter table orders add column shipped timestamptz`)
			}
			_, err := tx.Exec(ctx, `select * from orders where key = $1`, job.EntityKey)
			return nil, err
		})), through)
		for i := range 30 {
			job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(i)}
			job.CheckAt = slot(1)
			if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), job); err != nil {
				t.Fatal(err)
			}
		}
	})
	if result.Finished != 30 || result.Failed != 0 {
		t.Errorf("%+v", result)
	}
}

func TestAFailedCheckLeavesNothingInASessionOfTheRunnersPool(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(w *world) (*sqlx.DB, error){
		"pgx":    func(w *world) (*sqlx.DB, error) { return pgxjobs.Open(w.pool), nil },
		"lib/pq": func(w *world) (*sqlx.DB, error) { return sqlx.Open("postgres", w.url) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			db, err := open(w)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			registry := jobs.NewRegistry()
			registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.ExecContext(ctx, `select pg_advisory_lock(7)`)
				return nil, errors.Join(err, errors.New("no"))
			}))
			w.enqueue("job", 10)
			if result, err := w.runner(registry, func(c *slots.Config) { c.DB = db }).Run(t.Context(), slot(1)); err != nil || result.Failed != 10 {
				t.Errorf("%+v, %v", result, err)
			}
			var locks int
			const query = `select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
			if err := w.db.Get(&locks, query); err != nil || locks != 0 {
				t.Errorf("%d locks are left, %v", locks, err)
			}
		})
	}
}
