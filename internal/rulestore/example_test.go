package rulestore_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/exampletest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
)

// What the examples below are given by their application. TestTheExamplesRun gives it to them.
var (
	ctx = context.Background()
	db  *sqlx.DB // as the owner of the table
)

// An application applies its rules when it starts, instead of "rules apply". Its migrations have made the table.
func ExampleStore_Apply() {
	const text = `rules:
  - name: order.late
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    overdue: skip
    steps:
      - {after: 48h, event: order.late}
`
	file, err := rule.Parse(strings.NewReader(text))
	if err != nil {
		slog.Error("read the rules", "error", err)
		return
	}
	store, err := rulestore.New(ctx, db, rulestore.Config{})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}
	plan, err := store.Apply(ctx, file, nil)
	if err != nil {
		slog.Error("apply the rules", "error", err)
		return
	}
	for _, r := range plan.Rules {
		slog.Info("the rule is applied", "rule", r.Name, "action", r.Action, "rows that begin to wait", r.Begin)
	}
}

func TestTheExamplesRun(t *testing.T) {
	db = newShop(t).db
	exampletest.Run(t, map[string]func(){"apply": ExampleStore_Apply})
}
