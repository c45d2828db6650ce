package testkit

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Start returns the default of Config.Start: Monday, 2100-01-04, 09:00 UTC.
func Start() time.Time { return time.Date(2100, time.January, 4, 9, 0, 0, 0, time.UTC) }

// Clock is a clock that the test moves. It is safe for concurrent use.
type Clock = replay.Clock

// NewClock returns a clock that is set to an instant, for a test without a Kit.
func NewClock(now time.Time) *Clock { return replay.NewClock(now) }

// Config configures a Kit. The zero value is the default.
type Config struct {
	// Registry has the jobs that runs know. Register all of them before New. Defaults to no jobs.
	Registry *jobs.Registry
	// Start is the first instant of the clock. Sessions of other pools than Kit.DB have the clock of the
	// server, so a test that uses them begins in the server's future. Defaults to the instant of the
	// function Start.
	Start time.Time
	// Width is the width of the slots. Defaults to 15 minutes.
	Width time.Duration
	// DB is a database that belongs to the test. New creates prescient's schema in it if it is
	// missing. Its SQL has the clock of the server, but prescient's functions and triggers have that of
	// the kit in checks with a transaction. Defaults to a new database, which is dropped at the end of
	// the test. Functions that a rule or a schedule calls with a role have the clock of the server in any
	// database.
	DB pgsql.Pool
	// Schema holds the tables of prescient. Defaults to "prescient".
	Schema string
}

// Kit is a database with the engine in virtual time. It belongs to one test. Its methods end the
// test on an error, so only the test's goroutine may call them. DB, Client, Now and Clock are safe
// for concurrent use.
type Kit struct {
	// DB is the database. The test creates the application's tables in it. now() in its SQL, also as
	// the default of a column, is the clock of the kit, unless Config.DB was given. current_timestamp
	// and clock_timestamp() are those of the server. For that, public comes before pg_catalog in the
	// search_path, so a table in public must not have the name of a type.
	DB *sqlx.DB
	// URL is the URL of the database, for an application that connects itself. Empty if Config.DB
	// was given.
	URL string
	// Clock moves time without a run. Slots that begin meanwhile are missed until RunDue.
	Clock *Clock
	// Client enqueues, cancels and reads. Runner and Ledger are for what the methods of the Kit do
	// not offer. All of them use the Clock.
	Client *jobs.Client
	Runner *slots.Runner
	Ledger *ledger.Ledger

	t        testing.TB
	replay   *replay.Replay
	registry *jobs.Registry // the test's, copied
	schema   string
	session  *session
	events   *events
}

// New returns a Kit for a test, and ends the test on an error. Each call makes a new one, so
// parallel tests share nothing. The log of runs goes to the log of the test.
func New(t testing.TB, cfg Config) *Kit {
	t.Helper()
	k := &Kit{DB: pg.Sqlx(cfg.DB), t: t, schema: cfg.Schema, session: &session{}, events: newEvents()}
	k.registry = cmp.Or(cfg.Registry, jobs.NewRegistry()).Clone()
	own := k.DB == nil
	if own {
		k.URL = pgtest.URL(t)
		var err error
		k.DB, err = pgsql.Open(t.Context(), k.URL, pg.Around(k.session.around), pgsql.Param("search_path", path))
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
		cfg.Start = Start()
	}
	k.replay, err = replay.New(t.Context(), replay.Config{
		DB: k.DB, Schema: cfg.Schema, Registry: k.registry, Start: cfg.Start,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	k.must(err)
	k.Clock, k.Client, k.Runner, k.Ledger = k.replay.Clock, k.replay.Client, k.replay.Runner, k.replay.Ledger
	virtual := own && !pgtest.OnCitus() // whose workers cannot read a table of another schema
	if virtual {
		k.must(makeNow(t.Context(), k.DB, schema, k.Now()))
	}
	k.session.follow(k.Clock, virtual)
	return k
}

// For returns the same kit for a subtest. Its methods then end the subtest.
func (k *Kit) For(t testing.TB) *Kit {
	sub := *k
	sub.t = t
	return &sub
}

func (k *Kit) setWidth(schema string, width time.Duration) {
	k.t.Helper()
	g, err := grid.New(width)
	k.must(err)
	l, err := ledger.New(k.t.Context(), k.DB, schema, nil)
	k.must(err)
	_, err = l.SetWidth(k.t.Context(), g)
	k.must(err)
}

// Now returns the clock's instant, in UTC.
func (k *Kit) Now() time.Time { return k.Clock.Now() }

// Enqueue enqueues a check for the first slot at or after an instant, in a transaction of its own;
// see jobs.Client.Enqueue. It keeps a row of the key that waits already. With the zero time it takes
// row.CheckAt. Two different instants end the test.
func (k *Kit) Enqueue(row jobs.Request, at time.Time) jobs.EnqueueResult {
	k.t.Helper()
	switch {
	case at.IsZero():
		at = row.CheckAt
	case !row.CheckAt.IsZero() && !row.CheckAt.Equal(at):
		k.t.Fatalf("enqueue %s: it is asked for %s, and its CheckAt is %s: give one of them", row.Key(), at, row.CheckAt)
	}
	row.CheckAt = at
	enqueued, err := k.Client.Enqueue(k.t.Context(), jobs.OwnTx(k.DB), row)
	k.must(err)
	return enqueued
}

func (k *Kit) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}
