package slots_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What the examples below are given by their application. TestTheExamplesRun gives it to them.
var (
	ctx      = context.Background()
	db       *sqlx.DB // of pgsql.Open
	registry = jobs.NewRegistry()
)

// An application runs the slot that has begun, and what was missed before it, as "run --catch-up" does. Package
// daemon does so at each slot.
func ExampleRunner_Run() {
	runner, err := slots.NewRunner(ctx, slots.Config{DB: db, Registry: registry})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	result, err := runner.Run(ctx, runner.Due(""))
	if err != nil {
		slog.Error("run the slot", "error", err)
		return
	}
	slog.Info("the slot was run", "result", result)
	if len(result.Unknown) > 0 {
		slog.Warn("rows wait for a binary that has their jobs", "jobs", result.Unknown)
	}
	caught, err := runner.CatchUp(ctx, slots.CatchUp{})
	slog.Info("what was missed was run", "caught", caught, "error", err)
}

// After a long outage, the rows are spread over the next eight slots.
func ExampleRunner_CatchUp() {
	runner, err := slots.NewRunner(ctx, slots.Config{DB: db, Registry: registry})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	caught, err := runner.CatchUp(ctx, slots.CatchUp{Mode: slots.ModeDefer, Spread: 8})
	slog.Info("the missed rows wait again", "caught", caught, "error", err)
}

// A health check of an application.
func Example_status() {
	l, err := ledger.New(ctx, db, "", nil)
	if err != nil {
		slog.Error("read the grid", "error", err)
		return
	}
	status, err := l.Status(ctx, l.Now().Add(-24*time.Hour))
	if err != nil {
		slog.Error("read the ledger", "error", err)
		return
	}
	for _, trouble := range status.Trouble {
		slog.Warn("a slot needs a catch-up", "slot", trouble.Slot, "state", trouble.State, "rows", trouble.Waiting)
	}
}

func TestTheExamplesRun(t *testing.T) {
	db = pgtest.New(t)
	exampletest.Run(t, map[string]func(){
		"run": ExampleRunner_Run, "catch up": ExampleRunner_CatchUp, "status": Example_status,
	})
}
