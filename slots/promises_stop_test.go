package slots_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// held is a job whose checks go on until they are released.
type held struct {
	release chan struct{}
}

func (h *held) check(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
	select {
	case <-h.release:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Rows have been checked, some are being checked, and others wait for their turn when the run is stopped: before each
// of its messages, which is answered late.
func TestAStopBeforeAnyMessageOfARunLosesAndStrandsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it stops a run at each of its messages")
	}
	t.Parallel()
	for name, register := range map[string]func(*jobs.Registry, *held){
		"rows wait for a worker": func(r *jobs.Registry, h *held) {
			r.Register("job", jobs.Row(h.check), jobs.OnMisfire(jobs.MisfireSkip))
		},
		"rows wait for their job's turn": func(r *jobs.Registry, h *held) {
			r.Register("job", jobs.Row(h.check), jobs.OnMisfire(jobs.MisfireSkip), jobs.Concurrency(2))
		},
		"rows wait for a connection": func(r *jobs.Registry, h *held) {
			r.Register("job", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return h.check(ctx, job)
			}), jobs.OnMisfire(jobs.MisfireSkip))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var job held
			register(w.registry, &job)
			w.stopEverywhere(&job, func(stop func()) { stop() }, func(err error) {
				if err != nil && !errors.Is(err, slots.ErrStopped) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

// The records of the run fail from one of its messages on.
func TestARunThatFailsStrandsNothing(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.db.MustExec(`
		create table broken ();
		create function refuse() returns trigger language plpgsql as $$
		begin
			if exists (select from public.broken) then
				raise exception 'history is broken' using errcode = 'system_error';
			end if;
			return new;
		end
		$$;
		create trigger refuse before insert on prescient.future_job_history for each row execute function refuse()`)
	var job held
	w.registry.Register("job", jobs.Row(job.check), jobs.OnMisfire(jobs.MisfireSkip))
	w.stopEverywhere(&job, func(func()) { w.db.MustExec(`insert into broken default values`) }, func(error) {
		w.db.MustExec(`delete from broken`)
	})
}

// stopEverywhere runs a slot for each message of a run, has something done to the run before that message, and the slot
// run again; and after all a catch-up, which has nothing to do. A run that sends nothing more for a while has sent all.
func (w *world) stopEverywhere(job *held, do func(stop func()), ended func(error)) {
	const rows, quick, aWhile = 100, 20, 600 * time.Millisecond
	w.registry.Register("quick", jobs.Row(done))
	network := w.network()
	db := network.open()
	n := 0
	for all := false; !all; {
		n++
		at := slot(n)
		w.enqueue("quick", at, quick)
		w.enqueue("job", at, rows)
		w.clock.Set(at)
		ctx, stop := context.WithCancel(w.t.Context())
		r := w.runner(func(c *slots.Config) { c.DB = db; c.Workers = 4; c.Connections = 4; c.Lease = time.Second })
		job.release = make(chan struct{})
		disturb := sync.OnceFunc(func() {
			do(stop)
			close(job.release)
		})
		network.before(int64(n), func(link) {
			disturb()
			time.Sleep(250 * time.Millisecond)
		})
		idle := time.AfterFunc(aWhile, disturb)
		first, err := r.Run(ctx, at)
		all = !idle.Stop()
		network.undisturbed()
		stop()
		ended(err)
		second := w.run(at)
		if first.Finished+second.Finished != rows+quick || second.State != slots.StateDone {
			w.t.Errorf("stopped before message %d: %+v, then %+v", n, first, second)
		}
		if n := len(w.waiting()); n > 0 {
			w.t.Fatalf("%d rows wait in a slot that is done", n)
		}
	}
	w.t.Logf("stopped before each of %d messages", n)
	w.run(slot(n + 1))
	w.run(slot(n + 2))
	if caught := w.catchUp(slots.CatchUp{}); len(caught.Slots) > 0 {
		w.t.Errorf("catch-up found %+v", caught.Slots)
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: n * (rows + quick)}, w.outcomes()); diff != "" {
		w.t.Error(diff)
	}
}

func TestASlotThatIsLeftOpenWithoutRowsIsClosedByTheNextCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		stop()
		return nil, nil
	}))
	w.enqueue("job", slot(1), 100)
	w.clock.Set(slot(1))
	first, err := w.runner(func(c *slots.Config) { c.Workers = 4 }).Run(ctx, slot(1))
	if !errors.Is(err, slots.ErrStopped) {
		t.Fatal(err)
	}
	for _, job := range w.waiting() {
		if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), job.Key()); err != nil {
			t.Fatal(err)
		}
	}
	w.run(slot(2))
	w.catchUp(slots.CatchUp{})
	w.isClosed(first.Finished)
}

