package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestARunChecksTheRowsOfItsSlotAndNoOthers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("early", jobs.Row(done))
	w.registry.Register("late", jobs.Row(done))
	w.enqueue("early", slot(1), 120)
	w.enqueue("late", slot(2), 3)

	got := w.run(slot(1))
	want := slots.Result{Slot: slot(1), Kind: slots.KindRun, State: slots.StateDone, Planned: 120, Checked: 120, Finished: 120}
	got.Took = 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 120}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	if n := len(w.waiting()); n != 3 {
		t.Errorf("%d rows wait, want the 3 of the next slot", n)
	}
}

func TestARunOfASlotThatIsDoneDoesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 10)
	w.run(slot(1))
	again := w.run(slot(1))
	if again.Checked != 0 || again.State != slots.StateDone {
		t.Errorf("the second run: %+v", again)
	}
}

func TestEightRunnersCheckEachRowOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	checks := map[string]int{}
	w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		checks[job.EntityKey]++
		return nil, nil
	}))
	const rows = 2000
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))

	var wg sync.WaitGroup
	results := make([]slots.Result, 8)
	for i := range results {
		r := w.runner()
		wg.Go(func() {
			var err error
			if results[i], err = r.Run(t.Context(), slot(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	var sum int64
	for _, r := range results {
		sum += r.Checked
	}
	if sum != rows || len(checks) != rows {
		t.Errorf("%d rows recorded, %d checked, want %d", sum, len(checks), rows)
	}
	for key, n := range checks {
		if n != 1 {
			t.Errorf("order %s was checked %d times", key, n)
		}
	}
	run, err := w.ledger.Show(t.Context(), slot(1))
	if err != nil || run.State != slots.StateDone || run.Checked != rows || run.Finished != rows {
		t.Errorf("the ledger: %+v, %v", run, err)
	}
}

// The row with the lowest id is committed when the reader has long been past it: the run finds it before it closes.
func TestARowCommittedBehindTheReaderIsCheckedByTheSameRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	late, err := w.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	row := func(key string) jobs.Request {
		j := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: key, GroupKey: "one group"}
		j.CheckAt = slot(1)
		return j
	}
	if _, err := w.client.Enqueue(t.Context(), late, row("late")); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	var commit sync.Once
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		commit.Do(func() {
			if err := late.Commit(); err != nil {
				t.Error(err)
			}
		})
		return nil, nil
	}))
	if got := w.run(slot(1)); got.Checked != 21 || got.State != slots.StateDone {
		t.Errorf("%+v", got)
	}
}

// The runner reads the row again while its first check, whose outcome is lost by now, still runs.
func TestARowWhoseCheckOutlivesTheLeaseIsCheckedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	started, release := make(chan struct{}, 2), make(chan struct{})
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		started <- struct{}{}
		<-release
		return nil, nil
	}))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.Lease = time.Second })
	<-started
	w.db.MustExecContext(t.Context(), `
		update prescient.slot_claim
		set token = token + 1, allocated_until = statement_timestamp() - interval '1 second'
		where jobs <> '{}'`)
	w.eventually("the rows to be claimed again", func() bool {
		var again bool
		if err := w.db.GetContext(t.Context(), &again, `select coalesce(bool_or(allocated_until > clock_timestamp()), false) from prescient.slot_claim where jobs <> '{}'`); err != nil {
			t.Fatal(err)
		}
		return again
	})
	time.Sleep(100 * time.Millisecond) // for the reader, which comes to the row within a millisecond
	close(release)
	if result := <-finished; result.Finished != 1 || result.TakenOver != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

