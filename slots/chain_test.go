package slots_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/internal/claim"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// alone lets one check run at a time, so that each begins with the commit of the one before.
func alone(c *slots.Config) { c.Connections, c.Page = 1, 1000 }

// runUntilHit runs slots of five checks, all of which end, until the fault has happened at a commit that begins a check.
// A chain ends after 200 ms, and a busy machine may take longer for one check. It returns the number of checks.
func (w *world) runUntilHit(faults *pgtest.Faults, options ...func(*slots.Config)) (checks int) {
	w.t.Helper()
	for n := 1; n <= 100; n++ {
		w.enqueue("job", slot(n), 5)
		result := w.run(slot(n), append(options, alone, func(c *slots.Config) { c.DB = faults.DB })...)
		if result.Finished != 5 || result.Failed != 0 || result.Abandoned != 0 || result.State != slots.StateDone {
			w.t.Errorf("%+v", result)
		}
		if k, _ := faults.Hit(); k > 0 {
			return 5 * n
		}
	}
	w.t.Fatal("no check began with the commit of another")
	return 0
}

// What the commit of one check does is no matter of the next, which has begun with it.
func TestACommitThatFailsOrTakesLongIsNotOfTheNextCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`
		create table effect (key text, unique (key) deferrable initially deferred);
		create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(6); return null; end $$;
		create constraint trigger dawdle after insert on effect deferrable initially deferred
		for each row when (new.key = 'slow') execute function dawdle()`)
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		keys := map[string][]string{"3": {"twice", "twice"}, "6": {"slow"}}[job.EntityKey]
		for _, key := range keys {
			if _, err := tx.ExecContext(ctx, `insert into effect values ($1)`, key); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}), jobs.Timeout(4*time.Second))
	w.enqueue("job", slot(1), 10)
	result := w.run(slot(1), alone, func(c *slots.Config) { c.Grace = 100 * time.Millisecond })
	if result.Finished != 9 || result.Failed != 1 || result.Abandoned != 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if left := w.waiting(); len(left) != 1 || left[0].EntityKey != "3" || left[0].ErrorCount != 1 {
		t.Errorf("%+v", left)
	}
}

// A row whose owner has it, or has taken it away, is met by the check that begins with the commit of another as by any.
func TestARowThatIsLockedOrGoneWhenTheCheckBeforeItCommits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	busy := w.db.MustBegin()
	defer func() { _ = busy.Rollback() }()
	var mu sync.Mutex
	var checked []string
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		checked = append(checked, job.EntityKey)
		switch job.EntityKey {
		case "0":
			busy.MustExec(`select from prescient.future_job where entity_key = '1' for update`)
			if _, err := w.client.Cancel(ctx, jobs.OwnTx(w.db), jobs.Key{JobExec: "job", EntityName: "order", EntityKey: "2"}); err != nil {
				t.Error(err)
			}
		case "9":
			return nil, busy.Commit()
		}
		return nil, nil
	}))
	w.enqueue("job", slot(1), 10)
	if result := w.run(slot(1), alone); result.Finished != 9 || result.Failed != 0 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	slices.Sort(checked)
	if want := []string{"0", "1", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(checked, want) {
		t.Errorf("there were checks of %s, want %s", checked, want)
	}
}

