package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestRowsAreCheckedWhenTheirSlotsBegin(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	seen := w.record("job")
	want := map[string]int{}
	for n := range 3 {
		slot := w.slot(2 + n)
		w.due(slot, "job", 5)
		for key := range 5 {
			want[fmt.Sprint(slot.Unix(), " ", key)] = 1
		}
	}
	_, end := w.start()
	eventually(t, "every row to be recorded", func() bool { return w.ended() == len(want) })
	if err := end(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, keys(seen())); diff != "" {
		t.Error(diff)
	}
	onTime := 0
	for _, job := range seen() {
		if !job.CaughtUp {
			onTime++
		}
	}
	if onTime == 0 {
		t.Error("catch-up checked all rows, and no run of a slot did")
	}
	if n := w.count(`select count(*) from prescient.future_job_history where finished_at < slot`); n != 0 {
		t.Errorf("%d rows were checked early", n)
	}
}

func TestADaemonRunsTheCurrentSlotFirstAndCatchesUpOnEarlierOnes(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	seen := w.record("job")
	for n := range 3 {
		w.due(w.slot(-n), "job", 1)
	}
	if err := w.ledger.Begin(t.Context(), w.slot(-3)); err != nil {
		t.Fatal(err)
	}
	_, end := w.start()
	eventually(t, "every row to be recorded", func() bool { return w.ended() == 3 })
	if err := end(); err != nil {
		t.Error(err)
	}
	for _, job := range seen() {
		if want := !job.Slot.Equal(w.slot(0)); job.CaughtUp != want {
			t.Errorf("slot %s: caught up %t, want %t", job.Slot, job.CaughtUp, want)
		}
	}
	if n := w.count(`select count(*) from prescient.slot_run where state = 'done'`); n != 4 {
		t.Errorf("%d slots are done in the ledger, want 4, with the one without rows", n)
	}
}

// A run of the current slot and a catch-up go on at the same time, each with a runner of its own.
func TestADaemonNeverTellsProgressConcurrently(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	w.record("job")
	w.due(w.slot(0), "job", 1)
	w.due(w.slot(-1), "job", 1)
	if err := w.ledger.Begin(t.Context(), w.slot(-1)); err != nil {
		t.Fatal(err)
	}
	var going, calls atomic.Int64
	together := make(chan struct{})
	w.start(func(c *Config) {
		c.Runner.Progress = func(slots.Progress) {
			if going.Add(1) > 1 {
				close(together)
			}
			select {
			case <-together:
			case <-time.After(200 * time.Millisecond):
			}
			going.Add(-1)
			calls.Add(1)
		}
	})
	eventually(t, "both slots to be told", func() bool { return calls.Load() == 2 })
	select {
	case <-together:
		t.Error("two calls at once")
	default:
	}
}

func TestADaemonCatchesUpOnStragglers(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	w.record("job")
	w.start()
	first := w.slot(1)
	eventually(t, "a slot to be done", func() bool {
		return w.count(`select count(*) from prescient.slot_run where slot = $1 and state = 'done'`, first) == 1
	})
	w.due(first, "job", 1)
	eventually(t, "the straggler to be recorded", func() bool { return w.ended() == 1 })
}

// In slots of a second, the longest pause of the loop is much shorter, so the test is short.
func TestAClockThatStepsForwardLosesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	seen := w.record("job")
	var ahead atomic.Int64
	start := time.Now()
	base := w.slot(0)
	d, _ := w.start(func(c *Config) {
		c.Runner.Now = func() time.Time { return base.Add(time.Since(start) + time.Duration(ahead.Load())) }
	})
	eventually(t, "the daemon to be at work", func() bool { h := d.health(); return h.Last != nil && !h.CatchingUp })
	for n := range 5 {
		w.due(w.grid.Add(base, 600*(n+1)), "job", 1)
	}
	ahead.Store(int64(2 * time.Hour))
	eventually(t, "every row to be checked", func() bool { return len(seen()) == 5 })
	eventually(t, "the daemon to be well again", func() bool { return len(d.health().Problems) == 0 })
}

