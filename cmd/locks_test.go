package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// hold locks a table until the test ends.
func hold(t *testing.T, url, table string) *sqlx.Tx {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	holder := db.MustBegin()
	t.Cleanup(func() { _ = holder.Rollback() })
	holder.MustExec("lock table " + table + " in access exclusive mode")
	return holder
}

func TestACommandThatWaitsForALockSaysWhoHoldsIt(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	url := pgtest.URL(t)
	var pid string
	if err := hold(t, url, "prescient.future_job").Get(&pid, "select pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := &until{what: "waiting for a lock", then: cancel} // as Ctrl-C
	app := cmd.New(registry())
	app.Out, app.Err = io.Discard, said
	if code := app.Run(ctx, []string{"status", "--database-url", url}); code != cmd.Failure {
		t.Errorf("exit code %d", code)
	}
	want := regexp.MustCompile(`level=WARN msg="waiting for a lock" lock=prescient\.future_job holder="session ` + pid +
		` of .* \(.*, idle in transaction\)" to_end_it="select pg_terminate_backend\(` + pid + `\)" since=\S+Z\n` +
		`\S+ status: read the status: interrupted\n$`)
	if !want.MatchString(said.String()) || strings.Count(said.String(), "\n") != 2 {
		t.Errorf("it says %s", said)
	}
}

func TestStoresAreListedThoughTheTablesOfOneAreLocked(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "locks of its tables are those of the worker")
	locked, free := pgtest.URL(t), pgtest.URL(t)
	hold(t, locked, "prescient.setting")
	file := filepath.Join(t.TempDir(), "stores.yaml")
	text := fmt.Sprintf("stores:\n  - {name: locked, url: %q}\n  - {name: free, url: %q}\n", locked, free)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	app := cmd.New(registry())
	var out, said strings.Builder
	app.Out, app.Err = &out, &said
	if code := app.Run(t.Context(), []string{"stores", "list", "--config", file}); code != cmd.Failure {
		t.Errorf("exit code %d", code)
	}
	if !regexp.MustCompile(`\nlocked .* down `).MatchString(out.String()) || !regexp.MustCompile(`\nfree .* active `).MatchString(out.String()) {
		t.Errorf("it lists %s", &out)
	}
	if !regexp.MustCompile(`waiting for a lock" lock=prescient\.setting .*\n.* store locked: it has not answered for 10s: `).MatchString(said.String()) {
		t.Errorf("it says %s", &said)
	}
}

// until calls a function when it was told something.
type until struct {
	strings.Builder
	what string
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(u.String(), u.what) {
			u.then()
		}
	}()
	return u.Builder.Write(p)
}
