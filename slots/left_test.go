package slots_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// leaves lets a run leave locked rows after some seconds.
func leaves(c *slots.Config) { c.LeaveLocked = true }

// registerSkip registers the job skip, whose rows are skipped if catch-up finds them missed.
func (w *world) registerSkip() {
	w.registry.Register("skip", jobs.Row(done), jobs.OnMisfire(jobs.MisfireSkip))
}

// isOutcome checks how the only row has ended.
func (w *world) isOutcome(want jobs.Outcome) {
	w.t.Helper()
	if diff := cmp.Diff(map[jobs.Outcome]int{want: 1}, w.outcomes()); diff != "" {
		w.t.Error(diff)
	}
}

// catchUpBesideALock runs a catch-up that leaves the row of slot 1, because it is locked.
func (w *world) catchUpBesideALock() {
	w.t.Helper()
	release := w.hold(1)
	defer release()
	if _, err := w.runner().CatchUp(w.t.Context(), slots.CatchUp{}); !errors.Is(err, slots.ErrLocked) {
		w.t.Errorf("catch-up beside a lock: %v", err)
	}
}

func TestARowThatARunLeftBecauseOfALockIsNoMisfire(t *testing.T) {
	t.Parallel()
	for _, policy := range []jobs.Misfire{jobs.MisfireSkip, jobs.MisfireDefer} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				if job.CaughtUp {
					t.Error("the function is told of a missed slot")
				}
				return nil, nil
			}), jobs.OnMisfire(policy))
			w.enqueue("job", slot(1), 1)
			w.clock.Set(slot(1))
			release := w.hold(1)
			if _, err := w.runner(leaves).Run(t.Context(), slot(1)); !errors.Is(err, slots.ErrLocked) {
				t.Errorf("the run beside a lock: %v", err)
			}
			release()
			w.catchUp(slots.CatchUp{})
			w.isOutcome(jobs.OutcomeDone)
		})
	}
}

func TestAStragglerIsNoMisfire(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registerSkip()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	late := jobs.Request{JobExec: "skip", EntityName: "order", EntityKey: "late", CheckAt: slot(1)}
	if _, err := w.client.Enqueue(t.Context(), tx, late); err != nil {
		t.Fatal(err)
	}
	w.run(slot(1))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.catchUp(slots.CatchUp{})
	w.isOutcome(jobs.OutcomeDone)
}

func TestARowOfAMissedSlotIsAMisfireForEachCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registerSkip()
	w.enqueue("skip", slot(1), 1)
	w.clock.Set(slot(2))
	w.catchUpBesideALock()
	w.catchUp(slots.CatchUp{})
	w.isOutcome(jobs.OutcomeSkipped)
}

func TestARowThatWaitedForAPausedJobIsAMisfireForEachCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registerSkip()
	w.enqueue("skip", slot(1), 1)
	if _, err := admin.New(w.client).Pause(t.Context(), w.db, "skip"); err != nil {
		t.Fatal(err)
	}
	if result := w.run(slot(1)); result.State != slots.StateDone {
		t.Errorf("the run: %+v", result)
	}
	if _, err := admin.New(w.client).Resume(t.Context(), w.db, "skip"); err != nil {
		t.Fatal(err)
	}
	w.catchUpBesideALock()
	w.catchUp(slots.CatchUp{})
	w.isOutcome(jobs.OutcomeSkipped)
}

// Rows of another job keep the slot open, so no run comes to the end of it.
func TestARowThatWaitedForAPausedJobIsAMisfireInASlotThatStaysOpen(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]int{"resumed after a catch-up": 1, "resumed before each catch-up": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registerSkip()
			w.enqueue("skip", slot(1), 1)
			w.enqueue("elsewhere", slot(1), 2)
			if _, err := admin.New(w.client).Pause(t.Context(), w.db, "skip"); err != nil {
				t.Fatal(err)
			}
			if result := w.run(slot(1)); result.State != slots.StateOpen {
				t.Errorf("the run: %+v", result)
			}
			w.clock.Set(slot(3))
			for range between {
				w.catchUp(slots.CatchUp{})
			}
			if _, err := admin.New(w.client).Resume(t.Context(), w.db, "skip"); err != nil {
				t.Fatal(err)
			}
			w.catchUp(slots.CatchUp{})
			w.isOutcome(jobs.OutcomeSkipped)
		})
	}
}