func TestAClockThatStepsBackRunsNothingTwice(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	seen := w.record("job")
	var ahead atomic.Int64
	start := time.Now()
	base := w.slot(0)
	w.due(w.grid.Add(base, 1), "job", 10)
	w.start(func(c *Config) {
		c.Runner.Now = func() time.Time { return base.Add(time.Since(start) + time.Duration(ahead.Load())) }
	})
	eventually(t, "the rows to be recorded", func() bool { return w.ended() == 10 })
	ahead.Store(int64(-time.Hour))
	w.due(w.grid.Add(base, -3590), "job", 1)
	eventually(t, "a row of an hour ago to be recorded", func() bool { return w.ended() == 11 })
	for key, n := range keys(seen()) {
		if n != 1 {
			t.Errorf("%s was checked %d times", key, n)
		}
	}
}

func TestTwoDaemonsShareASlotAndCheckEveryRowOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	const rows = 200
	w.due(w.slot(0), "job", rows)
	var mu sync.Mutex
	checked := map[string]int{}
	var both sync.WaitGroup // every check waits until both daemons have begun one
	both.Add(2)
	for range 2 {
		atWork := sync.OnceFunc(both.Done)
		registry := jobs.NewRegistry()
		registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
			atWork()
			both.Wait()
			mu.Lock()
			defer mu.Unlock()
			checked[job.EntityKey]++
			return nil, nil
		}))
		w.start(func(c *Config) { c.Runner.Registry, c.Runner.Page, c.Runner.Workers = registry, 10, 4 })
	}
	eventually(t, "every row to be recorded", func() bool { return w.ended() == rows })
	mu.Lock()
	defer mu.Unlock()
	for key, n := range checked {
		if n != 1 {
			t.Errorf("order %s was checked %d times", key, n)
		}
	}
	if len(checked) != rows {
		t.Errorf("%d rows were checked, want %d", len(checked), rows)
	}
}

func TestALongRunDelaysNoSlotAndIsNotCaughtUpOn(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	seen := w.record("job")
	release := make(chan struct{})
	var late atomic.Int64
	w.registry.Register("long", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		<-release
		if job.CaughtUp {
			late.Add(1)
		}
		return nil, nil
	}))
	first := w.slot(2)
	w.due(first, "long", 40) // the run holds a few of them, and the others can be claimed
	w.due(w.grid.Add(first, 1), "job", 1)
	w.due(w.grid.Add(first, 3), "job", 1)
	d, _ := w.start(func(c *Config) { c.Runner.Page, c.Runner.Workers = 2, 2 })
	eventually(t, "later slots to be run", func() bool { return len(seen()) == 2 })
	if running := d.health().Running; len(running) == 0 || !running[0].Equal(first) {
		t.Errorf("running: %v, want %s", running, first)
	}
	close(release)
	eventually(t, "every row to be recorded", func() bool { return w.ended() == 42 })
	if late.Load() != 0 {
		t.Errorf("%d rows of the long run were taken for missed ones", late.Load())
	}
}

func TestASlotThatCannotStartIsAProblemUntilCatchUpRunsIt(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	release := make(chan struct{})
	w.registry.Register("long", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}))
	w.due(w.slot(1), "long", 1)
	d, _ := w.start(func(c *Config) { c.Slots = 1 })
	eventually(t, "a slot that cannot start", func() bool { return len(d.health().Problems) > 0 })
	close(release)
	eventually(t, "the daemon to be well again", func() bool {
		h := d.health()
		return len(h.Problems) == 0 && h.Missed == 0 && w.ended() == 1
	})
}

