package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestStoresThatASignalHasNotLetBeginAreStoppedAndNoFailure(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prescient.yaml")
	stores := fmt.Sprintf("database: {url: '%s'}\nstores:\n  - {name: shop}\n  - {name: tenants, schema: tenant_*}\n", pgtest.URL(t))
	if err := os.WriteFile(file, []byte(stores), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range []string{"run", "catch-up"} {
		app := cmd.New(registry())
		app.Out, app.Err = io.Discard, t.Output()
		if code := app.Run(ctx, []string{command, "--config", file}); code != cmd.Stopped {
			t.Errorf("%s: exit code %d", command, code)
		}
	}
}