// The process is killed after its last record and before it closes the slot, whose row another session holds.
func TestASlotWhoseRunnerDiedAfterItsLastRecordIsClosedByTheNextCatchUp(t *testing.T) {
	t.Parallel()
	w := setupProcesses(t)
	const rows = 16
	w.enqueue("held", slot(1), rows)
	p := w.start()
	w.eventually("every check to be running", func() bool { return w.count(`select count(*) from trace`) == rows })
	somebody := w.db.MustBegin()
	defer func() { _ = somebody.Rollback() }()
	somebody.MustExec(`select from prescient.slot_run where slot = $1 for share`, slot(1))
	w.db.MustExec(`insert into released default values`)
	heldUp := 0
	w.eventually("the last row to be recorded, unless it is held up with the close", func() bool {
		if heldUp++; !w.waitsForALock() {
			heldUp = 0
		}
		return heldUp > 50 || w.count(`select count(*) from prescient.future_job`) == 0
	})
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	// So that what it asked of the server last is not done after all.
	w.db.MustExec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
	if err := somebody.Rollback(); err != nil {
		t.Fatal(err)
	}

	w.registry.Register("held", jobs.Row(done))
	killed := time.Now()
	w.run(slot(2))
	for w.show(slot(1)).State != slots.StateDone && time.Since(killed) < await.Limit {
		w.catchUp(slots.CatchUp{})
	}
	w.isClosed(rows)
}

// isClosed sees whether slot 1 is done and has the counts of so many rows that were finished.
func (w *world) isClosed(finished int64) {
	w.t.Helper()
	if s := w.status(); !s.OK() {
		w.t.Errorf("the status: %+v", s.Trouble)
	}
	if run := w.show(slot(1)); run.State != slots.StateDone || run.Finished != finished || run.Checked != finished {
		w.t.Errorf("the ledger: %+v; want %d finished", run, finished)
	}
	if n := w.outcomes()[jobs.OutcomeDone]; int64(n) != finished {
		w.t.Errorf("%d rows are done, want %d", n, finished)
	}
}

// show returns the ledger row of a slot.
func (w *world) show(slot time.Time) ledger.SlotRun {
	w.t.Helper()
	run, err := w.ledger.Show(w.t.Context(), slot)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// waitsForALock tells whether a session of the test's database waits for a row or table that another has locked.
func (w *world) waitsForALock() bool {
	w.t.Helper()
	return pgtest.Waits(w.t, w.db) > 0
}

// The display of progress may be blocked by a terminal that is not read.
func TestARunThatIsStoppedDoesNotWaitForItsProgress(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 3)
	ctx, stop := context.WithCancel(t.Context())
	released, returned := make(chan struct{}), make(chan error, 1)
	w.clock.Set(slot(1))
	runner := w.runner(func(c *slots.Config) {
		c.Progress = func(slots.Progress) {
			stop()
			<-released
		}
	})
	go func() {
		_, err := runner.Run(ctx, slot(1))
		returned <- err
	}()
	defer close(released)
	select {
	case err := <-returned:
		if !errors.Is(err, slots.ErrStopped) {
			t.Error(err)
		}
	case <-time.After(await.Limit):
		t.Error("it goes on")
	}
}

// A check that goes on when the run is stopped has the grace period, however long that is.
func TestTheGracePeriodMayBeAsLongAsAnyDuration(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
			return nil, nil
		}
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Grace = math.MaxInt64 }).Run(ctx, slot(1))
	if result.Finished != 1 || err != nil {
		t.Errorf("%+v, %v", result, err)
	}
}

// A machine may hang within a check's own transaction and never go on. What it sends before the record of a check that
// enqueues undoes the settings of the transaction, and the server must end it all the same.
func TestACheckThatEnqueuesHoldsNoRowsOnceItsProcessStandsStill(t *testing.T) {
	t.Parallel()
	check := func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (jobs.Result, error) {
		return jobs.Result{Enqueue: []jobs.Request{{
			JobExec: "mail", EntityName: "order", EntityKey: job.EntityKey, CheckAt: slot(9),
		}}}, nil
	}
	for name, shape := range map[string]jobs.Handler[jobs.FutureJob]{
		"each row in a transaction": jobs.InTx(check),
		"a batch in a transaction": jobs.BatchInTx(func(
			ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob,
		) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for i, job := range batch {
				results[i], _ = check(ctx, tx, job)
			}
			return results, nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupAt(t, pgtest.Direct(t)) // its fault is of the way to the server
			w.registry.Register("job", shape)
			w.registry.Register("mail", jobs.Row(done))
			w.enqueue("job", slot(1), 3)
			w.clock.Set(slot(1))
			faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
			faults.Set(pgtest.Fault{At: 1, Kind: pgtest.StopAfter, Pause: time.Hour, Of: func(text string) bool {
				return strings.Contains(text, "discard temp") && strings.Contains(text, "skip locked")
			}})
			ctx, kill := context.WithCancel(t.Context())
			ended := make(chan struct{})
			hangs := w.runner(func(c *slots.Config) { c.DB, c.Lease = faults.DB, claim.MinLease })
			go func() {
				defer close(ended)
				_, _ = hangs.Run(ctx, slot(1))
			}()
			await.Receive(t, "stop of the process", faults.Happened())

			within, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			result, err := w.runner(func(c *slots.Config) { c.Lease = claim.MinLease }).Run(within, slot(1))
			if err != nil || result.State != slots.StateDone {
				t.Errorf("the run that took over: %+v, %v", result, err)
			}
			if n := len(w.waiting()); n != 3 {
				t.Errorf("%d checks wait, want the 3 that were enqueued", n)
			}
			faults.Kill()
			kill()
			await.Receive(t, "end of the process", ended)
		})
	}
}
