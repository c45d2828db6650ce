package cmd_test

import (
	"io"
	"testing"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/internal/await"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestStatusReadsInOneTransaction(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its own sessions have transactions")
	other, err := pgsql.Open(t.Context(), pgtest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	url := pgtest.Direct(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := db.Get(&name, "select current_database()"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	transactions := func() (n int) {
		t.Helper()
		await.True(t, "the end of all sessions", func() bool {
			var sessions int
			err := other.QueryRow(`select numbackends, xact_commit + xact_rollback from pg_stat_database where datname = $1`,
				name).Scan(&sessions, &n)
			return err == nil && sessions == 0
		})
		return n
	}
	before := transactions()
	app := cmd.New(registry())
	app.Out, app.Err = io.Discard, io.Discard
	if code := app.Run(t.Context(), []string{"status", "--check", "--database-url", url}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	// The settings, the names of the rules, and the status; the others are those of connecting.
	if n := transactions() - before; n > 5 {
		t.Errorf("%d transactions", n)
	}
}
