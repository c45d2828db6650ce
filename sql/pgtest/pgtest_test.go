package pgtest

import (
	"bytes"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// endVariable says how a process that has a database is to end.
const endVariable = "PRESCIENT_TEST_PGTEST_END"

func TestMain(m *testing.M) {
	if os.Getenv(endVariable) == "without main" {
		os.Exit(m.Run())
	}
	os.Exit(Main(m))
}

func TestDatabasesOfParallelTestsAreMigratedAndShareNothing(t *testing.T) {
	t.Parallel()
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			db := New(t)
			if got := get(t, db, "select count(*) from prescient.future_job"); got != "0" {
				t.Errorf("%s jobs wait in a new database", got)
			}
			if _, err := db.ExecContext(t.Context(), "create table prescient.mine ()"); err != nil {
				t.Errorf("another test was here: %v", err)
			}
		})
	}
}

func TestEmptyDatabaseHasNoSchema(t *testing.T) {
	t.Parallel()
	db := connectTo(t, Empty(t))
	if got := get(t, db, "select count(*) from pg_namespace where nspname = 'prescient'"); got != "0" {
		t.Errorf("%s schemas", got)
	}
}

func TestDatabaseIsDroppedWithItsTestThoughSomebodyIsConnected(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("test", func(sub *testing.T) {
		name = get(sub, connectTo(t, URL(sub)), "select current_database()") // connected for longer than the test
	})
	if got := get(t, New(t), "select count(*) from pg_database where datname = '"+name+"'"); got != "0" {
		t.Errorf("database %s is still there", name)
	}
}

// TestProcess is run by the tests below in a process of its own.
func TestProcess(t *testing.T) {
	end := os.Getenv(endVariable)
	if end == "" {
		t.Skip("only as a process of another test")
	}
	if end == "kill in initdb" {
		go killInInitdb()
	}
	if _, err := os.Stdout.WriteString("database " + URL(t) + "\n"); err != nil {
		t.Fatal(err)
	}
	switch end {
	case "panic":
		go panic("as a test's goroutine may")
		select {}
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "kill the group":
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	}
}

func killInInitdb() {
	for {
		if made, _ := filepath.Glob(filepath.Join(os.TempDir(), "*", "data.new", "PG_VERSION")); made != nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}

func TestProcessLeavesNoServerBehindHoweverItEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"well", "without main", "panic", "kill", "kill the group", "kill in initdb"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			// Without a cache, the data is made by initdb.
			out, err := process(t, endVariable+"="+end, "TMPDIR="+dir, variable+"=", "XDG_CACHE_HOME=/dev/null")
			if (err == nil) != (end == "well" || end == "without main") {
				t.Errorf("the process ended with %v:\n%s", err, out)
			}
			for left := filesIn(t, dir); left != nil; left = filesIn(t, dir) {
				if end == "well" {
					t.Fatalf("left behind: %v", left)
				}
			}
			if servers := serversOf(t, dir); servers != "" {
				t.Errorf("still running:\n%s", servers)
			}
		})
	}
}

func TestProcessOnAServerThatWasThereLeavesNothingThere(t *testing.T) {
	t.Parallel()
	base := URL(t)
	for _, end := range []string{"well", "without main"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			out, err := process(t, endVariable+"="+end, variable+"="+base)
			if err != nil {
				t.Fatal(err)
			}
			if hostOf(t, out) != hostOf(t, "database "+base) {
				t.Errorf("it used another server:\n%s", out)
			}
			name := strings.Split(strings.TrimPrefix(out[strings.Index(out, "prescient_test_"):], "prescient_test_"), "_")[0]
			if got := get(t, connectTo(t, base), "select count(*) from pg_database where datname like 'prescient\\_test\\_"+name+"\\_%'"); got != "0" {
				t.Errorf("%s databases of process %s are left", got, name)
			}
		})
	}
}

func TestProcessWithoutADatabaseFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		environment []string
		want        string
	}{
		"no URL":             {[]string{endVariable + "=well", variable + "=postgres://u:secret@[bad"}, "parse " + variable},
		"nobody listens":     {[]string{endVariable + "=well", variable + "=postgres://u:secret@/d?host=/nowhere&sslmode=disable"}, "connect to the database"},
		"not a postgres one": {[]string{endVariable + "=well", variable + "=mysql://u:secret@localhost"}, "parse " + variable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := process(t, test.environment...)
			if err == nil || !strings.Contains(out, "--- FAIL") || !strings.Contains(out, test.want) {
				t.Errorf("want a failure with %q, got %v:\n%s", test.want, err, out)
			}
			if strings.Contains(out, "secret") {
				t.Errorf("it prints the password:\n%s", out)
			}
		})
	}
}

// process runs TestProcess in a group of its own, and returns what it printed.
func process(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestProcess$")
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// hostOf is the directory of the socket in a process's output.
func hostOf(t *testing.T, out string) string {
	t.Helper()
	_, rest, found := strings.Cut(out, "database ")
	raw, _, _ := strings.Cut(rest, "\n")
	u, err := url.Parse(raw)
	if !found || err != nil || u.Query().Get("host") == "" {
		t.Fatalf("no URL (%v) in:\n%s", err, out)
	}
	return u.Query().Get("host")
}

// tempDir is open to the user that root starts the server as.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(tempRoot(), "pgtest-")
	if err := errors.Join(err, os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func serversOf(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pgrep", "-f", "postgres -D "+dir).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func connectTo(t *testing.T, url string) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func get(t *testing.T, db *sqlx.DB, query string) string {
	t.Helper()
	var value string
	if err := db.GetContext(t.Context(), &value, query); err != nil {
		t.Fatal(err)
	}
	return value
}