// Of a message whose reply was cut off nothing counts that it says of the next check: its transaction is gone with the connection.
func TestAReplyThatIsCutOffBeginsNoCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table effect (key text)`)
	w.registry.Register("job", jobs.InTx(leaveEffect))
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{At: 1, Kind: pgtest.TornReply, Of: func(text string) bool {
		return strings.Contains(text, "record_row") && strings.Contains(text, "begin_check")
	}})
	want := w.runUntilHit(faults)
	if n := w.count(`select count(*) from effect`); n != want {
		t.Errorf("%d effects, want %d", n, want)
	}
}

// A permit that is passed on from check to check goes to other checks after a while.
func TestChecksThatFollowEachOtherLetOthersIn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const many, few = 400, 5
	var mu sync.Mutex
	var order []string
	check := func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		order = append(order, job.JobExec)
		return nil, nil
	}
	w.registry.Register("many", jobs.InTx(check))
	w.registry.Register("few", jobs.InTx(check), jobs.AtMost(1)) // in a claim of its own
	w.enqueue("many", slot(1), many)
	w.enqueue("few", slot(1), few)
	if result := w.run(slot(1), alone); result.Finished != many+few {
		t.Errorf("%+v", result)
	}
	slices.Reverse(order)
	if after := slices.Index(order, "few"); after < many/4 {
		t.Errorf("the last of them had its turn when %d of %d others were left", after, many)
	}
}

// askPrepared asks by a statement that has a parameter, which a pool with Prepared keeps.
func askPrepared(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) error {
	_, err := tx.ExecContext(ctx, `select $1::text`, job.EntityKey)
	return err
}

// A check may deallocate what its connection keeps prepared: it is repeated, and its pool keeps nothing prepared any more.
func TestACheckThatDeallocatesWhatItsConnectionKeepsPrepared(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	prepared := open(t, w.url, pgsql.Prepared())
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if err := askPrepared(ctx, tx, job); err != nil {
			return nil, err
		}
		switch job.EntityKey {
		case "3": // which the next check finds out, when this one is committed
			_, err := tx.ExecContext(ctx, `deallocate all`)
			return nil, err
		case "6":
			_, _ = tx.ExecContext(ctx, `deallocate all; select 1 / 0`) // a rollback does not undo it
			return new(slot(3)), context.Canceled
		}
		return nil, nil
	}))
	w.enqueue("job", slot(1), 20)
	result := w.run(slot(1), alone, func(c *slots.Config) { c.DB = prepared })
	if result.Finished != 19 || result.Failed != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	for _, job := range w.waiting() {
		if job.ErrorCount != 1 || job.EntityKey != "6" {
			t.Errorf("%+v", job)
		}
	}
	w.enqueue("job", slot(2), 20)
	w.run(slot(2), alone, func(c *slots.Config) { c.DB = prepared })
	if conn, err := prepared.Connx(t.Context()); err != nil {
		t.Error(err)
	} else if n := 0; conn.GetContext(t.Context(), &n, `select count(*) from pg_prepared_statements`) != nil || n > 0 {
		t.Errorf("%d statements are prepared", n)
	}
}

// A table that a check reads may get a column while a daemon runs: what it reads by a statement that is prepared has other
// columns then, which the server refuses.
func TestAColumnThatIsAddedIsNoErrorOfAPreparedStatement(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	w.db.MustExec(`create table orders (key text); insert into orders select n::text from generate_series(0, 39) n`)
	prepared := open(t, w.url, pgsql.Prepared())
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		row := map[string]any{}
		return nil, tx.QueryRowxContext(ctx, `select * from orders where key = $1`, job.EntityKey).MapScan(row)
	}))
	for n := range 2 {
		w.enqueue("job", slot(1+n), 40)
		if result := w.run(slot(1+n), func(c *slots.Config) { c.DB = prepared }); result.Finished != 40 || result.Failed != 0 {
			t.Errorf("%+v", result)
		}
		w.db.MustExec(`alter table orders add column if not exists shipped timestamptz`)
	}
}

func TestAStopWhileACommitTakesLongLetsNoCheckBegin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// It waits for no lock, because a run gives such a wait up after 100 ms.
	w.db.MustExec(`
		create table effect ();
		create table gate ();
		insert into gate default values;
		create function dawdle() returns trigger language plpgsql as $$
		begin
			while exists (select from gate) loop
				perform pg_sleep(0.01);
			end loop;
			return null;
		end $$;
		create constraint trigger dawdle after insert on effect deferrable initially deferred for each row execute function dawdle()`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls atomic.Int64
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		calls.Add(1)
		_, err := tx.ExecContext(ctx, `insert into effect default values`)
		return nil, err
	}))
	w.enqueue("job", slot(1), 10)
	w.clock.Set(slot(1))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		await.True(t, "the commit", func() bool {
			return w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`) > 0
		})
		stop()
		w.db.MustExec(`delete from gate`)
	}()
	result, err := w.runner(alone).Run(ctx, slot(1))
	<-stopped
	if calls.Load() != 1 || result.Finished != 1 || !errors.Is(err, slots.ErrStopped) {
		t.Errorf("%d calls; %+v, %v", calls.Load(), result, err)
	}
	if again := w.run(slot(1)); again.Finished != 9 || again.State != slots.StateDone {
		t.Errorf("the next run: %+v", again)
	}
}

