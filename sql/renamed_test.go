package sql_test

import (
	"slices"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The bodies of functions name their schema, so a schema that was renamed needs them again.
func TestMigrateRepairsTheFunctionsOfASchemaThatWasRenamed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
	exec(t, db, "alter schema prescient rename to checks")
	steps, err := pgsql.Migrations(reserved.Caller{}, t.Context(), db, "checks")
	if err != nil || !slices.ContainsFunc(steps, func(m pgsql.Migration) bool { return m.Name == pgsql.FunctionsStep && !m.Applied }) {
		t.Errorf("before: %+v, %v", steps, err)
	}
	for range 2 {
		if err := pgsql.Migrate(t.Context(), db, "checks"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgsql.ReadSetting(t.Context(), db, "checks"); err != nil {
		t.Error(err)
	}
	exec(t, db, "select checks.enqueue('remind', 'order', '2', check_at => '2030-03-01')")
	if n := get[int](t, db, "select count(*) from checks.future_job"); n != 2 {
		t.Errorf("%d rows wait", n)
	}
	err = pgsql.ReadTx(t.Context(), db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), pg.Why.In(pgsql.Schema("checks")), "order", "1", nil, nil, 10)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
