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

// The application provides these.
var (
	ctx        = context.Background()
	db         *sqlx.DB
	tx         *sql.Tx
	queue      *delayq.Queue
	placedAt   time.Time
	remind     func(placedAt time.Time, order string) error
	remindOnce func(ctx context.Context, id, order string) error
)

// DelayQ declares, in the program's own terms, what it needs of a delay queue.
type DelayQ interface {
	Delay(ready time.Time, data []byte) error
	Run(handle func(t time.Time, data []byte) error) error
}

var _ DelayQ = (*delayq.Queue)(nil)

func ExampleOpen() {
	queue, err := delayq.Open(ctx, db, delayq.Config{Schema: "mail", Width: time.Second})
	if err != nil {
		slog.Error("open the queue", "error", err)
		return
	}
	defer queue.Close()
	var _ DelayQ = queue // Delay puts items in, Run takes them out
}

// Ask for a reminder a day after an order was placed.
func ExampleQueue_Delay() {
	if err := queue.Delay(placedAt.Add(24*time.Hour), []byte("order 42")); err != nil {
		slog.Error("ask for the reminder", "error", err)
	}
}

// Handle items until Close, in as many processes as there are.
func ExampleQueue_Run() {
	err := queue.Run(func(t time.Time, data []byte) error {
		return remind(t.Add(-24*time.Hour), string(data)) // an error is retried
	})
	if err != nil {
		slog.Error("run the queue", "error", err)
	}
}

// In the transaction that places the order.
func ExampleQueue_DelayContext() {
	if err := queue.DelayContext(ctx, tx, placedAt.Add(24*time.Hour), []byte("order 42")); err != nil {
		slog.Error("ask for the reminder", "error", err)
	}
}

// Handle items until SIGTERM; the ID of one is the same each time.
func ExampleQueue_RunContext() {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	err := queue.RunContext(ctx, func(ctx context.Context, item delayq.Item) error {
		return remindOnce(ctx, item.ID, string(item.Data))
	})
	if err != nil {
		slog.Error("run the queue", "error", err)
	}
}
