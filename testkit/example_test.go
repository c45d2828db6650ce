package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/testkit"
)

// t stands for the parameter of a test function.
var t *testing.T

// An order that is not shipped after two days is alerted, once a day until it is.
func ExampleNew() {
	unshipped := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		var shipped bool
		err := tx.GetContext(ctx, &shipped, `select shipped_at is not null from orders where id = $1::bigint`, job.EntityKey)
		if err != nil || shipped {
			return nil, err
		}
		_, err = tx.ExecContext(ctx, `insert into alert (order_id) values ($1::bigint)`, job.EntityKey)
		return new(job.Slot.Add(24 * time.Hour)), err
	}
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.InTx(unshipped))

	kit := testkit.New(t, testkit.Config{Registry: registry})
	kit.DB.MustExec(`create table orders (id bigint primary key, shipped_at timestamptz)`)
	kit.DB.MustExec(`create table alert (order_id bigint)`)
	kit.DB.MustExec(`insert into orders (id) values (42)`)

	placed := kit.Now()
	check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
	kit.Enqueue(check, placed.Add(48*time.Hour)) // or the application's own code, with kit.Client
	kit.RunFor(48 * time.Hour)
	kit.RequireWaiting(check.Key(), placed.Add(72*time.Hour))

	kit.DB.MustExec(`update orders set shipped_at = $1`, kit.Now())
	kit.RunAll()
	kit.RequireEnded(check.Key(), jobs.OutcomeDone)
}

// The second check of an order escalates and ends the row. It needs no database.
func ExampleCheck() {
	registry := jobs.NewRegistry()
	registry.Register("order.late", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		if job.CheckCount > 0 {
			return nil, nil
		}
		return new(job.Slot.Add(24 * time.Hour)), nil
	}))

	if got := testkit.Check(t, registry, jobs.FutureJob{JobExec: "order.late", CheckCount: 1}); got.Outcome != jobs.OutcomeDone {
		t.Errorf("the second check ends as %q", got.Outcome)
	}
}

// An Example has no testing.T, so this test runs them.
func TestTheExamplesHoldWhatTheySay(test *testing.T) {
	t = test
	ExampleNew()
	ExampleCheck()
}
