// Package replay runs jobs in virtual time through the real engine. It shows what a set of checks
// would have done with past events. Package testkit does the same for tests.
//
// A replay works in a schema of its own, which it drops at the end. So it can use any database, and
// touches nothing else in it:
//
//	r, err := replay.Open(ctx, db, registry, start)
//	defer r.Close(ctx)
//	for r.Now().Before(end) {
//		// apply what happened up to and including r.Now(), enqueue through r.Client
//		result, err := r.Run(ctx)
//		skipped, err := r.Skip(ctx, end) // or to the next event
//	}
package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Replay is an engine with a clock that stands still between its steps. Only one goroutine may use
// it.
type Replay struct {
	*Clock
	// Schema is the name of the replay's schema. It may also hold tables of the caller.
	Schema string
	// Client enqueues, Runner runs and Ledger reads, all in virtual time.
	Client *jobs.Client
	Runner *slots.Runner
	Ledger *ledger.Ledger

	db  *sqlx.DB
	cfg Config
}

// Config configures a replay in an existing schema. DB and Registry must be set.
type Config struct {
	DB       pgsql.Pool
	Schema   string // migrated, with an empty ledger. Defaults to "prescient"
	Registry *jobs.Registry
	Start    time.Time    // first instant of the clock
	Logger   *slog.Logger // gets warnings. Defaults to slog.Default()
}

// Open creates the schema and sets the clock to start. The ledger begins at the first slot at or
// after start. Jobs that are registered later are not run. Use a pool of Connect for db: it is much
// faster. A crash may then lose only what can be replayed.
func Open(ctx context.Context, db pgsql.Pool, registry *jobs.Registry, start time.Time) (*Replay, error) {
	made := &Replay{Schema: "prescient_replay_" + strings.ToLower(rand.Text()[:12]), db: pg.Sqlx(db)}
	if err := pgsql.Migrate(ctx, db, pgsql.Schema(made.Schema)); err != nil {
		return nil, errors.Join(err, made.Close(ctx))
	}
	r, err := New(ctx, Config{DB: db, Schema: made.Schema, Registry: registry, Start: start})
	if err != nil {
		return nil, errors.Join(err, made.Close(ctx))
	}
	return r, nil
}

// New is Open in an existing schema, for a caller with a database of its own. Close is then
// optional.
func New(ctx context.Context, cfg Config) (r *Replay, err error) {
	r = &Replay{
		Clock: NewClock(cfg.Start), Schema: cfg.Schema, Runner: new(slots.Runner), db: pg.Sqlx(cfg.DB), cfg: cfg,
	}
	if r.Ledger, err = ledger.New(ctx, cfg.DB, cfg.Schema, r.Now); err != nil {
		return nil, err
	}
	if err = r.Ledger.Begin(ctx, r.Ledger.Grid().Ceil(r.Now())); err != nil {
		return nil, err
	}
	if r.Client, err = jobs.NewClient(ctx, cfg.DB, jobs.Config{Schema: cfg.Schema, Now: r.Now}); err != nil {
		return nil, err
	}
	return r, r.Learn(ctx)
}

// Learn lets the Runner know the rules that were applied since it was made. No run may be under way.
func (r *Replay) Learn(ctx context.Context) error {
	made, err := slots.NewRunner(ctx, slots.Config{
		DB: r.cfg.DB, Schema: r.cfg.Schema, Registry: r.cfg.Registry, Name: "replay", Now: r.Now, Logger: r.cfg.Logger,
		LeaveLocked: true, // otherwise a run waits until the clock has moved on
	})
	if err != nil {
		return err
	}
	*r.Runner = *made // callers keep the one that they have
	return nil
}

// Run runs the slot at the clock's instant.
func (r *Replay) Run(ctx context.Context) (slots.Result, error) {
	return r.Runner.Run(ctx, r.Runner.Due(""))
}

// Skip moves the clock from its slot to the next slot with rows, or to `to`, a later slot,
// whichever is earlier. It returns how many slots lie between. They have no rows, and Skip enters
// them in the ledger at once, as if each had been run.
func (r *Replay) Skip(ctx context.Context, to time.Time) (skipped int64, err error) {
	if !to.After(r.Ledger.Grid().Next(r.Now())) { // no slot between
		r.Set(to)
		return 0, nil
	}
	var slot time.Time
	err = pgsql.InTx(ctx, r.db, func(tx *sqlx.Tx) error {
		return tx.QueryRowContext(ctx, pg.LedgerSkip.In(pgsql.Schema(r.Schema)), r.Now(), to).Scan(&slot, &skipped)
	})
	if err != nil {
		return 0, fmt.Errorf("skip empty slots: %w", err)
	}
	r.Set(slot)
	return skipped, nil
}

// Close drops the schema and everything in it. The database stays open.
func (r *Replay) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	err := pgsql.InTx(ctx, r.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, "drop schema if exists "+pq.QuoteIdentifier(r.Schema)+" cascade")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", r.Schema, err)
	}
	return nil
}
