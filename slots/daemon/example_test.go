package daemon_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What the example below is given by its application. TestTheExampleRuns gives it to it.
var (
	ctx      = context.Background()
	db       *sqlx.DB // of pgsql.Open
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

func TestTheExampleRuns(t *testing.T) {
	db = pgtest.New(t)
	var stop context.CancelFunc
	ctx, stop = context.WithCancel(t.Context())
	exampletest.Run(t, map[string]func(){"run": func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			ExampleRun()
		}()
		await.True(t, "a run of a slot", func() (ran bool) {
			return db.Get(&ran, `select exists (select from prescient.slot_run where state = 'done')`) == nil && ran
		})
		stop()
		<-ended
	}})
}
