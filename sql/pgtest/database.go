package pgtest

import (
	"context"
	"testing"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// New returns a database of the test's own, migrated in the default schema and without a row in it.
// The pool is closed and the database dropped when the test and its subtests have ended. Without a database
// it fails the test. It may be called from parallel tests, and more than once in a test: each call makes another one.
func New(t testing.TB) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// URL is New for a test that connects itself or has a process connect: it returns the postgres:// URL
// of the database. Connections that are still open when the test ends are cut.
func URL(t testing.TB) string {
	t.Helper()
	template, err := fixtureOf(t).template()
	if err != nil {
		t.Fatal(err)
	}
	return clone(t, template)
}

// Empty is URL of a database that has nothing in it, not even the schema.
func Empty(t testing.TB) string {
	t.Helper()
	return clone(t, "template0")
}

func clone(t testing.TB, template string) string {
	t.Helper()
	server, err := fixtureOf(t).server()
	if err != nil {
		t.Fatal(err)
	}
	name, err := server.create(t.Context(), template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.drop(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	return server.urlOf(name)
}

func fixtureOf(t testing.TB) *fixture {
	t.Helper()
	f := current.Load()
	if f == nil {
		t.Fatal("get a database: add to the package's tests: func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }")
	}
	return f
}
