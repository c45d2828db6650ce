package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// daemonProcess names the variable that makes the test binary a daemon on a database.
const daemonProcess = "PRESCIENT_TEST_DAEMON_DATABASE"

func TestMain(m *testing.M) {
	if url := os.Getenv(daemonProcess); url != "" {
		os.Exit(runProcess(url))
	}
	os.Exit(pgtest.Main(m))
}

// runProcess runs a daemon until SIGTERM. Its job leaves a row in table trace and then waits for
// table released.
func runProcess(url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		slog.Error("open", "error", err)
		return 1
	}
	registry := jobs.NewRegistry()
	registry.Register("held", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		err := leaveTrace(context.WithoutCancel(ctx), db, job)
		for released := false; !released && err == nil && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			err = db.GetContext(ctx, &released, `select count(*) > 0 from released`)
		}
		return nil, errors.Join(err, ctx.Err())
	}))
	err = Run(ctx, Config{Runner: slots.Config{DB: db, Registry: registry, Lease: time.Second, Grace: 2 * time.Second, Workers: 8}})
	if err != nil {
		slog.Error("daemon", "error", err)
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

// world is a database of its own, with slots of a given width, and jobs.
type world struct {
	t        testing.TB
	url      string
	db       *sqlx.DB
	grid     grid.Grid
	registry *jobs.Registry
	ledger   *ledger.Ledger
}

const day = 24 * time.Hour

// setup returns a database. Its slots are so wide that none begins during the test, or one second
// wide, so that each begins soon.
func setup(t testing.TB, width time.Duration) *world {
	t.Helper()
	return setupOn(t, width, pgtest.URL(t))
}

func setupOn(t testing.TB, width time.Duration, url string) *world {
	t.Helper()
	w := &world{t: t, url: url, registry: jobs.NewRegistry()}
	var err error
	if w.db, err = pgsql.Open(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	if w.ledger, err = ledger.New(t.Context(), w.db, "", nil); err != nil {
		t.Fatal(err)
	}
	if w.grid, err = grid.New(width); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ledger.SetWidth(t.Context(), w.grid); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(`create table trace (key text, pid int); create table released ()`)
	return w
}

// slot returns the n-th slot from the newest one that has begun.
func (w *world) slot(n int) time.Time {
	w.t.Helper()
	var now time.Time
	if err := w.db.Get(&now, `select clock_timestamp()`); err != nil {
		w.t.Fatal(err)
	}
	return w.grid.Add(w.grid.Floor(now), n)
}

// due puts checks of orders 0, 1 ... into a slot, which may lie in the past.
func (w *world) due(slot time.Time, job string, n int) {
	w.t.Helper()
	err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		var number int64
		if err := tx.Get(&number, `select prescient.ensure_job($1)`, job); err != nil {
			return err
		}
		_, err := tx.Exec(`
			insert into prescient.future_job (job, entity_name, entity_key, item_key, first_check_at, next_check_at)
			select $1, 'order', n::text, $2::timestamptz::text, $2, $2 from generate_series(0, $3 - 1) as n`, number, slot, n)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// record registers a job that is done at once, and returns a function that lists the checks so far.
func (w *world) record(job string) func() []jobs.FutureJob {
	var mu sync.Mutex
	var seen []jobs.FutureJob
	w.registry.Register(job, jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, job)
		return nil, nil
	}))
	return func() []jobs.FutureJob {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func (w *world) config(change ...func(*Config)) Config {
	cfg := Config{Runner: slots.Config{
		DB: w.db, Registry: w.registry, Lease: 10 * time.Second, Grace: time.Second, Logger: slog.New(slog.DiscardHandler),
	}, MayRead: func(*http.Request) bool { return true }}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// start runs a daemon beside the test. end stops it and returns its error; the end of the test
// calls it, too.
func (w *world) start(change ...func(*Config)) (d *daemon, end func() error) {
	w.t.Helper()
	d, err := newDaemon(w.config(change...))
	if err != nil {
		w.t.Fatal(err)
	}
	return d, w.startDaemon(d)
}

func (w *world) startDaemon(d *daemon) (end func() error) {
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	end = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	w.t.Cleanup(func() { _ = end() })
	return end
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	err := pgsql.ReadTx(context.WithoutCancel(w.t.Context()), w.db, func(tx *sqlx.Tx) error { return tx.Get(&n, query, args...) })
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// ended counts the rows in history that are done.
func (w *world) ended() int {
	return w.count(`select count(*) from prescient.future_job_history where outcome = 'done'`)
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, shown func() bool) {
	t.Helper()
	await.True(t, what, shown)
}

func (w *world) startProcess() *pgtest.Process {
	w.t.Helper()
	return pgtest.StartProcess(w.t, daemonProcess+"="+w.url)
}

// keys counts jobs by slot and entity, for comparisons.
func keys(list []jobs.FutureJob) map[string]int {
	m := map[string]int{}
	for _, j := range list {
		m[fmt.Sprint(j.Slot.Unix(), " ", j.EntityKey)]++
	}
	return m
}
