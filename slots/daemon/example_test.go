package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What the examples below are given by their application. TestTheExamplesRun gives it to them.
var (
	ctx      = context.Background()
	db       *sqlx.DB // of pgsql.Open
	pool     *pgxpool.Pool
	registry = jobs.NewRegistry()
	address  = "localhost:0"
)

// An application runs its slots itself, until SIGTERM.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := daemon.Run(ctx, daemon.Config{
		Runner: slots.Config{DB: db, Registry: registry},
		Listen: address, // such as localhost:8088: /healthz, /readyz and /livez
	})
	if err != nil {
		slog.Error("run the slots", "error", err)
	}
}

// A server that uses pgx gives the runner a pool of pgx. The pool needs as many connections as Config.Pool says, and
// those of the server.
func ExampleRun_pgx() {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := daemon.Run(ctx, daemon.Config{Runner: slots.Config{DB: pgxjobs.Open(pool), Registry: registry}})
	if err != nil {
		slog.Error("run the slots", "error", err)
	}
}

func TestTheExamplesRun(t *testing.T) {
	for name, example := range map[string]func(){"run": ExampleRun, "run with pgx": ExampleRun_pgx} {
		url := pgtest.URL(t)
		var err, poolErr error
		db, err = pgsql.Open(t.Context(), url)
		pool, poolErr = pgxpool.New(t.Context(), url)
		if err := errors.Join(err, poolErr); err != nil {
			t.Fatal(err)
		}
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(t.Context())
		exampletest.Run(t, map[string]func(){name: func() {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				example()
			}()
			await.True(t, "a run of a slot", func() (ran bool) {
				return db.Get(&ran, `select exists (select from prescient.slot_run where state = 'done')`) == nil && ran
			})
			stop()
			<-ended
		}})
		pool.Close()
		_ = db.Close()
	}
}
