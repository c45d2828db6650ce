package sql_test

import (
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Checks may make a new text for each of their statements: a connection keeps a limited number of them.
func TestAConnectionPreparesStatementsAndKeepsALimitedNumber(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Prepared())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		for _, want := range []int{1, 2, 300, 300} {
			for i := range want {
				var got int
				if err := tx.GetContext(t.Context(), &got, fmt.Sprintf("select $1::int + %d", i), 7); err != nil || got != 7+i {
					return fmt.Errorf("statement %d: %d, %w", i, got, err)
				}
				result, err := tx.ExecContext(t.Context(), fmt.Sprintf("select $1::int - %d", i), 7)
				if err != nil {
					return fmt.Errorf("statement %d: %w", i, err)
				}
				if n, err := result.RowsAffected(); n != 1 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
			}
			var kept int
			if err := tx.GetContext(t.Context(), &kept, "select count(*) from pg_prepared_statements"); err != nil {
				return err
			}
			if kept != min(2*want, 250) {
				t.Errorf("%d statements are kept after %d", kept, 2*want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