func TestARunWorksWithPreparedStatements(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	prepared := open(t, w.url, pgsql.Prepared())
	w.db.MustExecContext(t.Context(), `create table seen (key text)`)
	next := func(job jobs.FutureJob) *time.Time {
		if job.CheckCount == 2 {
			return nil
		}
		return new(job.Slot.Add(15 * time.Minute))
	}
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) { return next(job), nil }))
	w.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `insert into seen (key) values ($1)`, job.EntityKey)
		return next(job), err
	}))
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(rows))
		for i, row := range rows {
			results[i].Next = next(row)
		}
		return results, nil
	}))
	for _, job := range []string{"one", "tx", "batch"} {
		w.enqueue(job, slot(1), 200)
	}
	for n := 1; n <= 3; n++ {
		if got := w.run(slot(n), func(c *slots.Config) { c.DB = prepared }); got.Checked != 600 || got.Failed != 0 {
			t.Errorf("%+v", got)
		}
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 600}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
	var seen int
	if err := w.db.GetContext(t.Context(), &seen, `select count(*) from seen`); err != nil || seen != 600 {
		t.Errorf("%d writes of checks, want 600 (%v)", seen, err)
	}
}

// What a run logs is mail, where cron starts it: thousands of rows with the same bug are no reason for thousands of stacks.
func TestTheStackOfAPanicIsLoggedOnceForEachJobOfARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	panics := func(context.Context, jobs.FutureJob) (*time.Time, error) { panic("oh no") }
	w.registry.Register("one", jobs.Row(panics))
	w.registry.Register("two", jobs.Row(panics))
	w.enqueue("one", slot(1), 30)
	w.enqueue("two", slot(1), 30)
	var log strings.Builder
	result := w.run(slot(1), func(c *slots.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	if result.Failed != 60 {
		t.Errorf("%+v", result)
	}
	for _, job := range []string{"one", "two"} {
		if n := strings.Count(log.String(), `level=ERROR msg="check panicked" check="`+job); n != 1 {
			t.Errorf("%d stacks of job %s:\n%s", n, job, log.String())
		}
	}
}

func TestARunTellsOfEachJobHowManyChecksFailedAndWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	fails := func(text string) jobs.CheckFunc {
		return func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New(text) }
	}
	w.registry.Register("again", jobs.Row(fails("the warehouse does not answer")), jobs.Retry(3))
	w.registry.Register("final", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("no such carrier")
	}), jobs.Retry(0))
	w.registry.Register("half", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(rows))
		for i := range len(rows) / 2 {
			results[i].Err = errors.New("half of them")
		}
		return results, nil
	}), jobs.Retry(0))
	w.registry.Register("well", jobs.Row(done))
	for job, n := range map[string]int{"again": 31, "final": 3, "half": 100, "well": 5} {
		w.enqueue(job, slot(1), n)
	}
	var log strings.Builder
	result := w.run(slot(1), func(c *slots.Config) {
		c.Page = 1000
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	})
	want := []slots.Failure{
		{JobExec: "again", Failed: 31, Error: "the warehouse does not answer"},
		{JobExec: "final", Failed: 3, GaveUp: 3, Error: "no such carrier"},
		{JobExec: "half", Failed: 50, GaveUp: 50, Error: "half of them"},
	}
	if diff := cmp.Diff(want, result.Failures); diff != "" {
		t.Error(diff)
	}
	const at, gaveUp = "slot=2030-03-01T12:15:00.000Z", `msg="rows were given up: they are in history as failed, and \"jobs retry\" puts them back"`
	lines := strings.Join([]string{
		`level=WARN msg="checks failed" ` + at + ` job=again failed=31 error="the warehouse does not answer"`,
		`level=WARN msg="checks failed" ` + at + ` job=final failed=3 error="no such carrier"`,
		`level=ERROR ` + gaveUp + " " + at + ` job=final rows=3`,
		`level=WARN msg="checks failed" ` + at + ` job=half failed=50 error="half of them"`,
		`level=ERROR ` + gaveUp + " " + at + ` job=half rows=50`, "",
	}, "\n")
	if diff := cmp.Diff(lines, log.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAPoolOfTooFewConnectionsIsWarnedOf(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for most, want := range map[int]bool{0: false, 3 + slots.OwnConnections: false, 2 + slots.OwnConnections: true} {
		var log strings.Builder
		db := open(t, w.url)
		db.SetMaxOpenConns(most)
		w.runner(func(c *slots.Config) {
			c.DB, c.Connections, c.Logger = db, 3, slog.New(slog.NewTextHandler(&log, nil))
		})
		if got := strings.Contains(log.String(), "connections=7 needed=8"); got != want {
			t.Errorf("%d connections: %s", most, log.String())
		}
	}
}