// An operator has run one job of the slot by hand. The run of the slot comes later, and finds the other rows, or none.
func TestASlotThatWasOnlyRunByHandIsNotMissedYet(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]int{"with rows": 1, "without rows": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registerSkip()
			w.registry.Register("asked", jobs.Row(done))
			w.enqueue("asked", slot(1), 1)
			w.enqueue("skip", slot(1), key)
			w.clock.Set(slot(1))
			if _, err := w.runner().RunJob(t.Context(), slot(1), "asked"); err != nil {
				t.Fatal(err)
			}
			if caught := w.catchUp(slots.CatchUp{}); len(caught.Slots) != 0 {
				t.Errorf("catch-up took the slot before its run: %+v", caught)
			}
			if result := w.run(slot(1)); result.Kind != slots.KindRun || result.Finished != int64(key) {
				t.Errorf("%+v", result)
			}
			// A row that comes late to a slot that had its run is no misfire.
			w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
				values (prescient.ensure_job('skip'), 'order', 'late', $1, $1)`, slot(1))
			w.clock.Set(slot(2))
			w.catchUp(slots.CatchUp{})
			if got := w.outcomes(); got[jobs.OutcomeSkipped] != 0 || got[jobs.OutcomeDone] != key+2 {
				t.Errorf("outcomes %v", got)
			}
		})
	}
}

// One of two runs leaves the row after some seconds, and the other takes its claim over.
func TestAFunctionIsNotCalledAgainByAnotherRunWhileItsRowIsLocked(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"beside the first": true, "after the first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var calls atomic.Int64
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				calls.Add(1)
				return nil, nil
			}))
			w.enqueue("job", slot(1), 1)
			w.clock.Set(slot(1))
			release := w.hold(1)
			var runs []<-chan ending
			for n := range 2 {
				r := w.runner(leaves, func(c *slots.Config) { c.Name = fmt.Sprint("runner ", n); c.Lease = time.Minute })
				runs = append(runs, w.startRun(t.Context(), r))
				if !atOnce {
					endOf(t, runs[n])
				}
			}
			for _, running := range runs {
				if atOnce {
					endOf(t, running)
				}
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the function was called %d times while its row was locked", n)
			}
			release()
			w.catchUp(slots.CatchUp{})
			w.isOutcome(jobs.OutcomeDone)
		})
	}
}

// longerThanLocks is a lease that is longer than catch-up waits for locks.
const longerThanLocks = 9 * time.Second

// Another row of the claim is locked, and its pool answers.
func TestAPoolThatDoesNotWorkEndsACatchUpWithItsError(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a lease")
	}
	t.Parallel()
	away, err := sqlx.Open("postgres", "postgres://localhost:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = away.Close() }()
	w := setup(t)
	check := func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	w.registry.Register("job", jobs.InTx(check))
	w.registry.Register("other pool", jobs.InTx(check), jobs.WithPool(away))
	w.enqueue("job", slot(1), 1)
	release := w.hold(1)
	defer release()
	w.enqueue("other pool", slot(1), 1)
	w.clock.Set(slot(2))
	_, err = w.runner(func(c *slots.Config) { c.Lease = longerThanLocks }).CatchUp(t.Context(), slots.CatchUp{})
	if err == nil || errors.Is(err, slots.ErrLocked) || !strings.Contains(err.Error(), "the pool that job other pool") {
		t.Errorf("the catch-up: %v", err)
	}
}

func TestAServerWithoutRoomEndsACatchUpWithItsError(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a lease")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.refuseHistory("no space left on device", "disk_full")
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}))
	w.enqueue("job", slot(1), 20)
	w.clock.Set(slot(2))
	_, err := w.runner(func(c *slots.Config) { c.Lease = longerThanLocks }).CatchUp(t.Context(), slots.CatchUp{})
	if err == nil || errors.Is(err, slots.ErrLocked) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the catch-up: %v", err)
	}
}

// The parts of the call take longer than the run waits for locks.
func TestARunFinishesACallThatIsDivided(t *testing.T) {
	if testing.Short() {
		t.Skip("its calls take long")
	}
	t.Parallel()
	const rows, bad = 64, "7"
	w := setup(t)
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		if slices.ContainsFunc(batch, func(job jobs.FutureJob) bool { return job.EntityKey == bad }) {
			time.Sleep(1500 * time.Millisecond)
			return nil, jobs.ErrDivide
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueue("job", slot(1), rows)
	result := w.run(slot(1), leaves, func(c *slots.Config) { c.Page = rows })
	if result.Finished != rows-1 || result.Failed != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// Another runner has found the slot without a live runner, and has let its claims begin at the first row again.
func TestARunThatLostItsLeaseCallsNoFunctionAgainWhileItsRowIsLocked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var calls atomic.Int64
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		calls.Add(1)
		return nil, nil
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	release := w.hold(1)
	running := w.startRun(t.Context(), w.runner(func(c *slots.Config) { c.Lease = 2 * time.Second }))
	w.eventually("the function to be called", func() bool { return calls.Load() == 1 })
	w.db.MustExec(`delete from prescient.slot_claim`)
	w.db.MustExec(`select prescient.open_slot($1, 'run', 1, 'other', '1 hour', $1)`, slot(1))
	w.eventually("the run to claim the row again", func() bool {
		return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}'`) == 1
	})
	time.Sleep(time.Second)
	if n := calls.Load(); n != 1 {
		t.Errorf("the function was called %d times while its row was locked", n)
	}
	release()
	if result := endOf(t, running); result.err != nil || result.Finished != 1 {
		t.Errorf("%+v", result)
	}
}

