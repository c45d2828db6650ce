package pg_test

import (
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func open(t *testing.T, url string, opts ...pgsql.Option) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// begin begins a transaction, which is rolled back at the end of the test unless it has ended.
func begin(t *testing.T, db *sqlx.DB) *sqlx.Tx {
	t.Helper()
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func exec(t *testing.T, db sqlx.ExecerContext, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func get[T any](t *testing.T, db sqlx.QueryerContext, query string, args ...any) T {
	t.Helper()
	var value T
	if err := sqlx.GetContext(t.Context(), db, &value, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
