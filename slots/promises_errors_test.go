package slots_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// role makes a role for runners alone, and returns its name and the database's URL for it.
func (w *world) role() (name, to string) {
	w.t.Helper()
	var owner string
	if err := w.db.QueryRow(`select current_database() || '_runner', current_user`).Scan(&name, &owner); err != nil {
		w.t.Fatal(err)
	}
	w.db.MustExec(fmt.Sprintf(`create role %q login in role %q`, name, owner))
	w.t.Cleanup(func() { w.db.MustExec(fmt.Sprintf(`drop owned by %q; drop role %q`, name, name)) })
	u, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	u.User = url.User(name)
	return name, u.String()
}

// registerErrorless registers jobs whose checks never fail: with and without a transaction, of one row and of many. An
// error that is counted is not theirs.
func (w *world) registerErrorless() []string {
	w.t.Helper()
	w.db.MustExec(`create table public.effect (key text)`)
	leave := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) {
		_, _ = tx.ExecContext(ctx, `insert into public.effect values ($1)`, job.JobExec+" "+job.EntityKey)
	}
	w.registry.Register("one", jobs.Row(done), jobs.Retry(0))
	w.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		leave(ctx, tx, job)
		return nil, nil
	}), jobs.Retry(0))
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}), jobs.Retry(0))
	w.registry.Register("batch.tx", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			leave(ctx, tx, job)
		}
		return make([]jobs.Result, len(batch)), nil
	}), jobs.Retry(0))
	return []string{"one", "tx", "batch", "batch.tx"}
}

// isDoneOnce sees whether each of so many rows of each job is done, without an error, and left its effect once.
func (w *world) isDoneOnce(names []string, rows int) {
	w.t.Helper()
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: len(names) * rows}, w.outcomes()); diff != "" {
		w.t.Error(diff)
	}
	if n := w.count(`select count(*) from prescient.future_job_history where error_count > 0 or last_error is not null or check_count <> 1`); n > 0 {
		w.t.Errorf("%d rows had an error, or more than a check", n)
	}
	if n, keys := w.count(`select count(*) from public.effect`), w.count(`select count(distinct key) from public.effect`); n != 2*rows || keys != 2*rows {
		w.t.Errorf("%d effects on %d keys of checks with a transaction, want each of %d once", n, keys, 2*rows)
	}
	if left := w.waiting(); len(left) > 0 {
		w.t.Errorf("%d rows wait, the first is %+v", len(left), left[0])
	}
	if run := w.show(slot(1)); run.Checked != int64(len(names)*rows) || run.Finished != run.Checked {
		w.t.Errorf("the ledger: %+v, want %d finished", run, len(names)*rows)
	}
}

func TestConnectionsThatAreRefusedAreNoErrorsOfRows(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	names := w.registerErrorless()
	const rows = 100
	for _, name := range names {
		w.enqueue(name, slot(1), rows)
	}
	role, to := w.role()
	db := open(t, to)
	w.db.MustExec(fmt.Sprintf(`alter role %q connection limit 3`, role))
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.DB = db; c.Lease = 2 * time.Second }).Run(t.Context(), slot(1))
	t.Logf("with three connections: %+v, %v", result, err)
	w.db.MustExec(fmt.Sprintf(`alter role %q connection limit -1`, role))
	if again := w.run(slot(1)); again.State != slots.StateDone {
		t.Errorf("the next run: %+v", again)
	}
	w.isDoneOnce(names, rows)
}

func TestSessionsThatAreEndedAreNoErrorsOfRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it ends sessions for two seconds")
	}
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	names := w.registerErrorless()
	const rows = 1000
	for _, name := range names {
		w.enqueue(name, slot(1), rows)
	}
	role, to := w.role()
	db := open(t, to)
	w.clock.Set(slot(1))
	r := w.runner(func(c *slots.Config) { c.DB = db; c.Lease = 2 * time.Second })
	ended := make(chan string, 1)
	go func() {
		result, err := r.Run(context.WithoutCancel(t.Context()), slot(1))
		ended <- fmt.Sprintf("%+v, %v", result, err)
	}()
	w.eventually("the first effect", func() bool { return w.count(`select count(*) from public.effect`) > 0 })
	const forAWhile = 2 * time.Second
	for started := time.Now(); time.Since(started) < forAWhile && len(ended) == 0; time.Sleep(3 * time.Millisecond) {
		w.db.MustExec(`
			select pg_terminate_backend(pid) from pg_stat_activity
			where usename = '` + role + `' and datname = current_database()
			order by state = 'idle', random()
			limit 1`)
	}
	t.Log("with sessions that are ended: ", <-ended)
	if pgtest.OnCitus() { // which asks once a minute what became of the transactions that a session had prepared
		w.db.MustExec(`select recover_prepared_transactions()`)
	}
	if again := w.run(slot(1)); again.State != slots.StateDone {
		t.Errorf("the next run: %+v", again)
	}
	w.isDoneOnce(names, rows)
}

