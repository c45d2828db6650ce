package rule_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A check reads what triggers have noted, and then the table.
func TestAStepFiresNeitherEarlyNorNeverThoughItsRowChangesWhileACheckReadsIt(t *testing.T) {
	t.Parallel()
	const end = `with noted as (update prescient.rule_changed set pauses = pauses || $1::timestamptz) update shop.orders set channel = 'web'`
	pgtest.NotOnCitus(t, "roles are of one node")
	s := newLateOrder(t)
	role := "rule_reader_" + strings.ToLower(rand.Text())
	s.exec("create role " + role)
	pgtest.DropRoles(t, s.db, role)
	s.exec("grant usage on schema shop to " + role + "; grant select on shop.orders to " + role)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Rule.Role = role
		a.Rule.Pause = rule.Texts{"channel = 'hold'"}
		a.Facts.Pause = []expr.Expr{{SQL: "channel = 'hold'", Type: expr.Truth}}
	}))
	s.exec(`update shop.orders set channel = 'hold'`)
	s.exec(`insert into prescient.rule_changed (job, entity_key, pauses)
		values (prescient.find_job('order.unshipped'), '1', array[$1::timestamptz])`, day(1))
	for _, first := range []struct {
		does, query string
		args        []any
		at          time.Time
		waits       string
	}{
		{"an alter table writes the table anew", `alter table shop.orders alter column customer type varchar(30)`, nil, day(4), "day 5"},
		{"the pause ends", end, []any{day(5)}, day(5), "day 5.01"},
	} {
		faults := pgtest.OpenFaults(t, s.url, pgtest.Unprepared)
		faults.Set(pgtest.Fault{
			At: 1, Kind: pgtest.SomebodyFirst,
			Of:    func(text string) bool { return strings.Contains(text, "from shop.orders") },
			First: func() { s.exec(first.query, first.args...) },
		})
		s.pool = faults.DB
		s.run(first.at)
		if k, _ := faults.Hit(); k == 0 {
			t.Fatalf("%s: not between the reads %q", first.does, faults.Trips())
		}
		if got := s.published(); len(got) > 0 {
			t.Errorf("%s: published %q", first.does, got)
		}
		s.wants(map[string]string{"1": first.waits})
	}
	for _, at := range []float64{5.01, 7, 8} { // looks again at the earliest instant of each step
		s.run(day(at))
	}
	diff(t, []string{"order.unshipped.first 1"}, s.published())
}
