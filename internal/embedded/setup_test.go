package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/lib/pq"
)

// startVariable makes the test binary a process that starts the server of a directory, and ends.
const startVariable = "PRESCIENT_TEST_START_EMBEDDED"

func TestMain(m *testing.M) {
	dir := os.Getenv(startVariable)
	if dir == "" {
		os.Exit(runWithCache(m))
	}
	s, err := Open(Config{Dir: dir, Settings: quick})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shared is the cache of tests that are not about initdb, which would take most of their CPU time.
var (
	shared string
	filled sync.Once
)

// runWithCache runs the tests, and removes the cache that they share.
func runWithCache(m *testing.M) (code int) {
	dir, err := os.MkdirTemp(tempRoot(), "embedded-cache-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = filepath.Join(dir, "cache")
	code = m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// quick makes servers that need not survive a power cut.
var quick = map[string]string{"fsync": "off", "shared_buffers": "16MB"}

// setup returns a server that has no files yet, and is stopped at the end of the test.
func setup(t *testing.T) *Server {
	t.Helper()
	return setupIn(t, filepath.Join(tempDir(t), "pg"))
}

// setupIn is setup with a directory.
func setupIn(t *testing.T, dir string) *Server {
	t.Helper()
	filled.Do(func() { start(t, cached(t, shared)) }) // before others would make the same
	return open(t, Config{Dir: dir, Settings: quick, Cache: shared})
}

func started(t *testing.T) *Server {
	t.Helper()
	s := setup(t)
	start(t, s)
	return s
}

func open(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.places = places()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tempRoot is that of pgtest, which imports this package: memory, if there is plenty and TMPDIR is not set.
func tempRoot() string {
	const plenty = 4 << 30
	var shm syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs("/dev/shm", &shm) == nil &&
		uint64(shm.Bavail)*uint64(shm.Bsize) >= plenty {
		return "/dev/shm"
	}
	return os.TempDir()
}

// tempDir is open to be passed through, other than t.TempDir.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(tempRoot(), "embedded ")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, s *Server) Status {
	t.Helper()
	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// query connects as an application does, by the URL.
func query(t *testing.T, s *Server, statement string) string {
	t.Helper()
	return queryAt(t, s.URL(), statement)
}

func queryAt(t *testing.T, url, statement string) string {
	t.Helper()
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var value string
	if err := db.QueryRowContext(t.Context(), statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q:\n%v", part, err)
		}
	}
}
