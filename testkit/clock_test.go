package testkit_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// Otherwise a test that counts from now() enqueues in the year of the machine, and status says "73 years ago".
func TestSQLTellsTheTimeOfTheKit(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the kit makes no now() there")
	registry := jobs.NewRegistry()
	var seen time.Time
	registry.Register("order.late", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		return nil, tx.GetContext(ctx, &seen, "select now()")
	}))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	kit.DB.MustExec("create table orders (id bigint primary key, placed_at timestamptz not null default now())")
	begin := kit.Now()
	kit.Clock.Advance(time.Hour)

	kit.DB.MustExec("insert into orders (id) values (42)")
	var placed time.Time
	if err := kit.DB.Get(&placed, "select placed_at from public.orders where placed_at > now() - interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	kit.DB.MustExec("select prescient.enqueue('order.late', 'orders', '42', check_at => now() + interval '2 hours')")
	key := jobs.Key{JobExec: "order.late", EntityName: "orders", EntityKey: "42"}
	waiting := kit.RequireWaiting(key, begin.Add(3*time.Hour))
	kit.RunAll()
	ended := kit.RequireEnded(key, jobs.OutcomeDone)

	requested, due := begin.Add(time.Hour), begin.Add(3*time.Hour)
	if !placed.Equal(requested) || !seen.Equal(due) {
		t.Errorf("now(): got %s and %s, want %s and %s", placed, seen, requested, due)
	}
	for what, at := range map[string]struct{ got, want time.Time }{
		"the enqueue":            {waiting.EnqueuedAt, requested},
		"the end":                {ended.FinishedAt, due},
		"the enqueue in history": {ended.EnqueuedAt, requested},
	} {
		// The instants that rows have go on with the time of the server.
		if late := at.got.Sub(at.want); late < 0 || late > 5*time.Minute {
			t.Errorf("%s: got %s, want %s", what, at.got, at.want)
		}
	}
}

// The record of a check resets all settings of its session, and the next check of the job may follow it there.
func TestEachCheckHasTheClockOfTheKit(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the kit makes no now() there")
	registry := jobs.NewRegistry()
	registry.Register("order.late", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, "select prescient.enqueue('order.remind', 'orders', $1, check_at => now())", job.EntityKey)
		return nil, err
	}), jobs.Concurrency(1))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	keys := []string{"41", "42", "43"}
	for _, key := range keys {
		kit.Enqueue(jobs.Request{JobExec: "order.late", EntityName: "orders", EntityKey: key}, kit.Now())
	}
	slot := kit.Waiting()[0].NextCheckAt
	kit.Run(slot)
	for _, key := range keys {
		kit.RequireWaiting(jobs.Key{JobExec: "order.remind", EntityName: "orders", EntityKey: key}, slot.Add(15*time.Minute))
	}
}

// Only a runner may set a clock.
func TestAStepWithARoleEnqueuesInAKit(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the kit makes no now() there")
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	role := "kit_clerk_" + strings.ToLower(rand.Text())
	kit.DB.MustExec("create role " + role)
	pgtest.DropRoles(t, kit.DB, role)
	kit.DB.MustExec("create table cases (id bigint primary key, opened_at timestamptz, closed_at timestamptz); " +
		"grant select on cases to " + role + "; " +
		"grant usage on schema prescient to " + role + "; grant execute on all functions in schema prescient to " + role)
	kit.Rules(rulesFile(t, `rules:
  - name: case.open
    table: public.cases
    key: id
    since: opened_at
    done: closed_at
    role: `+role+`
    steps:
      - {after: 4d, name: remind, sql: "select prescient.enqueue('case.remind', 'cases', $key, check_at => $now::timestamptz + interval '1 day')"}
      - {after: 7d, event: case.lost}
`))
	kit.DB.MustExec("insert into cases select id, $1 from generate_series(1, 3) as id", kit.Now())
	begin := kit.Now()
	kit.RunFor(4 * day)
	for _, key := range []string{"1", "2", "3"} {
		kit.RequireWaiting(jobs.Key{JobExec: "case.remind", EntityName: "cases", EntityKey: key}, begin.Add(5*day))
		kit.RequireWaiting(jobs.Key{JobExec: "case.open", EntityName: "cases", EntityKey: key}, begin.Add(7*day))
	}
}
