package rule_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const rules = `
rules:
  - name: order.late
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    overdue: fire
    steps:
      - {after: 48h, event: order.late}
`

func TestRulesOfAFileLetTheRowsOfTheirTableWait(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.MustExec(pgtest.CreateSchema("shop"))
	db.MustExec("create table shop.orders (id bigint primary key, placed_at timestamptz not null, shipped_at timestamptz)")
	db.MustExec("insert into shop.orders values (1, clock_timestamp(), null), (2, clock_timestamp(), clock_timestamp())")
	file, err := rule.Parse(strings.NewReader(rules))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // idempotent
		if err := rule.Apply(t.Context(), db, "", file); err != nil {
			t.Fatal(err)
		}
	}
	db.MustExec("insert into shop.orders values (3, clock_timestamp(), null)") // seen by the trigger
	var keys string
	if err := db.Get(&keys, "select string_agg(entity_key, ' ' order by entity_key) from prescient.future_job"); err != nil {
		t.Fatal(err)
	}
	if keys != "1 3" {
		t.Errorf("rows %s wait: want 1 3", keys)
	}
}

func TestAMistakeInAFileIsAProblem(t *testing.T) {
	t.Parallel()
	file, err := rule.Parse(strings.NewReader(strings.ReplaceAll(rules, "shop.orders", "shop.nowhere")))
	if err != nil {
		t.Fatal(err)
	}
	err = rule.Apply(t.Context(), pgtest.New(t), "", file)
	if _, ok := errors.AsType[*rule.Problem](err); !ok {
		t.Errorf("no problem: %v", err)
	}
}
