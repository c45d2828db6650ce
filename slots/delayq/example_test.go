package delayq_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots/delayq"
)

// What the examples below are given by their application.
var (
	ctx      = context.Background()
	db       *sqlx.DB
	tx       *sql.Tx
	queue    *delayq.Queue
	placedAt time.Time
	remind   func(ctx context.Context, id, order string) error
)

func ExampleOpen() {
	queue, err := delayq.Open(ctx, db, delayq.Config{Schema: "mail", Width: time.Second})
	if err != nil {
		slog.Error("open the queue", "error", err)
		return
	}
	_ = queue // Delay puts items in, Run takes them out
}

// In the transaction that places the order, ask for a reminder a day later.
func ExampleQueue_Delay() {
	if err := queue.Delay(ctx, tx, placedAt.Add(24*time.Hour), []byte("order 42")); err != nil {
		slog.Error("ask for the reminder", "error", err)
	}
}

// Handle items until SIGTERM, in as many processes as there are.
func ExampleQueue_Run() {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	err := queue.Run(ctx, func(ctx context.Context, item delayq.Item) error {
		return remind(ctx, item.ID, string(item.Data)) // an error is tried again
	})
	if err != nil {
		slog.Error("run the queue", "error", err)
	}
}
