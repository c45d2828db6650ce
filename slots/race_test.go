package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func key(n int) jobs.Key {
	return jobs.Key{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(n)}
}

func TestARowThatItsOwnerCancelsOrMovesWhileItIsCheckedStaysAsTheOwnerWantsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		var err error
		switch job.EntityKey {
		case "0":
			_, err = w.client.Cancel(ctx, jobs.OwnTx(w.db), job.Key())
		case "1":
			_, _, err = w.client.Reschedule(ctx, jobs.OwnTx(w.db), job.Key(), slot(9))
		case "2":
			_, err = w.client.Enqueue(ctx, jobs.OwnTx(w.db), replacement(job), jobs.Replace)
		}
		return new(slot(2)), err
	}))
	w.enqueue("job", slot(1), 5)
	result := w.run(slot(1))
	if result.Rescheduled != 3 || result.Yielded != 2 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	got := map[string]string{}
	for _, job := range w.waiting() {
		got[job.EntityKey] = job.NextCheckAt.Format("15:04")
	}
	want := map[string]string{"1": "14:15", "2": "15:00", "3": "12:30", "4": "12:30"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeCancelled: 1, jobs.OutcomeReplaced: 1}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
}

// observed counts the rows that an observer is told of, by job and outcome.
type observed struct {
	mu   sync.Mutex
	rows map[string]int64
}

func (o *observed) Recorded(list []slots.Recorded) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range list {
		o.rows[r.JobExec+" "+string(r.Outcome)] += r.Rows
	}
}

func (*observed) Ran(slots.Result, error) {}

// No such row is in history as failed, and none is tried again.
func TestAFailedCheckWhoseRowItsOwnerCancelsIsNotToldAsFailed(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]int{"recorded one by one": 1, "recorded together": 12} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			fails := func(cancel func(n int) bool) jobs.Handler[jobs.FutureJob] {
				return jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
					if n, _ := strconv.Atoi(job.EntityKey); cancel(n) {
						if _, err := w.client.Cancel(ctx, jobs.OwnTx(w.db), job.Key()); err != nil {
							return nil, err
						}
					}
					return nil, errors.New("no such carrier")
				})
			}
			w.registry.Register("all", fails(func(int) bool { return true }), jobs.Retry(0))
			w.registry.Register("again", fails(func(int) bool { return true }), jobs.Retry(3))
			w.enqueue("all", slot(1), rows)
			w.enqueue("again", slot(1), rows)
			told, log := observed{rows: map[string]int64{}}, &strings.Builder{}
			watch := func(c *slots.Config) {
				c.Observer = &told
				c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
			if r := w.run(slot(1), watch); r.Failed != 0 || r.Yielded != 2*int64(rows) || len(r.Failures) > 0 {
				t.Errorf("%+v", r)
			}
			if len(told.rows) > 0 || log.Len() > 0 {
				t.Errorf("told: %v, %s", told.rows, log)
			}

			w.registry.Register("half", fails(func(n int) bool { return n%2 == 0 }), jobs.Retry(0))
			w.enqueue("half", slot(2), 2*rows)
			r := w.run(slot(2), watch)
			want := []slots.Failure{{JobExec: "half", Failed: int64(rows), GaveUp: int64(rows), Error: "no such carrier"}}
			if diff := cmp.Diff(want, r.Failures); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]int64{"half failed": int64(rows)}, told.rows); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func replacement(job jobs.FutureJob) jobs.Request {
	return jobs.Request{JobExec: job.JobExec, EntityName: job.EntityName, EntityKey: job.EntityKey, CheckAt: slot(12)}
}

func TestRowsThatABusinessTransactionHoldsAreRecordedWhenItEndsAndCheckedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var checks atomic.Int32
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		checks.Add(1)
		return nil, nil
	}))
	const rows = 200
	w.enqueue("job", slot(1), rows)
	business := w.db.MustBegin()
	defer func() { _ = business.Rollback() }()
	for _, n := range []int{7, 9} { // this one holds two rows and keeps one of them
		if _, _, err := w.client.Reschedule(t.Context(), business, key(n), slot(9)); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	// Everything else is recorded while the business transaction goes on.
	w.eventually("all but two rows to be recorded", func() bool { return w.outcomes()[jobs.OutcomeDone] == rows-2 })
	if err := business.Rollback(); err != nil {
		t.Fatal(err)
	}
	result := <-finished
	if result.Finished != rows || result.Yielded != 0 || checks.Load() != rows || result.State != slots.StateDone {
		t.Errorf("%+v after %d checks", result, checks.Load())
	}
}

