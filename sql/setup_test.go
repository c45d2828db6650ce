package sql_test

import (
	"os"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// zones are session time zones: one without summer time, one in the north and one in the south.
var zones = []string{"UTC", "America/New_York", "Pacific/Auckland"}

// inZone returns a migrated database whose sessions use a time zone.
func inZone(t *testing.T, zone string) *sqlx.DB {
	t.Helper()
	return open(t, pgtest.URL(t), pgsql.Param("timezone", zone))
}

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

func list(t *testing.T, db sqlx.QueryerContext, query string, args ...any) []string {
	t.Helper()
	var values []string
	if err := sqlx.SelectContext(t.Context(), db, &values, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return values
}

// refused runs a statement, which the server must refuse with the given code, and returns the
// error.
func refused(t *testing.T, db *sqlx.DB, code pqerror.Code, query string, args ...any) pq.Error {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	e := pq.As(err)
	if e == nil || e.Code != code {
		t.Errorf("want %s, got %v\n%s %v", code, err, query, args)
		return pq.Error{}
	}
	return *e
}

// utc returns an SQL expression for an instant as text in UTC, whatever the session's time zone.
func utc(expression string) string {
	return "to_char((" + expression + ") at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
}
