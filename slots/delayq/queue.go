package delayq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a Queue. Schema must be set; every other zero field means its default. Schema and Width must be the same
// in every process that opens the queue; the rest is for Run.
type Config struct {
	// Schema is the queue's own schema, which names it: it holds nothing else.
	Schema string
	// Width is the distance between two slots, and so the most an item is late when all is well: whole seconds that
	// divide 24 h. An empty slot costs some ten milliseconds and a row of some 100 bytes. Default 1 minute.
	Width time.Duration
	// Workers is how many items of a slot are handled at once. Default 64.
	Workers int
	// Retry is how many errors in a row are tried again, 1, 2, 4 ... slots later (64 at the most), before the item is
	// given up and is in history as failed. Default 5; negative: none.
	Retry int
	// Timeout ends the context of a call of handle. Default 1 minute.
	Timeout time.Duration
	// Grace is what running calls get to finish when Run is to end, and what one that ignores its timeout gets.
	// Default 20 s.
	Grace time.Duration
	// Lease is how long the items that a process holds stay with it when it is not heard of, and so when those of one
	// that was killed are handled by another. Default 1 minute, at least 1 second.
	Lease time.Duration
	// Keep is how long items that were handled or given up are kept in history, to the month, and slots in the ledger.
	// Default 30 days; negative: for ever, which makes a queue of narrow slots slower to start from year to year.
	Keep time.Duration
	// Logger gets warnings, and a line for every slot with items. Default: slog.Default().
	Logger *slog.Logger
}

const (
	// DefaultWidth is the width of a queue's grid where Config sets none.
	DefaultWidth = time.Minute
	// DefaultKeep is how long a queue keeps history where Config does not say.
	DefaultKeep = 30 * 24 * time.Hour
	// MaxData is the most data of an item, in bytes.
	MaxData = 64 << 10
)

// job is the one job of a queue, and entity what its rows are about.
const job, entity = "delayq", "item"

// Queue is an open queue. It holds no connection and is safe for concurrent use.
type Queue struct {
	db     *sqlx.DB
	cfg    Config
	client *jobs.Client

	open  context.Context // until Close, for the methods without one
	close context.CancelFunc
}

// Open opens the queue, and makes its schema where it is missing; any number of processes may do so at once. That
// needs a role that may create schemas, and a connection to PostgreSQL itself rather than a pooler; where there is
// none, make it beforehand with `prescient --schema mail migrate up` and `prescient --schema mail slots set-width 1s`.
// A queue of another width is an error. ctx is that of opening it alone: the queue is open until Close.
func Open(ctx context.Context, db pgsql.Pool, cfg Config) (*Queue, error) {
	cfg.Width = cmp.Or(cfg.Width, DefaultWidth)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := ensure(ctx, db, cfg); err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Schema, err)
	}
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: cfg.Schema, MaxPayload: maxPayload})
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", cfg.Schema, err)
	}
	q := &Queue{db: pgsql.Sqlx(db), cfg: cfg, client: client}
	q.open, q.close = context.WithCancel(context.WithoutCancel(ctx))
	return q, nil
}

func (c Config) validate() error {
	switch {
	case c.Schema == "":
		return errors.New("delayq.Config: Schema must be set: it is the name of the queue")
	case c.Schema == pgsql.DefaultSchema.String():
		return fmt.Errorf("delayq.Config: Schema must not be %q, which is for the jobs of the application", c.Schema)
	case c.Workers < 0 || c.Timeout < 0 || c.Grace < 0:
		return errors.New("delayq.Config: Workers, Timeout and Grace must not be negative")
	case c.Lease != 0 && c.Lease < slots.MinLease:
		return fmt.Errorf("delayq.Config: Lease must be at least %s", slots.MinLease)
	}
	_, err := grid.New(c.Width)
	if err == nil {
		_, err = pgsql.ParseSchema(c.Schema)
	}
	if err != nil {
		return fmt.Errorf("delayq.Config: %w", err)
	}
	return nil
}

// ensure makes the schema and sets the width of a new one.
func ensure(ctx context.Context, db pgsql.Pool, cfg Config) error {
	ledger, err := slots.NewLedger(ctx, db, cfg.Schema, nil)
	if errors.Is(err, pgsql.ErrNotMigrated) {
		if err = pgsql.Migrate(ctx, db, pgsql.Schema(cfg.Schema)); err == nil {
			ledger, err = slots.NewLedger(ctx, db, cfg.Schema, nil)
		}
	}
	if err != nil || ledger.Grid().Width() == cfg.Width {
		return err
	}
	failed := setWidth(ctx, db, cfg, ledger)
	// Another process that opens the queue for the first time may have been faster, and is using it already.
	ledger, err = slots.NewLedger(ctx, db, cfg.Schema, nil)
	if err != nil || ledger.Grid().Width() == cfg.Width {
		return err
	}
	return failed
}

// setWidth sets the width of a queue that was never used, and whose width nobody has set.
func setWidth(ctx context.Context, db pgsql.Pool, cfg Config, ledger *slots.Ledger) error {
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: cfg.Schema})
	if err != nil {
		return err
	}
	waiting, err := admin.New(client).List(ctx, db, admin.Filter{Limit: 1})
	if err != nil {
		return err
	}
	runs, err := ledger.List(ctx, time.Time{}, time.Time{}, 1)
	if err != nil {
		return err
	}
	if len(waiting) > 0 || len(runs) > 0 || ledger.Grid() != grid.Default {
		return fmt.Errorf("its slots are %s wide, not %s: correct delayq.Config, or change it with: prescient --schema %s slots set-width %[2]s",
			ledger.Grid(), cfg.Width, cfg.Schema)
	}
	g, err := grid.New(cfg.Width)
	if err == nil {
		_, err = ledger.SetWidth(ctx, g)
	}
	return err
}