func TestAServerWithoutRoomEndsTheRunWithAnErrorWithinALease(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.refuseHistory("no space left on device", "disk_full")
	names := w.registerErrorless()
	const rows, lease = 50, 2 * time.Second
	for _, name := range names {
		w.enqueue(name, slot(1), rows)
	}
	w.clock.Set(slot(1))
	r := w.runner(func(c *slots.Config) { c.Lease = lease })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, slot(1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the run ended without an error")
		}
	case <-time.After(await.Limit):
		stop()
		t.Errorf("the run went on for %s, and then ended: %v", await.Limit, <-ended)
	}
	w.db.MustExec(`drop trigger refuse on prescient.future_job_history`)
	if again := w.run(slot(1)); again.State != slots.StateDone {
		t.Errorf("the next run: %+v", again)
	}
	w.isDoneOnce(names, rows)
}

// One connection breaks, before each of the messages of a run.
func TestAConnectionThatBreaksEndsNoRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	network := w.network()
	db := network.open()
	w.registry.Register("job", jobs.Row(done))
	const rows, most = 10, 25
	for n := 1; n <= most; n++ {
		w.enqueue("job", slot(n), rows)
		w.clock.Set(slot(n))
		r := w.runner(func(c *slots.Config) { c.DB = db })
		network.before(int64(n), link.cut)
		result, err := r.Run(t.Context(), slot(n))
		network.undisturbed()
		if err != nil || result.State != slots.StateDone {
			t.Errorf("cut before message %d: %+v, %v", n, result, err)
			w.run(slot(n))
		}
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: most * rows}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
}

// The record that ends a claim is committed, its reply is lost, and before the runner can ask, another has closed the slot:
// nothing is left by which the record could be found.
func TestARunCountsARecordWhoseReplyWasLostBeforeAnotherClosedTheSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("here", slot(1), 1)
	w.enqueue("beside", slot(1), 1)
	network := w.network()
	db := network.open()
	w.clock.Set(slot(1))

	recorded, begun := make(chan struct{}), make(chan struct{})
	besides := jobs.NewRegistry()
	besides.Register("beside", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		close(begun)
		<-recorded
		return nil, nil
	}))
	beside := w.background(slot(1), func(c *slots.Config) { c.Registry = besides })
	<-begun
	w.registry.Register("here", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		network.before(1, func(l link) {
			network.away.Lock()
			network.cutBut(l)
			_ = l.runner.Close() // the message goes through, and no reply
		})
		return nil, nil
	}))
	here := w.background(slot(1), func(c *slots.Config) { c.DB = db })
	w.eventually("the record", func() bool { return w.outcomes()[jobs.OutcomeDone] == 1 })
	close(recorded)
	if result := <-beside; result.State != slots.StateDone || result.Finished != 1 {
		t.Errorf("beside: %+v", result)
	}
	network.away.Unlock()
	if result := <-here; result.State != slots.StateDone || result.Finished != 1 || result.Lost > 0 {
		t.Errorf("the record that got no reply is not counted: %+v", result)
	}
}

// The server takes back what was recorded already, when it is to be committed.
func TestARecordThatIsRepeatedForASerializationFailureIsCountedOnce(t *testing.T) {
	t.Parallel()
	recordsTwice(t, "serialization_failure")
}

// The server may report a wait for a lock that took too long as a cancelled statement.
func TestARecordThatTheServerCancelsIsRepeated(t *testing.T) {
	t.Parallel()
	recordsTwice(t, "query_canceled")
}

// recordsTwice runs rows, whose first record fails with an error.
func recordsTwice(t *testing.T, state string) {
	t.Helper()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.db.MustExec(`
		create sequence tried;
		create function fail_once() returns trigger language plpgsql as $$
		begin
			if nextval('public.tried') = 1 then
				raise exception 'somebody was first' using errcode = '` + state + `';
			end if;
			return null;
		end
		$$;
		create constraint trigger fail_once after insert on prescient.slot_progress deferrable initially deferred
		for each row execute function fail_once()`)
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch { // with which it is recorded in a transaction of several messages
			results[i].Enqueue = []jobs.Request{{JobExec: "next", EntityName: "order", EntityKey: job.EntityKey, CheckAt: slot(3)}}
		}
		return results, nil
	}))
	w.registry.Register("next", jobs.Row(done))
	const rows = 5
	w.enqueue("job", slot(1), rows)
	if result := w.run(slot(1)); result.Finished != rows || result.Checked != rows {
		t.Errorf("%+v", result)
	}
	w.isClosed(rows)
}