func TestADaemonFinishesTheSlotOfAnotherThatWasKilled(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	const rows = 20
	w.due(w.slot(0), "held", rows)
	victim := w.startProcess()
	eventually(t, "the first to hold the slot", func() bool { return w.count(`select count(*) from trace`) > 0 })
	heir := w.startProcess()
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	w.db.MustExec(`insert into released default values`)
	eventually(t, "every row to be recorded", func() bool { return w.ended() == rows })
	if n := w.count(`select count(*) from prescient.future_job_history where runner like '%:' || $1::int`, heir.Process.Pid); n != rows {
		t.Errorf("the other has recorded %d rows, want %d", n, rows)
	}
	if run, err := w.ledger.Show(t.Context(), w.slot(0)); err != nil || run.TakeOvers == 0 {
		t.Errorf("the ledger has no take-over: %+v, %v", run, err)
	}
	heir.Terminate(t, func() {})
}

func TestSIGTERMLetsARunningCheckFinishAndRecordsIt(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	w.due(w.slot(0), "held", 1)
	p := w.startProcess()
	eventually(t, "the check to be running", func() bool { return w.count(`select count(*) from trace`) == 1 })
	p.Terminate(t, func() { w.db.MustExec(`insert into released default values`) })
	if w.ended() != 1 {
		t.Errorf("the check was not recorded\n%s", &p.Log)
	}
}

func TestACheckThatOutlastsTheGraceAfterSIGTERMIsLeftToTheNextDaemon(t *testing.T) {
	t.Parallel()
	w := setupOn(t, day, pgtest.Direct(t)) // a client that dies like this one ends PgBouncer 1.18.0
	w.due(w.slot(0), "held", 1)
	p := w.startProcess()
	eventually(t, "the check to be running", func() bool { return w.count(`select count(*) from trace`) == 1 })
	p.Terminate(t, func() {})
	if n := w.count(`select count(*) from prescient.future_job where error_count = 0`); n != 1 {
		t.Errorf("the row no longer waits\n%s", &p.Log)
	}
	if n := w.count(`select count(*) from prescient.slot_claim where allocated_until > clock_timestamp()`); n != 0 {
		t.Errorf("%d claims were not handed back\n%s", n, &p.Log)
	}
	w.db.MustExec(`insert into released default values`)
	w.startProcess()
	eventually(t, "the row to be recorded", func() bool { return w.ended() == 1 })
}

func TestACheckThatIgnoresItsTimeoutEndsTheDaemonAsAFailure(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}), jobs.Timeout(10*time.Millisecond))
	w.due(w.slot(0), "stuck", 1)
	err := Run(t.Context(), w.config(func(c *Config) { c.Runner.Grace = 10 * time.Millisecond }))
	if !errors.Is(err, slots.ErrAbandoned) {
		t.Errorf("Run returned %v, want ErrAbandoned", err)
	}
}

func TestADatabaseThatIsStoppedAndStartedAgainCostsNoRow(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	db, err := pgsql.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pgsql.Migrate(t.Context(), db, pgsql.DefaultSchema), db.Close()); err != nil {
		t.Fatal(err)
	}
	w := setupOn(t, time.Second, server.URL())
	w.record("job")
	log := &lines{}
	d, end := w.start(func(c *Config) { c.Runner.Logger = log.logger() })
	eventually(t, "the daemon to be well", func() bool { h := d.health(); return h.Last != nil && len(h.Problems) == 0 })
	for n := range 10 {
		w.due(w.slot(1+n), "job", 1)
	}

	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.down != nil && d.failures > 2
	}
	eventually(t, "the daemon to notice", down)
	if problems := d.health().Problems; len(problems) == 0 {
		t.Error("no problem without a database")
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "every row to be recorded", func() bool { return w.ended() == 10 })
	eventually(t, "the daemon to be well again", func() bool { return len(d.health().Problems) == 0 })
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := log.count("the database cannot be used; trying again"); n != 1 {
		t.Errorf("that the database is gone was logged %d times, want once", n)
	}
	if n := log.count("the database can be used again"); n != 1 {
		t.Errorf("that the database is back was logged %d times, want once", n)
	}
}