// The other run takes longer than a run waits for locks.
func TestRowsThatWaitForAPermitAreNotLeftWithLockedRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for locks for long")
	}
	t.Parallel()
	for name, test := range map[string]func(w *world) (finished int64, err error){
		"in a run": func(w *world) (int64, error) {
			w.clock.Set(slot(1))
			result, err := w.runner(leaves).Run(t.Context(), slot(1))
			return result.Finished, err
		},
		"in a catch-up": func(w *world) (int64, error) {
			w.clock.Set(slot(2))
			caught, err := w.runner().CatchUp(t.Context(), slots.CatchUp{})
			return caught.Total.Finished, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(done))
			w.registry.Register("limited", jobs.Row(done), jobs.AtMost(1))
			w.enqueue("job", slot(1), 1)
			release := w.hold(1)
			defer release()
			w.enqueue("limited", slot(1), 1)
			if !w.takePermit("limited", "") {
				t.Fatal("the other run got no permit")
			}
			defer time.AfterFunc(20*time.Second, w.leavePermits).Stop()
			if finished, err := test(w); !errors.Is(err, slots.ErrLocked) || finished != 1 {
				t.Errorf("%d rows finished, %v", finished, err)
			}
		})
	}
}

// The cause is neither context.Canceled nor an error of the run.
func TestARunThatIsStoppedWithACauseSaysThatItWasStopped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	started := make(chan struct{})
	w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	ctx, stop := context.WithCancelCause(t.Context())
	running := w.startRun(ctx, w.runner())
	await.Receive(t, "the check", started)
	stop(errors.New("a new version"))
	if result := endOf(t, running); !errors.Is(result.err, slots.ErrStopped) || result.State != slots.StateOpen {
		t.Errorf("%+v", result)
	}
}

// The runner that has the permit for rows claims them only after the catch-up has found them.
func TestACatchUpDoesNotWaitForRowsThatAnotherRunnerHasClaimed(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for locks for long")
	}
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.registry.Register("limited", jobs.Row(done), jobs.AtMost(1))
	w.enqueue("job", slot(1), 1)
	defer w.hold(1)()
	w.enqueue("limited", slot(1), 1)
	if !w.takePermit("limited", "") {
		t.Fatal("the other runner got no permit")
	}
	w.clock.Set(slot(2))
	left := make(chan error, 1)
	go func() {
		_, err := w.runner().CatchUp(context.Background(), slots.CatchUp{})
		left <- err
	}()
	w.eventually("the catch-up to claim the locked row", func() bool {
		return w.count(`select count(*) from prescient.slot_claim where jobs = array[prescient.find_job('job')]`) == 1
	})
	w.db.MustExec(`select prescient.claim_rows($1, 'catch_up', 1, 'other', '1 hour', array[prescient.find_job('limited')], 10)`, slot(1))
	select {
	case err := <-left:
		if !errors.Is(err, slots.ErrLocked) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the catch-up stays")
		w.leavePermits()
		t.Log(<-left)
	}
}
