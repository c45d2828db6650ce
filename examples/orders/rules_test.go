package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// ruleFile returns a file with the rule of the shop, in the words of rules. The rule writes alerts.
func ruleFile(r rule) string {
	return fmt.Sprintf(`rules:
  - name: order.unshipped
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    steps:
      - {name: primary, after: %s, sql: "insert into shop.alerts (order_id, alert) values ($key, $step)"}
      - {name: final, after: %s, sql: "insert into shop.alerts (order_id, alert) values ($key, $step)"}
`, r.primary, r.final)
}

// ruleTables has the slot in which a step fires: that of the clock.
const ruleTables = `
	create table shop.orders (id text primary key, placed_at timestamptz not null, shipped_at timestamptz);
	create table shop.alerts (
		order_id text, alert text, slot timestamptz default current_setting('prescient_caller.clock')::timestamptz,
		primary key (order_id, alert)
	)`

// ruled returns alerts.csv from a rule, which the engine runs in virtual time over a table that
// changes as the orders say.
func ruled(t *testing.T, orders []order, r rule) string {
	t.Helper()
	kit := testkit.New(t, testkit.Config{Start: orders[0].placedAt.Add(-time.Hour)})
	kit.DB.MustExec(pgtest.CreateSchema("shop"))
	kit.DB.MustExec(ruleTables)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(ruleFile(r)), 0o600); err != nil {
		t.Fatal(err)
	}
	kit.Rules(path)
	tables := shop{schema: "shop"}
	for _, s := range timeline(kit.Client.Grid(), orders) {
		kit.RunUntil(s.slot.Add(-time.Microsecond))
		err := pgsql.InTx(t.Context(), kit.DB, func(tx *sqlx.Tx) error {
			if err := tables.place(t.Context(), tx, s.placed); err != nil {
				return err
			}
			_, err := tables.ship(t.Context(), tx, s.shipped)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	kit.RunFor(r.final + time.Hour)
	if waiting := kit.Waiting(); len(waiting) > 0 {
		t.Errorf("%d orders still wait", len(waiting))
	}
	for _, row := range kit.Ended() {
		if row.Outcome != jobs.OutcomeDone {
			t.Errorf("%s ended as %s: %s", row.Key(), row.Outcome, row.LastError)
		}
	}
	alerts, err := tables.alerts(t.Context(), kit.DB)
	if err != nil {
		t.Fatal(err)
	}
	return alertsFile(t, alerts)
}

// lookedBack returns alerts.csv from a test of the rule on a table of past orders, by the command rules test.
func lookedBack(t *testing.T, orders []order, r rule) string {
	t.Helper()
	url := pgtest.Empty(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.MustExec("create schema shop")
	db.MustExec(ruleTables)
	for _, o := range orders {
		db.MustExec(`insert into shop.orders values ($1, $2, $3)`, o.id, o.placedAt, o.shippedAt)
	}
	if err := pgsql.Migrate(t.Context(), db, pgsql.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(ruleFile(r)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	app := cmd.New(jobs.NewRegistry())
	app.Out, app.Err = &out, &log
	until := orders[len(orders)-1].placedAt.Add(time.Second)
	if code := app.Run(t.Context(), []string{
		"rules", "test", "-f", path, "--since", orders[0].placedAt.Format(time.RFC3339Nano),
		"--until", until.Format(time.RFC3339Nano), "--list", "--output", "json", "--database-url", url,
	}); code != cmd.Done {
		t.Fatalf("rules test exits with %d: %s", code, &log)
	}
	var tested struct {
		Items []struct {
			List []struct {
				Step string    `json:"step"`
				Key  string    `json:"key"`
				Slot time.Time `json:"slot"`
			} `json:"list"`
		} `json:"items"`
	}
	if err := json.Unmarshal(out.Bytes(), &tested); err != nil {
		t.Fatal(err)
	}
	var alerts []alert
	for _, f := range tested.Items[0].List {
		alerts = append(alerts, alert{f.Key, f.Step, f.Slot})
	}
	slices.SortFunc(alerts, func(a, b alert) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.Alert, b.Alert))
	})
	return alertsFile(t, alerts)
}

func alertsFile(t *testing.T, alerts []alert) string {
	t.Helper()
	var out strings.Builder
	if err := writeAlerts(&out, alerts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestARuleGivesTheAlertsOfTheReplayAndOfArithmetic(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(realOrders)
	if err != nil {
		t.Skip("the file of real orders is not here: ", err)
	}
	const day = 24 * time.Hour
	for _, r := range []rule{{2 * day, 5 * day, false}, {7 * day, 30 * day, false}, {100 * time.Minute, 10*day + time.Second, false}} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			compareAlerts(t, string(text), r)
		})
	}
}

func TestARuleGivesTheAlertsOfRandomOrders(t *testing.T) {
	t.Parallel()
	for i, r := range []rule{
		{48 * time.Hour, 120 * time.Hour, false},
		{time.Second, 15 * time.Minute, false},
		{15 * time.Minute, 30 * time.Minute, false},
	} {
		if testing.Short() && i > 0 {
			break
		}
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			t.Parallel()
			compareAlerts(t, inMicroseconds(t, randomOrders(rand.New(rand.NewPCG(8, uint64(i))), 100)), r)
		})
	}
}

// inMicroseconds returns a file of orders with the instants that a table can hold.
func inMicroseconds(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`[0-9-]+T[0-9:.]+(Z|[+-][0-9:]+)`).ReplaceAllStringFunc(text, func(instant string) string {
		at, err := time.Parse(time.RFC3339Nano, instant)
		if err != nil {
			t.Fatal(err)
		}
		return at.Truncate(time.Microsecond).Format(time.RFC3339Nano)
	})
}

// compareAlerts compares the alerts of the replay, of the rule and of its test with arithmetic.
func compareAlerts(t *testing.T, text string, r rule) {
	t.Helper()
	orders, err := readOrders(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(orders, func(a, b order) int { return a.placedAt.Compare(b.placedAt) })
	want := expected(t, text, r.primary, r.final)
	if strings.Count(want, "\n") < 10 {
		t.Fatalf("there is little to compare: %s", want)
	}
	fromReplay, _ := replayed(t, text, r, 1)
	for name, got := range map[string]string{"rules test": lookedBack(t, orders, r), "the rule": ruled(t, orders, r), "replay": fromReplay} {
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-arithmetic +%s)\n%s", name, name, diff)
		}
	}
}
