package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/testkit"
)

// placed is when the order of each test is placed: off the grid, so that alerts are due a little
// later.
var placed = time.Date(2026, time.March, 1, 13, 5, 0, 0, time.UTC)

// openShop returns a shop with an order that was placed just now.
func openShop(t *testing.T) (*testkit.Kit, jobs.Key) {
	t.Helper()
	kit := testkit.New(t, testkit.Config{Registry: checks(), Start: placed})
	o := order{id: "42", placedAt: placed}
	job, err := rule{primary: 48 * time.Hour, final: 120 * time.Hour}.check(o)
	if err := errors.Join(err, shop{}.create(t.Context(), kit.DB)); err != nil {
		t.Fatal(err)
	}
	err = pgsql.InTx(t.Context(), kit.DB, func(tx *sqlx.Tx) error {
		_, err := kit.Client.Enqueue(t.Context(), tx, job)
		return errors.Join(err, shop{}.place(t.Context(), tx, []order{o}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return kit, job.Key()
}

// raised returns the alerts as the command raised prints them, without the heading.
func raised(t *testing.T, kit *testkit.Kit) string {
	t.Helper()
	list, err := shop{}.alerts(t.Context(), kit.DB)
	var out strings.Builder
	if err := errors.Join(err, writeAlerts(&out, list)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(out.String(), "order_id,alert,slot\n")
}

const (
	primaryLine = "42,primary,2026-03-03T13:15:00Z\n"
	finalLine   = "42,final,2026-03-06T13:15:00Z\n"
)

func TestAnOrderThatIsNeverShippedRaisesAPrimaryAndAFinalAlert(t *testing.T) {
	t.Parallel()
	kit, key := openShop(t)
	kit.RequireWaiting(key, placed.Add(48*time.Hour))
	kit.RunUntil(placed.Add(60 * time.Hour))
	if got := raised(t, kit); got != primaryLine {
		t.Errorf("after the first check: %s", got)
	}
	kit.RequireWaiting(key, placed.Add(120*time.Hour))
	kit.RunAll()
	kit.RequireEnded(key, jobs.OutcomeDone)
	if diff := gocmp.Diff(primaryLine+finalLine, raised(t, kit)); diff != "" {
		t.Error(diff)
	}
}

func TestAnOrderThatIsShippedInBetweenRaisesNoFinalAlert(t *testing.T) {
	t.Parallel()
	kit, key := openShop(t)
	kit.RunUntil(placed.Add(60 * time.Hour))
	kit.DB.MustExec(`update orders set shipped_at = $1`, kit.Now())
	kit.RunAll()
	kit.RequireEnded(key, jobs.OutcomeDone)
	if got := raised(t, kit); got != primaryLine {
		t.Errorf("%s", got)
	}
}

func TestAnOrderThatIsDeletedRaisesNothing(t *testing.T) {
	t.Parallel()
	kit, key := openShop(t)
	kit.DB.MustExec(`delete from orders`)
	kit.RunAll()
	kit.RequireEnded(key, jobs.OutcomeDone)
	if got := raised(t, kit); got != "" {
		t.Errorf("%s", got)
	}
}

func TestAnOutageRaisesTheAlertOfTheSlotThatWasMissed(t *testing.T) {
	t.Parallel()
	kit, key := openShop(t)
	kit.Clock.Set(placed.Add(54 * time.Hour))
	kit.RunDue()
	kit.RequireWaiting(key, placed.Add(120*time.Hour))
	if got := raised(t, kit); got != primaryLine {
		t.Errorf("%s", got)
	}
}

func TestACheckThatWasAskedForWithoutAMemoFails(t *testing.T) {
	t.Parallel()
	got := testkit.CheckTx(t, checks(), new(sqlx.Tx), jobs.FutureJob{JobExec: unshipped, EntityName: "orders", EntityKey: "42"})
	if !errors.Is(got.Err, jobs.ErrNoPayload) {
		t.Errorf("%+v", got)
	}
}

func TestAnAlertThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	kit, _ := openShop(t)
	key := jobs.Key{JobExec: primaryAlert, EntityName: "orders", EntityKey: "42"}
	kit.DB.MustExec(`alter table alerts rename to locked_away`)
	kit.Enqueue(jobs.Request{JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey}, kit.Now().Add(time.Hour))
	kit.RunFor(90 * time.Minute)
	kit.DB.MustExec(`alter table locked_away rename to alerts`)
	kit.RunFor(24 * time.Hour)
	kit.RequireEnded(key, jobs.OutcomeDone)
}

func TestShippingAnOrderLeavesTheChecksOfOtherTeams(t *testing.T) {
	t.Parallel()
	kit, _ := openShop(t)
	at := kit.Now().Add(time.Hour)
	for _, job := range []string{primaryAlert, finalAlert, "invoice.unpaid"} {
		kit.Enqueue(jobs.Request{JobExec: job, EntityName: "orders", EntityKey: "42"}, at)
	}
	err := pgsql.InTx(t.Context(), kit.DB, func(tx *sqlx.Tx) error {
		n, err := cancelAlerts(t.Context(), tx, kit.Client, []order{{id: "42"}})
		if n != 2 {
			t.Errorf("%d checks are cancelled", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kit.RequireWaiting(jobs.Key{JobExec: "invoice.unpaid", EntityName: "orders", EntityKey: "42"}, at)
}
