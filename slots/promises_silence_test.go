package slots_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The process is stopped while the server works on a statement of its checks, whose timeout is a minute. Their
// transactions stay open, and their rows locked. Through no pooler: PgBouncer 1.18 ends itself now and then when the session of a
// client is ended that does not read.
func TestASlotIsFinishedSoonAfterItsRunnerWasStoppedInTheMiddleOfATransaction(t *testing.T) {
	t.Parallel()
	w := setupProcessesAt(t, pgtest.Direct(t))
	w.db.MustExec(`
		create table delay ();
		insert into delay default values;
		create function delay() returns trigger language plpgsql as $$
		begin
			if exists (select from delay) then
				perform pg_sleep(0.5);
			end if;
			return new;
		end
		$$;
		create trigger delay before insert on effect for each row execute function delay()`)
	const rows = 20
	w.enqueue("tx", slot(1), rows)
	p := w.start()
	w.eventually("checks to be running", func() bool {
		return w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`) > 0
	})
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	w.db.MustExec(`delete from delay`)

	w.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `insert into effect values ($1)`, job.EntityKey)
		return nil, err
	}))
	w.clock.Set(slot(1))
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	state := slots.StateOpen
	for state == slots.StateOpen && ctx.Err() == nil {
		result, err := w.runner().Run(ctx, slot(1))
		if err != nil && !errors.Is(err, slots.ErrStopped) {
			t.Fatal(err)
		}
		state = result.State
	}
	t.Logf("the slot is %s after %s", state, time.Since(stopped))
	if state != slots.StateDone {
		t.Errorf("the slot is not done, and %d rows wait", len(w.waiting()))
	}

	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.finish(p)
	if n, keys := w.count(`select count(*) from effect`), w.count(`select count(distinct key) from effect`); n != rows || keys != rows {
		t.Errorf("%d effects on %d keys, want each of %d once", n, keys, rows)
	}
}

// Nothing comes back from the server any more when the run is stopped.
func TestARunWhoseNetworkFellSilentReturnsSoonAfterItIsStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases and time-outs of the network")
	}
	t.Parallel()
	w := setup(t)
	check := func(context.Context, jobs.FutureJob) (*time.Time, error) {
		time.Sleep(time.Millisecond)
		return nil, nil
	}
	w.registry.Register("job", jobs.Row(check))
	w.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if _, err := tx.ExecContext(ctx, `select 1`); err != nil {
			return nil, err
		}
		return check(ctx, job)
	}))
	network := w.network()
	db := network.open()
	const rows, grace = 5000, time.Second
	w.enqueue("tx", slot(1), rows)
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))
	r := w.runner(func(c *slots.Config) { c.DB = db; c.Grace = grace; c.Workers = 4 })
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, slot(1))
		ended <- err
	}()
	w.eventually("rows to be recorded", func() bool { return w.ended() > 0 })
	network.silence()
	stop()
	stopped := time.Now()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the run returned no error")
		}
		t.Logf("the run returned after %s: %v", time.Since(stopped), err)
	case <-time.After(await.Limit):
		t.Errorf("the run goes on after %s", time.Since(stopped))
	}
}

// The months are made ahead, under a lock that excludes readers. A dump, say, reads history when that is due.
func TestAReaderOfHistoryAtTheTurnOfTheMonthHoldsUpNoRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 100)
	const months = `
		select count(*) from pg_inherits
		where inhparent = 'prescient.future_job_history'::regclass and inhrelid::regclass::text ~ '[0-9]{6}$'`
	made := w.count(months)
	w.db.MustExec(`
		do $$
		declare
			month regclass;
		begin
			for month in
				select inhrelid from pg_inherits
				where inhparent = 'prescient.future_job_history'::regclass and inhrelid::regclass::text ~ '[0-9]{6}$'
			loop
				execute format('drop table %s', month);
			end loop;
		end
		$$`)
	reader := w.db.MustBegin()
	defer func() { _ = reader.Rollback() }()
	reader.MustExec(`select count(*) from prescient.future_job_history`)
	w.clock.Set(slot(1))
	ended := make(chan slots.Result, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		r, err := slots.NewRunner(ctx, slots.Config{DB: w.db, Registry: w.registry, Now: w.clock.Now})
		if err != nil {
			ended <- slots.Result{}
			return
		}
		result, _ := r.Run(ctx, slot(1))
		ended <- result
	}()
	select {
	case result := <-ended:
		if result.Finished != 100 || result.State != slots.StateDone {
			t.Errorf("%+v", result)
		}
	case <-time.After(await.Limit):
		t.Errorf("the run goes on after %s", await.Limit)
		stop()
		<-ended
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.run(slot(2))
	if n := w.count(months); n != made {
		t.Errorf("%d months of history after the next run, want %d", n, made)
	}
}
