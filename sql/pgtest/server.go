package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// variable names a server to use instead of starting one.
const variable = "PRESCIENT_TEST_DATABASE_URL"

// patience bounds the work that is done once for all tests, on a busy machine.
const patience = 5 * time.Minute

// settings trade everything that survives a crash for speed. Without autovacuum a test does the
// same each time.
var settings = map[string]string{
	"fsync":              "off",
	"synchronous_commit": "off",
	"full_page_writes":   "off",
	"wal_level":          "minimal",
	"max_wal_senders":    "0",
	"autovacuum":         "off",
	"max_connections":    "300",
	// For a test of what a check may do to its transaction.
	"max_prepared_transactions": "10",
}

// server is the server with the tests' databases.
type server struct {
	nodes    []node       // one node, or those of a Citus cluster, the coordinator first
	empty    string       // the template of empty databases
	strategy string       // how a template is copied; empty: as the server does by itself
	template string       // the name of the migrated template; empty until a test needs it
	stop     func() error // stops what was started for the tests
}

type node struct {
	url   url.URL
	admin *sqlx.DB
}

// given returns the URL of a server to use instead of starting one, and the variable that names it.
func given() (raw, name string) {
	if OnCitus() {
		return os.Getenv(citusVariable), citusVariable
	}
	return os.Getenv(variable), variable
}

func startServer() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if raw, _ := given(); raw != "" {
		return connect(ctx, raw, func() error { return nil })
	}
	dir, err := os.MkdirTemp(tempRoot(), "prescient-pgtest-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the server of the tests: %w", err)
	}
	// Root starts the server as another user, who must be able to enter the directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("open the directory of the tests' server: %w", err)
	}
	s, err := embedded.Open(embedded.Config{Dir: dir, Settings: settings, Cache: cacheDir()})
	if err != nil {
		return nil, err
	}
	return startWatched(ctx, s, dir)
}

// cacheDir is where servers find the data to begin with. It is empty for a user without a home.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "prescient", "pgtest")
}

// tempRoot returns a directory in memory if there is plenty and TMPDIR is not set. A database has
// 300 files, which a disk takes several times as long to make.
func tempRoot() string {
	const plenty = 4 << 30
	var shm syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs("/dev/shm", &shm) == nil &&
		uint64(shm.Bavail)*uint64(shm.Bsize) >= plenty {
		return "/dev/shm"
	}
	return os.TempDir()
}

// startWatched starts the watchdog first, so that there is no moment without one.
func startWatched(ctx context.Context, s *embedded.Server, dir string) (*server, error) {
	status, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	stop, err := watch(dir, status.Socket)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	server, err := connect(ctx, s.SuperuserURL(), stop)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	// It needs checkpoints, which cost little without fsync, and a third of the CPU time of a copy by way of the WAL.
	server.strategy = " strategy file_copy"
	return server, nil
}

func connect(ctx context.Context, raw string, stop func() error) (*server, error) {
	parsed, err := url.Parse(raw)
	if err != nil || !strings.HasPrefix(parsed.Scheme, "postgres") {
		_, name := given()
		// The parser's error would show the password.
		return nil, fmt.Errorf("parse %s: write postgres://user@host:5432/database", name)
	}
	s := &server{empty: "template0", stop: stop}
	err = s.addNode(ctx, *parsed)
	if err == nil && OnCitus() {
		err = s.addWorkers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	return s, nil
}

func (s *server) addNode(ctx context.Context, at url.URL) error {
	admin, err := pgsql.Open(ctx, at.String())
	if err != nil {
		return err
	}
	admin.SetMaxOpenConns(4)
	s.nodes = append(s.nodes, node{url: at, admin: admin})
	return nil
}

func (s *server) makeTemplate() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name, err := s.create(ctx, s.empty)
	if err != nil {
		return "", err
	}
	s.template = name
	db, err := pgsql.Open(ctx, s.urlOf(name))
	if err != nil {
		return "", err
	}
	err = errors.Join(pgsql.Migrate(ctx, db, pgsql.DefaultSchema), db.Close())
	if err == nil && OnCitus() {
		err = s.freeze(ctx, name)
	}
	return name, err
}

// create makes a copy of a database under a name that no other process takes.
func (s *server) create(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("prescient_test_%d_%s", os.Getpid(), strings.ToLower(rand.Text()[:12]))
	commands := []string{"create database " + name + " template " + template + s.strategy}
	if OnCitus() {
		for _, setting := range citusSettings {
			commands = append(commands, "alter database "+name+" set "+setting)
		}
	}
	if err := s.everywhere(ctx, commands...); err != nil {
		return "", fmt.Errorf("create a database for the test (the role needs CREATEDB): %w", err)
	}
	return name, nil
}

func (s *server) drop(ctx context.Context, name string) error {
	command := "drop database if exists " + name + " with (force)"
	if OnCitus() { // its maintenance daemons would come back meanwhile
		if err := s.freeze(ctx, name); err != nil {
			return err
		}
	}
	err := s.everywhere(ctx, command)
	// a daemon was about to connect
	for tries := 0; OnCitus() && pg.HasState(err, pqerror.ObjectInUse) && tries < 3; tries++ {
		err = s.everywhere(ctx, command)
	}
	if err != nil {
		return fmt.Errorf("drop the test's database %s: %w", name, err)
	}
	return nil
}

// everywhere executes commands on each node.
func (s *server) everywhere(ctx context.Context, commands ...string) error {
	for _, n := range s.nodes {
		for _, command := range commands {
			if _, err := n.admin.ExecContext(ctx, command); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) urlOf(database string) string { return s.nodes[0].urlOf(database) }

func (n node) urlOf(database string) string {
	u := n.url
	u.Path = "/" + database
	return u.String()
}

func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if s.template != "" {
		err = s.drop(ctx, s.template)
	}
	return errors.Join(err, s.disconnect(), s.stop())
}

// disconnect closes the pools, and drops what connect has made.
func (s *server) disconnect() error {
	var err error
	if s.empty != "template0" {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = s.drop(ctx, s.empty)
	}
	for _, n := range s.nodes {
		err = errors.Join(err, n.admin.Close())
	}
	return err
}
