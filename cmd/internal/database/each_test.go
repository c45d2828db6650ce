package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The locked store waits until its time is over, and the other store has answered long before.
func TestALockedStoreDoesNotHoldBackTheOthers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := filepath.Join(t.TempDir(), "prescient.yaml")
	text := fmt.Sprintf("database: {url: %q}\nstores: [{name: free}, {name: locked, schema: other}]", url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := pgsql.Migrate(t.Context(), db, "other"); err != nil {
		t.Fatal(err)
	}
	lock := db.MustBegin()
	t.Cleanup(func() { _ = lock.Rollback() })
	lock.MustExec("lock table other.future_job")

	var out strings.Builder
	f := factory.New(factory.Config{Name: "shop", Out: &out, Err: io.Discard})
	status := &cobra.Command{Use: "status"}
	root := &cobra.Command{Use: "shop"}
	root.AddCommand(status)
	config.Flags(root.PersistentFlags())
	if err := errors.Join(status.ParseFlags([]string{"--config", file}), f.Load(status)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	err = Each(t.Context(), f, within(time.Second, func(ctx context.Context, f *factory.Factory) error {
		if f.Store().Name == "free" {
			ctx = t.Context() // also on a slow machine it answers
		}
		return With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error {
			var n int
			err := db.GetContext(ctx, &n, "select count(*) from "+string(f.Schema())+".future_job")
			return errors.Join(err, f.Lines("rows: "+strconv.Itoa(n)))
		})
	}))
	const want = "store locked: the store has not answered for 1s: another session may have locked its tables. " +
		"To wait without a limit, name it alone: "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), " --store locked status") {
		t.Errorf("got error %v\nwant %s", err, want)
	}
	if !strings.HasPrefix(out.String(), "store free:\nrows: 0\n") {
		t.Errorf("printed %q", out.String())
	}
}

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