// startServer starts a PostgreSQL that the test may stop.
func startServer(t *testing.T) *embedded.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "daemon")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	server, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "pg"), Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.Background()), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server
}

// Between two slots all sessions are idle.
func TestADaemonWhoseIdleSessionsTheServerEndsRunsEachSlotWithoutAnError(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "sessions between its nodes would end as well")
	w := setup(t, time.Second)
	w.record("job")
	var db *sqlx.DB
	eventually(t, "a session that is used before it ends", func() (ok bool) {
		var err error
		db, err = pgsql.Open(t.Context(), w.url, pgsql.Param("idle_session_timeout", "300ms"))
		return err == nil
	})
	t.Cleanup(func() { _ = db.Close() })
	var log lines
	_, end := w.start(func(c *Config) { c.Runner.DB, c.Runner.Logger = db, log.logger() })
	for n := range 4 {
		w.due(w.slot(1), "job", 1)
		eventually(t, "the row to be recorded", func() bool { return w.ended() == n+1 })
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if log.count("level=ERROR") > 0 {
		t.Error(log.String())
	}
}

func TestHistoryIsPrunedIfKeepIsSet(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	if err := w.ledger.Begin(t.Context(), w.slot(-100)); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(`
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'job', 'order', '1', now(), now(), 0, 0, '0', now(), 'me', 'done', now() - n * interval '80 days'
		from generate_series(0, 1) as n`)
	w.start(func(c *Config) { c.Keep = 40 * day })
	eventually(t, "the old row and the old slots to be dropped", func() bool {
		return w.ended() == 1 && w.count(`select count(*) from prescient.slot_run where slot < now() - interval '41 days'`) == 0 &&
			w.count(`select count(*) from prescient.setting where since > now() - interval '42 days'`) == 1
	})
}

// The database was made ready in a slot whose end passes before its run begins.
func TestASlotFromBeforeTheLedgerIsLeftToCatchUpWithoutAnError(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	first := w.slot(1)
	if err := w.ledger.Begin(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.record("job")
	w.due(w.slot(0), "job", 1)
	log := &lines{}
	var passed atomic.Bool
	w.start(func(c *Config) {
		c.Runner.Logger = log.logger()
		c.Runner.Now = func() time.Time {
			if passed.Load() {
				return first.Add(time.Second)
			}
			return first.Add(-time.Millisecond)
		}
		c.BeforeRun = func(context.Context, time.Time) { passed.Store(true) }
	})
	eventually(t, "the row to be checked", func() bool { return w.ended() == 1 })
	if log.count("level=ERROR") > 0 {
		t.Error(log.String())
	}
}

func TestASlotLeftOpenWithoutRowsIsClosedByTheNextCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	slot := w.slot(0)
	started, release := make(chan struct{}, 1), make(chan struct{})
	w.registry.Register("publish", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		started <- struct{}{}
		<-release
		return nil, errors.New("the broker does not answer")
	}))
	w.due(slot, "publish", 2)
	log := &lines{}
	_, end := w.start(func(c *Config) { c.Runner.Workers, c.Runner.Logger = 1, log.logger() })
	<-started
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	eventually(t, "the daemon to stop", func() bool { return log.count("daemon is stopping") == 1 })
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// One check has failed and waits for a later slot. The owner cancels the other.
	w.db.MustExec(`delete from prescient.future_job where next_check_at = '` + slot.Format(time.RFC3339) + `'`)
	if n := w.count(`select count(*) from prescient.slot_run where state = 'open'`); n != 1 {
		t.Fatalf("%d slots are open, want 1", n)
	}

	w.registry = jobs.NewRegistry()
	w.record("publish")
	start := time.Now()
	w.start(func(c *Config) {
		c.Runner.Now = func() time.Time { return w.grid.Next(slot).Add(time.Since(start)) }
	})
	eventually(t, "the slot to be closed", func() bool {
		return w.count(`select count(*) from prescient.slot_run where slot = $1 and state = 'done' and failed = 1`, slot) == 1
	})
}

