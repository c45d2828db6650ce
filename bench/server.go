package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/embedded"
	pgsql "github.com/prescient-go/prescient/sql"
)

// settings are the same for everybody. Nothing that makes a commit less safe is switched off, and checkpoints come
// when this command asks for them: before each measured part, and in none. Images of whole pages go to the WAL
// uncompressed, as PostgreSQL comes.
var settings = map[string]string{
	"fsync":                "on",
	"full_page_writes":     "on",
	"synchronous_commit":   "on",
	"wal_compression":      "off",
	"shared_buffers":       "1GB",
	"max_wal_size":         "24GB",
	"checkpoint_timeout":   "1h",
	"maintenance_work_mem": "512MB",
	"max_connections":      "200",
}

// server is the PostgreSQL of one run of this command.
type server struct {
	dir   string
	pg    *embedded.Server
	admin *sqlx.DB
}

func startServer(ctx context.Context, parent string) (_ *server, err error) {
	if parent == "" {
		if parent, err = cacheDir(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(parent, "prescient-bench-")
	if err != nil {
		return nil, fmt.Errorf("make the database directory: %w", err)
	}
	s := &server{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	// The user that the server runs as for root has to get through.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the database directory: %w", err)
	}
	if s.pg, err = embedded.Open(embedded.Config{Dir: filepath.Join(dir, "pg"), Settings: settings}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.pg.Start(ctx); err != nil {
		return nil, err
	}
	s.admin, err = pgsql.Open(ctx, s.pg.SuperuserURL(), pgsql.Patient())
	return s, err
}

// cacheDir is on a disk, where a temporary directory may be in memory. The home of root is closed to the server's user.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/tmp", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the database: %w; give one with -dir", err)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// stop ends the server and removes all that it had.
func (s *server) stop() error {
	var errs []error
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
	}
	if s.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		errs = append(errs, s.pg.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// checkpoint lets a measured part begin with clean buffers; the first change of each page after it is logged whole.
func (s *server) checkpoint(ctx context.Context) error {
	_, err := s.admin.ExecContext(ctx, "checkpoint")
	return err
}

// setting returns a setting of the server as show prints it.
func (s *server) setting(ctx context.Context, name string) (value string, err error) {
	err = s.admin.QueryRowContext(ctx, "select current_setting($1)", name).Scan(&value)
	return value, err
}

// database is a fresh database, reached through lib/pq as prescient does and through pgx as most of the others do.
type database struct {
	*server
	name string
	url  string
	db   *sqlx.DB
	pool *pgxpool.Pool
}

// connections is how many each of the two pools has.
const connections = 20

func (s *server) database(ctx context.Context, name string) (_ *database, err error) {
	name = "bench_" + name
	for _, statement := range []string{"drop database if exists " + name + " with (force)", "create database " + name} {
		if _, err := s.admin.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	u, err := url.Parse(s.pg.SuperuserURL())
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the server: %w", err)
	}
	u.Path = "/" + name
	d := &database{server: s, name: name, url: u.String()}
	defer func() {
		if err != nil {
			d.drop(ctx)
		}
	}()
	if d.db, err = pgsql.Open(ctx, d.url, pgsql.Patient()); err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	cfg, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the database: %w", err)
	}
	cfg.MaxConns = connections
	d.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return d, err
}

// drop removes the database. What goes wrong here is seen when the server is removed.
func (d *database) drop(ctx context.Context) {
	if d.pool != nil {
		d.pool.Close()
	}
	if d.db != nil {
		_ = d.db.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, _ = d.admin.ExecContext(ctx, "drop database if exists "+d.name+" with (force)")
}

// exec runs statements outside a transaction, one after another.
func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.200s: %w", statement, err)
		}
	}
	return nil
}

// count returns the one number that a query returns.
func (d *database) count(ctx context.Context, query string, args ...any) (n int64, err error) {
	if err := d.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%.200s: %w", query, err)
	}
	return n, nil
}

// expect fails when a query does not return the number: a figure of work that was not done is worth nothing.
func (d *database) expect(ctx context.Context, want int, query string, args ...any) error {
	n, err := d.count(ctx, query, args...)
	if err == nil && n != int64(want) {
		return fmt.Errorf("%s is %d, want %d", query, n, want)
	}
	return err
}