func TestARunNeverMakesABusinessTransactionTheVictimOfADeadlock(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for deadlocks")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, citusDeadlocks)
	w := setup(t)
	w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(15 * time.Minute)), nil
	}), jobs.MaxChecks(1000))
	const rows = 300
	w.enqueue("job", slot(1), rows)
	ctx, stop := context.WithCancel(t.Context())
	business := make(chan error)
	go func() { business <- w.pushBackBackwards(ctx, rows) }()
	for n := 1; n <= 12; n++ {
		w.run(slot(n), func(c *slots.Config) { c.Page = 1000 })
	}
	stop()
	if err := <-business; err != nil {
		t.Errorf("a business transaction failed: %v", err)
	}
	if got := len(w.waiting()); got != rows {
		t.Errorf("%d rows wait, want %d", got, rows)
	}
}

// pushBackBackwards locks rows against the order in which a run takes them, in transactions of many rows.
func (w *world) pushBackBackwards(ctx context.Context, rows int) error {
	for ctx.Err() == nil {
		tx, err := w.db.BeginTxx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return err
		}
		for n := rows - 1; n >= 0; n -= 2 {
			if _, err := tx.Exec(`update prescient.future_job set payload = '1' where entity_name = 'order' and entity_key = $1`, fmt.Sprint(n)); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func TestASlowRowAndAJobWithLimitedConcurrencyHoldUpNothingElse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := make(chan struct{})
	var serial, most atomic.Int32
	w.registry.Register("slow", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}))
	w.registry.Register("serial", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		if n := serial.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer serial.Add(-1)
		<-release
		return nil, nil
	}), jobs.Concurrency(2))
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("slow", slot(1), 1)
	w.enqueue("serial", slot(1), 700)
	w.enqueue("job", slot(1), 900)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.Workers = 8 })
	w.eventually("every quick row to be recorded", func() bool { return w.outcomes()[jobs.OutcomeDone] == 900 })
	close(release)
	result := <-finished
	if result.Finished != 1601 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if most.Load() != 2 {
		t.Errorf("up to %d checks of the job ran at once, want 2", most.Load())
	}
}

func TestAStoppedRunRecordsWhatFinishesInItsGracePeriodAndHandsTheRestBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	var started atomic.Int32
	w.registry.Register("job", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		if started.Add(1) == 4 {
			stop() // SIGTERM, while four checks are running
		}
		if job.EntityKey == "stuck" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(20 * time.Millisecond)
		return nil, nil
	}))
	w.enqueue("job", slot(1), 100)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Workers = 4 }).Run(ctx, slot(1))
	if !errors.Is(err, slots.ErrStopped) {
		t.Fatal(err)
	}
	if result.Finished < 4 || result.Finished > 8 || int(result.Finished) != w.outcomes()[jobs.OutcomeDone] {
		t.Errorf("%+v", result)
	}
	for _, c := range w.status().Claims {
		if c.Live || len(c.Jobs) == 0 {
			t.Errorf("claim %+v was not handed back", c)
		}
	}
	// No runner has the slot now; the same command again finishes it at once.
	again := w.run(slot(1))
	if again.Finished+result.Finished != 100 || again.State != slots.StateDone || again.TakenOver != 0 {
		t.Errorf("the next run: %+v", again)
	}
}

func TestAStoppedRunDoesNotRecordChecksThatItsEndCutShort(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, stop := context.WithCancel(t.Context())
	w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		stop()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	_, err := w.runner(func(c *slots.Config) { c.Grace = 30 * time.Millisecond }).Run(ctx, slot(1))
	if !errors.Is(err, slots.ErrStopped) {
		t.Fatal(err)
	}
	if got := w.fate(); got.ErrorCount != 0 || !got.Slot.Equal(slot(1)) {
		t.Errorf("the row: %+v, want it as it was", got)
	}
}

func TestChecksWithATransactionNeverRunOnMoreConnectionsThanTheyMay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.SetMaxOpenConns(3 + slots.OwnConnections)
	var running, most atomic.Int32
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		_, err := tx.ExecContext(ctx, `select pg_sleep(0.001)`)
		return nil, err
	}))
	w.enqueue("job", slot(1), 300)
	result := w.run(slot(1), func(c *slots.Config) { c.Connections = 3 })
	if result.Finished != 300 || most.Load() > 3 {
		t.Errorf("%+v with up to %d at once", result, most.Load())
	}
}