func TestCatchUpLeavesASlotToTheRunThatHasItUntilThatRunStops(t *testing.T) {
	t.Parallel()
	for name, unregistered := range map[string]int{"with rows of its jobs alone": 0, "beside a row of an unregistered job": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesASlotToItsRun(t, unregistered)
		})
	}
}

func leavesASlotToItsRun(t *testing.T, unregistered int) {
	t.Helper()
	w := setup(t, time.Second)
	w.record("job")
	slot := w.slot(-2 * int(lookBack/time.Second)) // only a catch-up of the whole ledger finds it
	if err := w.ledger.Begin(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	w.due(slot, "job", 1)
	w.due(slot, "another team's", unregistered)
	held, started := jobs.NewRegistry(), make(chan struct{})
	held.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	cfg := w.config(func(c *Config) { c.Runner.Registry, c.Runner.Grace = held, -1 }).Runner
	elsewhere, err := slots.NewRunner(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan error, 1)
	go func() {
		_, err := elsewhere.Run(ctx, slot)
		stopped <- err
	}()
	<-started

	d, _ := w.start()
	eventually(t, "catch-up to have looked at the whole ledger", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.catchUp.thorough.IsZero()
	})
	if n := w.ended(); n != 0 {
		t.Errorf("%d rows were taken from a run that is at them", n)
	}
	stop()
	if err := <-stopped; !errors.Is(err, slots.ErrStopped) {
		t.Errorf("the run returned %v, want ErrStopped", err)
	}
	eventually(t, "the row to be recorded", func() bool { return w.ended() == 1 })
}

// lock locks the row of a job, as an application does. The function unlock lets it go.
func (w *world) lock(job string) (unlock func()) {
	w.t.Helper()
	tx, err := w.db.BeginTxx(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = tx.Rollback() })
	tx.MustExec(`select from prescient.future_job where job = prescient.find_job($1) for update`, job)
	return func() { _ = tx.Rollback() }
}

func TestCatchUpLooksAgainAtALockedRowBesideRowsOfAnUnregisteredJob(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	w.record("job")
	slot := w.slot(-2 * int(lookBack/time.Second)) // only a catch-up of the whole ledger finds it
	if err := w.ledger.Begin(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	w.due(slot, "job", 1)
	w.due(slot, "another team's", 1)
	unlock := w.lock("job")
	d, _ := w.start()
	eventually(t, "catch-up to have looked at the whole ledger", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.catchUp.thorough.IsZero()
	})
	unlock()
	eventually(t, "the row to be recorded", func() bool { return w.ended() == 1 })
}

// The first check takes long. What catch-up comes to look for later does not wait for it.
func TestALongCheckInACatchUpDelaysNoOtherCatchUp(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	w.record("job")
	called, end := make(chan struct{}), make(chan struct{})
	w.registry.Register("long", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		close(called)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}), jobs.Timeout(time.Minute))
	first := w.slot(-20)
	if err := w.ledger.Begin(t.Context(), w.slot(-30)); err != nil {
		t.Fatal(err)
	}
	w.due(first, "long", 1)
	d, _ := w.start()
	<-called
	for n := range 3 {
		w.due(w.slot(-10+n), "job", 1)
		eventually(t, "a row of another slot to be recorded", func() bool { return w.ended() == n+1 })
	}
	eventually(t, "a catch-up to leave the slot to the first one", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.catchUp.until.Equal(first) && !d.catchUp.thorough.IsZero()
	})
	close(end)
	eventually(t, "catch-up to go on after the slot", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return w.ended() == 4 && d.catchUp.until.After(first)
	})
}

