package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// isolate gives a test a home, a working directory and an environment of its own, and returns the directory.
func isolate(t testing.TB) string {
	t.Helper()
	for _, assignment := range os.Environ() {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "PG") {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	dir := t.TempDir()
	t.Chdir(dir)
	return dir
}

// writeFile writes a file below dir and returns its path.
func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parse returns all flags of this package after parsing args.
func parse(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("prescient", pflag.ContinueOnError)
	Flags(fs)
	RunFlags(fs)
	ServerFlags(fs, "none")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

// mustLoad loads without looking into the places of the machine that runs the test.
func mustLoad(t *testing.T, args ...string) Loaded {
	t.Helper()
	loaded, err := load(parse(t, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(URL{}, Endpoint{}, Secret{}, netip.Prefix{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// contains fails the test unless err names everything in parts.
func contains(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not name %q:\n%v", part, err)
		}
	}
}
