package cmd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A pattern is looked for before, through the same pool.
func TestTheConnectionsOfStoresAreAsTheirCommandWantsThem(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	file := filepath.Join(t.TempDir(), "prescient.yaml")
	if err := os.WriteFile(file, []byte("stores: [{name: all, schema: presc*}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESCIENT_CONFIG", file)
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, io.Discard
	if code := app.Run(t.Context(), []string{"status"}); code != Done {
		t.Fatalf("exit code %d", code)
	}
	var got string
	parts, err := app.visitAll(t.Context(), func(ctx context.Context, a *App) error {
		return a.withDB(ctx, func(db *sqlx.DB, _ pgsql.Setting) error { return db.GetContext(ctx, &got, "show work_mem") })
	}, pgsql.Param("work_mem", "1234kB"))
	if err != nil || len(parts) != 1 || parts[0].err != nil || got != "1234kB" {
		t.Errorf("%v, %+v, work_mem %s", err, parts, got)
	}
}
