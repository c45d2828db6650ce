package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	runsAreStopped(t, "--config", file)
}

func TestARunThatASignalHasNotLetBeginIsStoppedAndNoFailure(t *testing.T) {
	t.Parallel()
	runsAreStopped(t, "--database-url", pgtest.URL(t))
}

func runsAreStopped(t *testing.T, flags ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range []string{"run", "catch-up"} {
		app := cmd.New(registry())
		app.Out, app.Err = io.Discard, t.Output()
		if code := app.Run(ctx, append([]string{command}, flags...)); code != cmd.Stopped {
			t.Errorf("%s: exit code %d", command, code)
		}
	}
}

// A store that was not waited for is not reported as a problem.
func TestWhoIsStoppedWhileItConnectsSaysThatAndNothingOfTheDatabase(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for command, want := range map[string]string{
		"status": "cmd.test status: connect to the database: interrupted\n",
		"doctor": "cmd.test doctor: connect to the database: interrupted\n",
		"run":    "cmd.test run: stopped before the slot was done: connect to the database: interrupted\n",
	} {
		app := cmd.New(registry())
		var out, said strings.Builder
		app.Out, app.Err = &out, &said
		app.Run(ctx, []string{command, "--database-url", pgtest.URL(t)})
		if !strings.HasSuffix(said.String(), want) || out.String() != "" {
			t.Errorf("it says %s%s", &out, &said)
		}
	}
}
