package pgxjobs_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// now is the clock of every test, in the slot of noon.
var now = time.Date(2030, time.March, 1, 12, 7, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(grid.Default.Floor(now), n) }

// world is a database of its own, with a pool of pgx.
type world struct {
	t      *testing.T
	url    string
	pool   *pgxpool.Pool
	db     *sqlx.DB // of lib/pq
	client *jobs.Client

	copies atomic.Int64 // how often pgx has copied
}

func setup(t *testing.T) *world {
	t.Helper()
	w := connect(t, pgtest.URL(t))
	var err error
	if w.client, err = jobs.NewClient(t.Context(), pgxjobs.Open(w.pool), jobs.Config{Now: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	return w
}

func connect(t *testing.T, url string) *world {
	t.Helper()
	w := &world{t: t, url: url}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Tracer = (*copyCounter)(&w.copies)
	if w.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if w.db, err = pgsql.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	return w
}

// copyCounter counts what pgx copies.
type copyCounter atomic.Int64

func (c *copyCounter) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	(*atomic.Int64)(c).Add(1)
	return ctx
}

func (*copyCounter) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

func (*copyCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*copyCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// begin begins a transaction of pgx.
func (w *world) begin() pgx.Tx {
	w.t.Helper()
	tx, err := w.pool.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// all are the ways to a database. end commits what is a transaction.
func (w *world) all() map[string]func() (db jobs.Tx, end func() error) {
	none := func() error { return nil }
	return map[string]func() (jobs.Tx, func() error){
		"lib/pq, a pool": func() (jobs.Tx, func() error) { return jobs.OwnTx(w.db), none },
		"lib/pq, a transaction": func() (jobs.Tx, func() error) {
			tx := w.db.MustBegin()
			return tx, tx.Commit
		},
		"pgx, a pool":             func() (jobs.Tx, func() error) { return jobs.OwnTx(pgxjobs.Open(w.pool)), none },
		"pgx, through its stdlib": func() (jobs.Tx, func() error) { return jobs.OwnTx(stdlib.OpenDBFromPool(w.pool)), none },
		"pgx, a transaction": func() (jobs.Tx, func() error) {
			tx := w.begin()
			return pgxjobs.Tx(tx), func() error { return tx.Commit(w.t.Context()) }
		},
	}
}

// check is a job on the entity "order <key>".
func check(key string, at time.Time) jobs.Request {
	j := jobs.Request{JobExec: "remind", EntityName: "order", EntityKey: key}
	j.CheckAt = at
	return j
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.GetContext(w.t.Context(), &n, query, args...); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}
