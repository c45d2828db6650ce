package slots_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Runners as processes of their own, which can be killed and stopped: the test binary itself, told by this variable
// which database to work on.
const runnerProcess = "PRESCIENT_TEST_RUNNER_DATABASE"

func TestMain(m *testing.M) {
	if url := os.Getenv(runnerProcess); url != "" {
		os.Exit(runProcess(url))
	}
	os.Exit(pgtest.Main(m))
}

// runProcess runs slot 1 with two jobs that leave traces in table trace, and prints its result.
func runProcess(url string) int {
	ctx := context.Background()
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		slog.Error("open", "error", err)
		return 1
	}
	registry := jobs.NewRegistry()
	registry.Register("plain", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		time.Sleep(5 * time.Millisecond)
		return nil, leaveTrace(ctx, db, job)
	}))
	registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if _, err := tx.ExecContext(ctx, `insert into effect values ($1)`, job.EntityKey); err != nil {
			return nil, err
		}
		time.Sleep(time.Millisecond)
		return nil, nil
	}))
	registry.Register("held", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		err := leaveTrace(ctx, db, job)
		for released := false; !released && err == nil; time.Sleep(5 * time.Millisecond) {
			// Deaf to its context: what it returns in the end comes late.
			err = db.GetContext(context.WithoutCancel(ctx), &released, `select count(*) > 0 from released`)
		}
		return nil, err
	}))
	r, err := slots.NewRunner(ctx, slots.Config{
		DB: db, Registry: registry, Lease: time.Second, Page: 50, Workers: 16, Grace: 5 * time.Second,
		Now: func() time.Time { return slot(1) },
	})
	if err != nil {
		slog.Error("new runner", "error", err)
		return 1
	}
	result, err := r.Run(ctx, slot(1))
	if err != nil {
		slog.Error("run", "error", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

func leaveTrace(ctx context.Context, db *sqlx.DB, job jobs.FutureJob) error {
	return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, `insert into trace values ($1, $2)`, job.EntityKey, os.Getpid())
		return err
	})
}

func (w *world) start() *pgtest.Process {
	w.t.Helper()
	return pgtest.StartProcess(w.t, runnerProcess+"="+w.url)
}

// finish waits for the process and returns its result.
func (w *world) finish(p *pgtest.Process) slots.Result {
	w.t.Helper()
	var result slots.Result
	if err := p.Wait(); err != nil {
		w.t.Fatalf("%v\n%s", err, &p.Log)
	}
	if err := json.Unmarshal(p.Out.Bytes(), &result); err != nil {
		w.t.Fatalf("%v in %q\n%s", err, &p.Out, &p.Log)
	}
	return result
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	err := pgsql.ReadTx(context.WithoutCancel(w.t.Context()), w.db, func(tx *sqlx.Tx) error { return tx.Get(&n, query, args...) })
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func setupProcesses(t *testing.T) *world {
	t.Helper()
	return setupProcessesAt(t, pgtest.URL(t))
}

func setupProcessesAt(t *testing.T, url string) *world {
	t.Helper()
	w := setupAt(t, url)
	w.db.MustExec(`create table trace (key text, pid int); create table effect (key text); create table released ()`)
	return w
}

func TestOfEightProcessesOneIsKilledInMidSlotAndNothingIsLostOrRecordedTwice(t *testing.T) {
	t.Parallel()
	w := setupProcesses(t)
	const rows = 400
	w.enqueue("plain", slot(1), rows)
	w.enqueue("tx", slot(1), rows)
	var processes []*pgtest.Process
	for range 8 {
		processes = append(processes, w.start())
	}
	victim := w.killOneInMidSlot(processes)
	var recorded int64
	for _, p := range processes {
		if p != victim {
			recorded += w.finish(p).Checked
		}
	}

	run, err := w.ledger.Show(t.Context(), slot(1))
	if err != nil || run.State != slots.StateDone || run.Finished != 2*rows || run.Checked != 2*rows {
		t.Errorf("the ledger: %+v, %v", run, err)
	}
	if run.TakeOvers == 0 {
		t.Error("nobody took over from the killed process")
	}
	if recorded > 2*rows {
		t.Errorf("%d rows recorded, though there are %d", recorded, 2*rows)
	}
	if n := w.count(`select count(*) from prescient.future_job`); n != 0 {
		t.Errorf("%d rows still wait", n)
	}
	for _, job := range []string{"plain", "tx"} {
		const ended = `select count(%s) from prescient.future_job_history where job_exec = $1 and outcome = 'done'`
		if n := w.count(fmt.Sprintf(ended, "*"), job); n != rows {
			t.Errorf("%s: %d rows in history, want %d", job, n, rows)
		}
		if n := w.count(fmt.Sprintf(ended, "distinct entity_key"), job); n != rows {
			t.Errorf("%s: %d keys in history, want %d", job, n, rows)
		}
	}
	if n, keys := w.count(`select count(*) from effect`), w.count(`select count(distinct key) from effect`); n != rows || keys != rows {
		t.Errorf("%d effects on %d keys of checks with a transaction, want each of %d exactly once", n, keys, rows)
	}
	if n := w.count(`select count(distinct key) from trace`); n != rows {
		t.Errorf("%d keys were checked without a transaction, want %d", n, rows)
	}
}

// killOneInMidSlot kills a process that has checked rows and holds a claim. To be sure of that it stops it first.
func (w *world) killOneInMidSlot(processes []*pgtest.Process) (victim *pgtest.Process) {
	w.t.Helper()
	w.eventually("a process to be in mid-slot", func() bool {
		for _, p := range processes {
			pid := p.Process.Pid
			if w.count(`select count(*) from trace where pid = $1`, pid) == 0 {
				continue
			}
			if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
				continue
			}
			if w.count(`select count(*) from prescient.slot_claim where jobs <> '{}' and runner like '%:' || $1::int`, pid) > 0 {
				victim = p
				return true
			}
			_ = p.Process.Signal(syscall.SIGCONT)
		}
		return false
	})
	if err := victim.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = victim.Wait()
	return victim
}

// Through no pooler: PgBouncer 1.18 ends itself now and then when the session of a client is ended that does not read.
func TestAProcessStoppedPastItsLeaseChangesNothingWhenItGoesOn(t *testing.T) {
	t.Parallel()
	w := setupProcessesAt(t, pgtest.Direct(t))
	const rows = 16
	w.enqueue("held", slot(1), rows)
	p := w.start()
	w.eventually("every check to be running", func() bool { return w.count(`select count(*) from trace`) == rows })
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	// Another runner takes over when the lease has ended, and moves every row.
	w.registry.Register("held", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return new(slot(2)), nil }))
	var result slots.Result
	w.eventually("the lease to end", func() bool {
		result = w.run(slot(1))
		return result.TakenOver > 0
	})
	if result.Rescheduled != rows || result.State != slots.StateDone {
		t.Fatalf("the runner that took over: %+v", result)
	}

	w.db.MustExec(`insert into released default values`)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	late := w.finish(p)
	if late.Checked != 0 || late.Lost == 0 {
		t.Errorf("the stopped runner: %+v", late)
	}
	if n := w.count(`select count(*) from prescient.future_job where next_check_at = $1 and check_count = 1`, slot(2)); n != rows {
		t.Errorf("%d rows are as the second runner left them, want %d", n, rows)
	}
	if n := len(w.outcomes()); n != 0 {
		t.Errorf("history: %v", w.outcomes())
	}
}
