package delayq

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// consumerProcess names the variable that makes the test binary a consumer of a database.
const consumerProcess = "PRESCIENT_TEST_CONSUMER_DATABASE"

func TestMain(m *testing.M) {
	if url := os.Getenv(consumerProcess); url != "" {
		os.Exit(consume(url))
	}
	os.Exit(pgtest.Main(m))
}

// consume handles items until SIGTERM. Each leaves a row, and then waits for table released.
func consume(url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		slog.Error("open", "error", err)
		return 1
	}
	cfg := config()
	cfg.Workers = 4
	q, err := Open(ctx, db, cfg)
	if err != nil {
		slog.Error("open", "error", err)
		return 1
	}
	err = q.RunContext(ctx, func(ctx context.Context, item Item) error {
		err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(ctx, `insert into trace values ($1, $2)`, string(item.Data), os.Getpid())
			return err
		})
		for released := false; !released && err == nil; time.Sleep(5 * time.Millisecond) {
			err = db.GetContext(ctx, &released, `select count(*) > 0 from released`)
		}
		return err
	})
	if err != nil {
		slog.Error("run", "error", err)
		return 1
	}
	return 0
}

// config returns the configuration of every test: slots of a second, so that they pass quickly.
func config() Config {
	return Config{Schema: "mail", Width: time.Second, Grace: 5 * time.Second, Lease: time.Second, Logger: slog.New(slog.DiscardHandler)}
}

// world is a queue in a database of its own.
type world struct {
	t     testing.TB
	url   string
	db    *sqlx.DB
	queue *Queue
}

func setup(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, url: pgtest.Empty(t)}
	var err error
	if w.db, err = pgsql.Open(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	cfg := config()
	for _, c := range change {
		c(&cfg)
	}
	if w.queue, err = Open(t.Context(), w.db, cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) now() time.Time {
	w.t.Helper()
	var now time.Time
	if err := w.db.Get(&now, `select clock_timestamp()`); err != nil {
		w.t.Fatal(err)
	}
	return now.UTC()
}

func (w *world) delay(readyAt time.Time, data string) {
	w.t.Helper()
	if err := w.queue.DelayContext(w.t.Context(), jobs.OwnTx(w.db), readyAt, []byte(data)); err != nil {
		w.t.Fatal(err)
	}
}

// run handles items beside the test. end stops it and returns its error; the end of the test calls
// it, too.
func (w *world) run(handle func(ctx context.Context, item Item) error) (end func() error) {
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.queue.RunContext(ctx, handle) }()
	end = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	w.t.Cleanup(func() { _ = end() })
	return end
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Get(&n, query, args...); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// ended counts the items that have ended with an outcome.
func (w *world) ended(outcome string) int {
	return w.count(`select count(*) from mail.future_job_history where outcome = $1`, outcome)
}

func eventually(t testing.TB, what string, shown func() bool) {
	t.Helper()
	await.True(t, what, shown)
}

func (w *world) start() *pgtest.Process {
	w.t.Helper()
	return pgtest.StartProcess(w.t, consumerProcess+"="+w.url)
}