// A catch-up waits some seconds for the limit of a job before another one begins.
func TestALimitedJobInACatchUpDelaysNoOtherCatchUp(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a limit for long")
	}
	t.Parallel()
	w := setup(t, time.Second)
	w.record("job")
	var calls, most atomic.Int64
	end := make(chan struct{})
	w.registry.Register("limited", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		most.Store(max(most.Load(), calls.Add(1)))
		defer calls.Add(-1)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}), jobs.Concurrency(1), jobs.Timeout(time.Minute))
	if err := w.ledger.Begin(t.Context(), w.slot(-30)); err != nil {
		t.Fatal(err)
	}
	const rows = 5000 // more than a claim takes
	w.due(w.slot(-20), "limited", rows)
	d, _ := w.start()
	eventually(t, "a third catch-up to begin beside the first", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.catchUp.begun > 2
	})
	w.due(w.slot(-10), "job", 1)
	eventually(t, "the row of another slot to be recorded", func() bool { return w.ended() == 1 })
	if n := most.Load(); n != 1 {
		t.Errorf("%d calls at once", n)
	}
	close(end)
	eventually(t, "all rows to be recorded", func() bool { return w.ended() == rows+1 })
}

func TestACheckThatIgnoresItsTimeoutInACatchUpEndsTheDaemonBesideALockedRow(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}), jobs.Timeout(10*time.Millisecond))
	w.record("job")
	if err := w.ledger.Begin(t.Context(), w.slot(-1)); err != nil {
		t.Fatal(err)
	}
	w.due(w.slot(-1), "stuck", 1)
	w.due(w.slot(-1), "job", 1)
	w.lock("job")
	err := Run(t.Context(), w.config(func(c *Config) { c.Runner.Grace = 10 * time.Millisecond }))
	if !errors.Is(err, slots.ErrAbandoned) {
		t.Errorf("Run returned %v, want ErrAbandoned", err)
	}
}

func TestADaemonLeavesRowsOfAJobThatItHasNotRegisteredToOneThatHas(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	w.record("job")
	w.due(w.slot(0), "job", 1)
	w.due(w.slot(0), "another team's", 3)
	w.due(w.slot(-1), "another team's", 3)
	if err := w.ledger.Begin(t.Context(), w.slot(-1)); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	d, _ := w.start(func(c *Config) { c.Runner.Logger = log.logger() })
	eventually(t, "the slot to be left open", func() bool {
		h := d.health()
		return w.ended() == 1 && h.Last != nil && h.Last.State == slots.StateOpen && !h.CatchingUp
	})
	const warning = "their jobs are not registered here"
	eventually(t, "a warning", func() bool { return log.count(warning) > 0 })

	registry := jobs.NewRegistry()
	registry.Register("another team's", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w.start(func(c *Config) { c.Runner.Registry = registry })
	eventually(t, "every row to be recorded", func() bool { return w.ended() == 7 })
	eventually(t, "both slots to be done", func() bool {
		return w.count(`select count(*) from prescient.slot_run where state = 'done' and failed = 0`) == 2
	})
	if n := log.count(warning); n != 1 {
		t.Errorf("the warning was logged %d times, want once\n%s", n, log)
	}
}

// An application may enqueue rows of any number of names, of other ones in each slot.
func TestADaemonRemembersAThousandJobsOfItsWarnings(t *testing.T) {
	t.Parallel()
	log := &lines{}
	d := &daemon{log: log.logger(), state: newState()}
	for slot := range 3 {
		result := slots.Result{State: slots.StateOpen}
		for n := range 700 {
			result.Unknown = append(result.Unknown, fmt.Sprintf("flood.%d.%d", slot, n))
		}
		d.warnNotRegistered(t.Context(), result)
		d.warnNotRegistered(t.Context(), result)
	}
	if n := log.count("their jobs are not registered here"); len(d.warned) != 1000 || n != 2 {
		t.Errorf("the daemon remembers %d jobs, and has warned %d times", len(d.warned), n)
	}
}

func TestAnInvalidConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t, day)
	for name, change := range map[string]func(*Config){
		"no database":    func(c *Config) { c.Runner.DB = nil },
		"no registry":    func(c *Config) { c.Runner.Registry = nil },
		"workers":        func(c *Config) { c.Runner.Workers = -1 },
		"lease":          func(c *Config) { c.Runner.Lease = 30 },
		"bound":          func(c *Config) { c.Runner.Shared.Runs = make(chan struct{}) },
		"slots":          func(c *Config) { c.Slots = -1 },
		"keep":           func(c *Config) { c.Keep = -time.Hour },
		"schema":         func(c *Config) { c.Runner.Schema = "No" },
		"listen nowhere": func(c *Config) { c.Listen = "256.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Run(t.Context(), w.config(change)); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestARowThatTheDatabaseRefusesIsCheckedOnceByTheRunAndOnceByCatchUp(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	w := setup(t, day)
	seen := w.record("job")
	w.due(w.slot(0), "job", 2)
	w.db.MustExec(`
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no row 1 here'; end $$;
		create trigger refuse before update or delete on prescient.future_job
		for each row when (old.entity_key = '1') execute function refuse()`)
	d, _ := w.start()
	const want = 2
	calls := func() int { return keys(seen())[fmt.Sprint(w.slot(0).Unix(), " 1")] }
	atRest := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.running) == 0 && d.catchUp.going == 0
	}
	eventually(t, "the run and the catch-up", func() bool { return calls() >= want && atRest() })
	for range 3 {
		if _, err := d.runOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a turn of the loop to end", atRest)
	}
	if n := calls(); n != want {
		t.Errorf("the function was called %d times for the row, want %d", n, want)
	}
	if n := w.ended(); n != 1 {
		t.Errorf("%d rows have ended, want the other one", n)
	}
	if problems := d.health().Problems; !strings.Contains(fmt.Sprint(problems), "the last run failed") {
		t.Errorf("problems while the row is refused: %q", problems)
	}

	// What catch-up has mended is no problem any more, though no slot has begun since.
	w.db.MustExec(`drop trigger refuse on prescient.future_job`)
	d.mu.Lock()
	d.catchUp.due = true
	d.mu.Unlock()
	if _, err := d.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the row to be recorded", func() bool { return w.ended() == 2 && atRest() })
	if problems := d.health().Problems; len(problems) > 0 {
		t.Errorf("problems after the row was recorded: %q", problems)
	}
}