// What one check has deallocated, and then failed, the next one on its connection misses.
func TestACheckThatMissesWhatAnotherHasDeallocated(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	prepared := open(t, w.url, pgsql.Prepared())
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if err := askPrepared(ctx, tx, job); err != nil || job.EntityKey != "3" {
			return nil, err
		}
		_, _ = tx.ExecContext(ctx, `deallocate all`)
		return nil, errors.New("its own")
	}), jobs.Retry(0))
	w.enqueue("job", slot(1), 10)
	if result := w.run(slot(1), alone, func(c *slots.Config) { c.DB = prepared }); result.Finished != 9 || result.Failed != 1 {
		t.Errorf("%+v", result)
	}
}

// Whether a check was recorded may take long to find out, in an outage: that is not time of the one that was to begin with its commit.
func TestAnOutageAtACommitIsNoTimeoutOfTheNextCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }),
		jobs.Timeout(4*time.Second))
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{At: 1, Kind: pgtest.Outage, Pause: 6 * time.Second, Of: func(text string) bool {
		return strings.Contains(text, "record_row") && strings.Contains(text, "begin_check")
	}})
	w.runUntilHit(faults, func(c *slots.Config) { c.Grace = 100 * time.Millisecond })
}

// A short outage cuts the connection of a check that takes longer than a lease, which finds out when it is over. It is no sign that the
// database still cannot do it, whatever error came meanwhile.
func TestAnOutageIsNotCountedAgainByAConnectionThatItHasCut(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		time.Sleep(claim.MinLease * 3 / 2)
		return nil, nil
	}))
	w.enqueue("job", slot(1), 2)
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{At: 2, Kind: pgtest.Outage, Pause: claim.MinLease / 3, Reset: true, Of: func(text string) bool {
		return strings.Contains(text, "begin_check")
	}})
	result := w.run(slot(1), func(c *slots.Config) { c.DB, c.Lease = faults.DB, claim.MinLease })
	if result.Finished != 2 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// The session that resolves a commit has already given back the broken connection.
func TestACheckThatLosesAReplyNeedsNoSecondConnection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create table effect (key text)`)
	w.registry.Register("job", jobs.InTx(leaveEffect))
	w.enqueue("job", slot(1), 5)
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.DB.SetMaxOpenConns(1)
	faults.Set(pgtest.Fault{At: 1, Kind: pgtest.LostReply, Of: func(text string) bool { return strings.Contains(text, "record_row") }})
	w.clock.Set(slot(1))
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	result, err := w.runner(alone, func(c *slots.Config) { c.DB, c.Lease = faults.DB, 2*time.Second }).Run(ctx, slot(1))
	if err != nil || result.Finished != 5 || result.State != slots.StateDone {
		t.Errorf("%+v, %v", result, err)
	}
	if n := w.count(`select count(*) from effect`); n != 5 {
		t.Errorf("%d effects, want 5", n)
	}
}

// The error is the whole run's, and the runner's own pool is all right.
func TestAPoolThatDoesNotWorkIsToldByItsJob(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t)) // the pooler of the tests lets every user in
	nobody, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	nobody.User = url.User("nobody_at_all")
	own, err := sqlx.Open("postgres", nobody.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.WithPool(own))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	_, err = w.runner().Run(t.Context(), slot(1))
	if want := "the pool that job job is registered with, by jobs.WithPool: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A message to the pool of a job asks for its role before it calls anything.
func TestACheckThatMissesWhatAnotherHasDeallocatedInThePoolOfItsJob(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if job.EntityKey != "3" {
			return nil, nil
		}
		_, _ = tx.ExecContext(ctx, `deallocate all`)
		return nil, errors.New("its own")
	}), jobs.Retry(0), jobs.WithPool(open(t, w.url, pgsql.Prepared())))
	w.enqueue("job", slot(1), 10)
	w.clock.Set(slot(1))
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if result, err := w.runner(alone).Run(ctx, slot(1)); err != nil || result.Finished != 9 || result.Failed != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}
