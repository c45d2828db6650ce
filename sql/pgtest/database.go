package pgtest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// newIdentity takes its value from a variable because Citus takes none of gen_random_uuid.
const newIdentity = `do $$
	declare
		id uuid = gen_random_uuid();
	begin
		update prescient.setting set store = id;
	end $$`

// New returns a database of the test's own, migrated in the default schema and without a row in it.
// The pool is closed and the database dropped when the test and its subtests have ended. Without a
// database it fails the test. It may be called from parallel tests, and more than once in a test:
// each call makes another one.
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

// URL is New for a test that connects itself or has a process connect: it returns the postgres://
// URL of the database. Connections that are still open when the test ends are cut.
func URL(t testing.TB) string {
	t.Helper()
	direct := Direct(t)
	if os.Getenv(poolerVariable) != "" {
		return Pooled(t, direct)
	}
	return direct
}

// Direct is URL for a test that needs sessions of its own: there is never a pooler in between.
func Direct(t testing.TB) string {
	t.Helper()
	f := theFixture()
	if f.lasting() {
		return migrated(t)
	}
	template, err := f.template()
	if err != nil {
		t.Fatal(err)
	}
	url := clone(t, template)
	// Otherwise the databases of a test would be copies of one store.
	if err := execAt(t.Context(), url, newIdentity); err != nil {
		t.Fatal(err)
	}
	return url
}

// migrated is URL without a template.
func migrated(t testing.TB) string {
	t.Helper()
	url := Empty(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pgsql.Migrate(t.Context(), db, pgsql.DefaultSchema), db.Close()); err != nil {
		t.Fatal(err)
	}
	return url
}

// Empty is URL of a database that has nothing in it, not even the schema.
func Empty(t testing.TB) string {
	t.Helper()
	return clone(t, "")
}

// clone copies a template; "": nothing.
func clone(t testing.TB, template string) string {
	t.Helper()
	server, err := theFixture().server()
	if err != nil {
		t.Fatal(err)
	}
	name, err := server.create(t.Context(), cmp.Or(template, server.empty))
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