// The row is tried and refused again and again, and the daemon does all else.
func TestARowThatTheDatabaseRefusesKeepsNoCatchUpFromItsEnd(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	w := setup(t, day)
	w.record("job")
	if err := w.ledger.Begin(t.Context(), w.slot(-3)); err != nil {
		t.Fatal(err)
	}
	refused := w.slot(-2)
	w.due(w.slot(-3), "job", 1)
	w.due(w.slot(-3), "another team's", 1) // no catch-up waits for this one
	w.due(refused, "job", 2)
	w.due(refused, "another team's", 1)
	w.due(w.slot(-1), "job", 1)
	w.db.MustExec(`
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no row 1 here'; end $$;
		create trigger refuse before update or delete on prescient.future_job
		for each row when (old.entity_key = '1') execute function refuse();
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		values (0, 'old', 'order', '1', now(), now(), 0, 0, '0', now(), 'me', 'failed', now() - interval '80 days')`)
	d, err := newDaemon(w.config(func(c *Config) { c.Keep = 40 * day }))
	if err != nil {
		t.Fatal(err)
	}
	d.catchUp.missed = 3 // as after an outage
	w.startDaemon(d)
	eventually(t, "the old month to be dropped", func() bool {
		return w.count(`select count(*) from prescient.future_job_history where job_exec = 'old'`) == 0
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := &d.catchUp; !errors.Is(c.err, slots.ErrRefused) || c.missed != 0 || c.thorough.IsZero() || !c.until.Equal(refused) {
		t.Errorf("catch-up ended with %v; %d slots are missed; the next one begins at %s, want %s; the whole ledger was read: %t", c.err, c.missed, c.until,
			refused, !c.thorough.IsZero())
	}
}
