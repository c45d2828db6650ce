package testkit

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/replay"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Start is where the clock of a Kit stands at first, where its Config does not say: on a Monday morning, in the future.
var Start = time.Date(2100, time.January, 4, 9, 0, 0, 0, time.UTC)

// Clock is a clock that the test moves. It is safe for concurrent use.
type Clock = replay.Clock

// NewClock returns a clock that is set to an instant, for a test that has no Kit.
func NewClock(now time.Time) *Clock { return replay.NewClock(now) }

// Config of a Kit. The zero value is the default.
type Config struct {
	// Registry are the jobs that runs know: all of them before New. Default: none.
	Registry *jobs.Registry
	// Start is where the clock stands at first. The functions in SQL go by the database's clock, and put what would be in
	// its past into the next slot: a test of something that calls them begins in the future. Default: the variable Start.
	Start time.Time
	// Width of the slots. Default 15 minutes.
	Width time.Duration
	// DB is a database that the test has already, for itself; prescient's schema is made in it where it is missing.
	// Default: a new one, which is dropped at the end of the test.
	DB pgsql.Pool
	// Schema holds the tables of prescient. Default "prescient".
	Schema string
}

// Kit is a database with the engine in virtual time. It belongs to one test, and its methods, which end the test where
// they fail, to the test's goroutine; DB, Client, Now and Clock are safe for concurrent use.
type Kit struct {
	// DB is the database. What the application needs in it, such as its tables, the test makes.
	DB *sqlx.DB
	// URL is where the database is, for an application that connects itself; empty where Config.DB was given.
	URL string
	// Clock is moved without a run: what falls due meanwhile is missed, until RunDue.
	Clock *Clock
	// Client enqueues, cancels and reads; Runner and Ledger are for what the methods of the Kit do not do. All of them
	// go by the Clock.
	Client *jobs.Client
	Runner *slots.Runner
	Ledger *slots.Ledger

	t      testing.TB
	replay *replay.Replay
}

// New returns a Kit for a test, which fails where that cannot be had. Each call makes another one; parallel tests share
// nothing. What runs log goes to the log of the test.
func New(t testing.TB, cfg Config) *Kit {
	t.Helper()
	k := &Kit{DB: pgsql.Sqlx(cfg.DB), t: t}
	if k.DB == nil {
		k.URL = pgtest.URL(t)
		var err error
		k.DB, err = pgsql.Open(t.Context(), k.URL)
		k.must(err)
		t.Cleanup(func() { _ = k.DB.Close() })
	}
	schema, err := pgsql.ParseSchema(cfg.Schema)
	k.must(err)
	k.must(pgsql.Migrate(t.Context(), k.DB, schema))
	if cfg.Width != 0 {
		k.setWidth(cfg.Schema, cfg.Width)
	}
	if cfg.Start.IsZero() {
		cfg.Start = Start
	}
	k.replay, err = replay.New(t.Context(), replay.Config{
		DB: k.DB, Schema: cfg.Schema, Registry: cmp.Or(cfg.Registry, jobs.NewRegistry()), Start: cfg.Start,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	k.must(err)
	k.Clock, k.Client, k.Runner, k.Ledger = k.replay.Clock, k.replay.Client, k.replay.Runner, k.replay.Ledger
	return k
}

// For returns the same kit for a subtest, which is then what its methods end.
func (k *Kit) For(t testing.TB) *Kit {
	sub := *k
	sub.t = t
	return &sub
}

func (k *Kit) setWidth(schema string, width time.Duration) {
	k.t.Helper()
	g, err := grid.New(width)
	k.must(err)
	ledger, err := slots.NewLedger(k.t.Context(), k.DB, schema, nil)
	k.must(err)
	_, err = ledger.SetWidth(k.t.Context(), g)
	k.must(err)
}

// Now is where the clock stands, in UTC.
func (k *Kit) Now() time.Time { return k.Clock.Now() }

// Enqueue asks for a check at the first slot at or after an instant, in a transaction of its own; see jobs.Client.Enqueue.
// A key that waits already is kept.
func (k *Kit) Enqueue(row jobs.FutureJob, at time.Time) jobs.EnqueueResult {
	k.t.Helper()
	row.CheckAt = at
	enqueued, err := k.Client.Enqueue(k.t.Context(), k.DB, row)
	k.must(err)
	return enqueued
}

func (k *Kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}
