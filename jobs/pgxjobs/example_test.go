package pgxjobs_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
)

// What the examples below are given by their application. TestTheExamplesRun gives it to them.
var (
	ctx  = context.Background()
	pool *pgxpool.Pool
)

// The order and its check are written in one transaction of pgx: both, or neither.
func ExampleTx() {
	client, err := jobs.NewClient(ctx, pgxjobs.Open(pool), jobs.Config{})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into orders (number) values ('42')`); err != nil {
			return err
		}
		check := jobs.Request{
			JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42", CheckAt: client.FromNow(48 * time.Hour),
		}
		_, err := client.Enqueue(ctx, pgxjobs.Tx(tx), check)
		return err
	})
	if err != nil {
		slog.Error("place the order", "error", err)
	}
}

// The run records the outcome in the transaction of pgx that the function writes through.
func ExampleInTx() {
	unshipped := func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
		const alert = `insert into alert (number) select number from orders where number = $1 and shipped_at is null`
		_, err := tx.Exec(ctx, alert, job.EntityKey)
		return nil, err
	}
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.InTx(pgxjobs.InTx(unshipped)), jobs.WithPool(pgxjobs.Open(pool)))
}

func TestTheExamplesRun(t *testing.T) {
	w := setup(t)
	w.db.MustExec(`create table orders (number text primary key, shipped_at timestamptz)`)
	pool = w.pool
	exampletest.Run(t, map[string]func(){"tx": ExampleTx, "in tx": ExampleInTx})
}
