package database

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
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
	f := factory.New(factory.Config{Name: "shop", Out: io.Discard, Err: io.Discard})
	root := &cobra.Command{Use: "shop"}
	config.Flags(root.PersistentFlags())
	if err := errors.Join(root.ParseFlags(nil), f.Load(root)); err != nil {
		t.Fatal(err)
	}
	f.Pools().Options = []pgsql.Option{pgsql.Param("work_mem", "1234kB")}
	t.Cleanup(func() { _ = f.Close() })
	var got string
	errs := visit(t.Context(), f, func(ctx context.Context, f *factory.Factory) error {
		return With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error { return db.GetContext(ctx, &got, "show work_mem") })
	})
	if len(errs) != 1 || errs[0] != nil || got != "1234kB" {
		t.Errorf("%v, work_mem %s", errs, got)
	}
}
