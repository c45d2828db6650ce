package sql_test

import (
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A daemon with rows to catch up with has checks at each moment. A change or a remove that waits for all of them would
// never have its turn.
func TestChecksThatComeLaterWaitForAChangeOfTheirRule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change pg.Statement
		args   []any
		want   string
	}{
		"change": {pg.RuleChange, []any{"order.late", `{"n": 2}`, 1, true, "shop.orders", pq.StringArray{}}, `applying {"n": 2}`},
		"remove": {pg.RuleRemoving, []any{"order.late"}, "removing {}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db, "insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')")
			// The statement of a check, not its function alone: beside a table, Citus would call that on a worker.
			check := "select state || ' ' || definition from (" + pg.RuleLock.In(pgsql.DefaultSchema) + ") as l"
			args := []any{"order.late", time.Now()}
			first := begin(t, db)
			get[string](t, first, check, args...)
			changed, later := make(chan error, 1), make(chan string, 1)
			go func() {
				_, err := db.ExecContext(t.Context(), test.change.In(pgsql.DefaultSchema), test.args...)
				changed <- err
			}()
			pgtest.AwaitWaits(t, db, 1)
			go func() {
				var got string
				if err := db.GetContext(t.Context(), &got, check, args...); err != nil {
					t.Error(err)
				}
				later <- got
			}()
			pgtest.AwaitWaits(t, db, 2)
			var holder, mends string
			if err := db.QueryRowContext(t.Context(), pg.RuleHolders.In(pgsql.DefaultSchema), "shop.orders", false, "order.late").Scan(&holder, &mends); err != nil {
				t.Errorf("the holder of the rule is not found: %v", err)
			}
			if err := first.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := <-changed; err != nil {
				t.Error(err)
			}
			if got := <-later; got != test.want {
				t.Errorf("the later check reads %s, want %s", got, test.want)
			}
		})
	}
}
