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

// An order that is not shipped after two days is alerted, once a day until it is, at most 30 times.
func ExampleNew() {
	unshipped := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		var late bool // false for an order that was deleted
		const ask = `select exists (select from orders where id = $1::bigint and shipped_at is null)`
		if err := tx.GetContext(ctx, &late, ask, job.EntityKey); err != nil || !late {
			return nil, err
		}
		_, err := tx.ExecContext(ctx, `insert into alert (order_id) values ($1::bigint)`, job.EntityKey)
		return job.After(24 * time.Hour), err
	}
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.InTx(unshipped), jobs.MaxChecks(30))

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
		return job.After(24 * time.Hour), nil
	}))

	if got := testkit.Check(t, registry, jobs.FutureJob{JobExec: "order.late", CheckCount: 1}); got.Outcome != jobs.OutcomeDone {
		t.Errorf("the second check ends as %q", got.Outcome)
	}
}

// The test rolls back what the check writes through its transaction.
func ExampleCheckTx() {
	registry := jobs.NewRegistry()
	registry.Register("order.late", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, `insert into alert (order_id) values ($1::bigint)`, job.EntityKey)
		return nil, err
	}))
	kit := testkit.New(t, testkit.Config{})
	kit.DB.MustExec(`create table alert (order_id bigint)`)

	tx := kit.DB.MustBegin()
	defer func() { _ = tx.Rollback() }()
	got := testkit.CheckTx(t, registry, tx, jobs.FutureJob{JobExec: "order.late", EntityName: "orders", EntityKey: "42"})
	if got.Err != nil || got.Outcome != jobs.OutcomeDone {
		t.Errorf("%+v", got)
	}
	var alerts int
	if err := tx.Get(&alerts, `select count(*) from alert`); err != nil || alerts != 1 {
		t.Errorf("%d alerts, %v", alerts, err)
	}
}

// One call gets both rows. The second order asks for another check.
func ExampleCheckBatch() {
	registry := jobs.NewRegistry()
	registry.Register("order.late", jobs.Batch(func(_ context.Context, due []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(due))
		for i, job := range due {
			if job.CheckCount == 0 {
				results[i].Next = job.After(24 * time.Hour)
			}
		}
		return results, nil
	}))
	got := testkit.CheckBatch(t, registry, nil, []jobs.FutureJob{
		{JobExec: "order.late", EntityKey: "41", CheckCount: 1}, {JobExec: "order.late", EntityKey: "42"},
	})
	if got[0].Outcome != jobs.OutcomeDone || !got[1].Slot.Equal(testkit.Start().Add(24*time.Hour)) {
		t.Errorf("%+v", got)
	}
}

// A rule is tested on a table of the test. Its triggers and its checks use the clock of the kit.
func ExampleKit_Rules() {
	kit := testkit.New(t, testkit.Config{})
	kit.DB.MustExec(`create table orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)`)
	kit.Rules("testdata/orders.yaml") // after 48 hours the event order.late, unless shipped_at is set

	kit.DB.MustExec(`insert into orders values (41, $1), (42, $1)`, kit.Now())
	kit.RunFor(24 * time.Hour)
	kit.DB.MustExec(`update orders set shipped_at = $1 where id = 41`, kit.Now())
	kit.RunAll()
	if events := kit.Events(); len(events) != 1 || events[0].Type != "order.late" || events[0].Subject != "orders/42" {
		t.Errorf("%+v", events)
	}
}

// Nothing runs for five hours. Then the check runs late, and its next one counts from its slot.
func ExampleKit_RunDue() {
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return job.After(24 * time.Hour), nil
	}))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	check := jobs.Request{JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42"}
	due := kit.Now().Add(48 * time.Hour)
	kit.Enqueue(check, due)

	kit.Clock.Set(due.Add(5 * time.Hour))
	kit.RunDue()
	kit.RequireWaiting(check.Key(), due.Add(24*time.Hour))
}

// An Example has no testing.T, so this test runs them.
func TestTheExamplesHoldWhatTheySay(test *testing.T) {
	t = test
	ExampleNew()
	ExampleCheck()
	ExampleCheckTx()
	ExampleCheckBatch()
	ExampleKit_Rules()
	ExampleKit_RunDue()
}
