package rulestore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// shop is a database with a table of orders.
type shop struct {
	t     testing.TB
	db    *sqlx.DB
	url   string // of rolesOn
	store *rulestore.Store
	now   time.Time // of replays; zero: the database's
}

var orders = pgtest.CreateSchema("shop") + `;
	create table shop.orders (
		id         bigint      primary key,
		channel    text        not null default 'web',
		amount     numeric     not null default 1,
		note       text,
		placed_at  timestamptz,
		shipped_at timestamptz
	)`

func newShop(t testing.TB, change ...func(*rulestore.Config)) *shop {
	t.Helper()
	return newShopOn(t, pgtest.URL(t), change...)
}

// newShopOn is newShop on a migrated database.
func newShopOn(t testing.TB, url string, change ...func(*rulestore.Config)) *shop {
	t.Helper()
	s := &shop{t: t}
	var err error
	if s.db, err = pgsql.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	s.exec(orders)
	s.open(change...)
	return s
}

// noon is the clock of a shop in virtual time.
var noon = time.Date(2030, time.March, 4, 12, 0, 0, 0, time.UTC)

// newShopAt is newShop with a clock that the test sets.
func newShopAt(t testing.TB, now time.Time) *shop {
	s := newShop(t, func(*rulestore.Config) {})
	s.now = now
	s.open(func(cfg *rulestore.Config) { cfg.Now = func() time.Time { return s.now } })
	return s
}

func (s *shop) open(change ...func(*rulestore.Config)) {
	s.t.Helper()
	cfg := rulestore.Config{PageSize: 100}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if s.store, err = rulestore.New(s.t.Context(), s.db, cfg); err != nil {
		s.t.Fatal(err)
	}
}

// exec runs statements of the application, at the clock of the shop.
func (s *shop) exec(statements string, args ...any) {
	s.t.Helper()
	err := pgsql.InTx(s.t.Context(), s.db, func(tx *sqlx.Tx) error {
		if !s.now.IsZero() {
			if _, err := tx.ExecContext(s.t.Context(), "select set_config('prescient_caller.clock', $1, true)", s.now.Format(time.RFC3339Nano)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(s.t.Context(), statements, args...)
		return err
	})
	if err != nil {
		s.t.Fatalf("%s: %v", statements, err)
	}
}

func (s *shop) apply(file string) rulestore.Plan {
	s.t.Helper()
	plan, err := s.store.Apply(s.t.Context(), parse(s.t, file), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return plan
}

func (s *shop) plan(file string) rulestore.Plan {
	s.t.Helper()
	plan, err := s.store.Plan(s.t.Context(), parse(s.t, file), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return plan
}

func parse(t testing.TB, file string) rule.File {
	t.Helper()
	parsed, err := rule.Parse(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// checks has the checks that wait as f. Citus joins no distributed table with a local one.
const checks = "with f as materialized (select * from prescient.future_job) "

func (s *shop) count(query string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.GetContext(context.WithoutCancel(s.t.Context()), &n, query, args...); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// waiting lists the checks that wait, such as "7 at 03-06 12:00", with the instant from which steps count, and when the
// row came to the rule late.
func (s *shop) waiting() string {
	s.t.Helper()
	var rows []string
	err := s.db.SelectContext(s.t.Context(), &rows, `
		select f.entity_key || ' at ' || to_char(f.next_check_at at time zone 'UTC', 'MM-DD HH24:MI')
			|| coalesce(' from ' || to_char((f.payload ->> 'from')::timestamptz at time zone 'UTC', 'MM-DD HH24:MI'), '')
			|| coalesce(' came ' || to_char((f.payload ->> 'came')::timestamptz at time zone 'UTC', 'MM-DD HH24:MI'), '')
		from prescient.future_job f
		order by f.entity_key`)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(rows, ", ")
}

func (s *shop) wants(what, want string) {
	s.t.Helper()
	if got := s.waiting(); got != want {
		s.t.Errorf("%s: waiting %q, want %q", what, got, want)
	}
}

// at returns an instant of the shop's March, such as "04 12:00", as a literal of SQL.
func at(text string) string { return fmt.Sprintf("timestamptz '2030-03-%s+00'", text) }

const unshipped = `
rules:
  - name: order.unshipped
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    where: channel <> 'test'
    steps:
      - {after: 2d, event: order.unshipped.primary}
      - {after: 4d, event: order.unshipped.final}
`
