package delayq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a Queue. Schema must be set; every other zero field means its default. Schema
// and Width must be the same in every process that opens the queue. The other fields are for Run.
type Config struct {
	// Schema is the queue's own schema and its name. It holds nothing else.
	Schema string
	// Width is the distance between two slots, in whole seconds that divide 24 h. It also bounds
	// how late an item is when all is well. An empty slot costs some ten milliseconds and a row of
	// some 100 bytes. Defaults to 1 minute.
	Width time.Duration
	// Workers bounds the items of a slot that are handled at once. Defaults to 64.
	Workers int
	// Retry is how many errors in a row are retried, 1, 2, 4 ... slots later (at most 64). The next
	// error ends the item, which is then in history as failed. Defaults to 5. Negative: no retries.
	Retry int
	// Timeout ends the context of a call of handle. Defaults to 1 minute.
	Timeout time.Duration
	// Grace is how long running calls may go on when Run ends, and a call that ignores its timeout.
	// Defaults to 20 s.
	Grace time.Duration
	// Lease is how long a silent process keeps its items. Another process then handles them.
	// Defaults to 1 minute; at least 1 second.
	Lease time.Duration
	// Keep is how long ended items stay in history, in whole months, and slots in the ledger.
	// Defaults to 30 days. Negative: for ever, which makes a queue of narrow slots slower to start
	// from year to year.
	Keep time.Duration
	// Logger gets warnings, and a line for every slot with items. Defaults to slog.Default().
	Logger *slog.Logger
}

const (
	// DefaultWidth is the default of Config.Width.
	DefaultWidth = time.Minute
	// DefaultKeep is the default of Config.Keep.
	DefaultKeep = 30 * 24 * time.Hour
	// MaxData bounds the data of an item, in bytes.
	MaxData = 64 << 10
)

// job is the only job of a queue, entity the entity of its rows.
const job, entity = "delayq", "item"

// Queue is an open queue. It holds no connection and is safe for concurrent use.
type Queue struct {
	db     *sqlx.DB
	cfg    Config
	client *jobs.Client

	open  context.Context // until Close, for the methods without one
	close context.CancelFunc
}

// Open opens the queue, and creates its schema if it is missing. Any number of processes may do so
// concurrently. Creating it needs a role that may create schemas, and a connection to PostgreSQL
// itself rather than a pooler. Otherwise create it before with `prescient --schema mail migrate up`
// and `prescient --schema mail slots set-width 1s`.
//
// Returns an error if the queue has another width. ctx is only for the opening: the queue stays
// open until Close.
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
	q := &Queue{db: pg.Sqlx(db), cfg: cfg, client: client}
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
	case spoken.Unitless(c.Timeout)+spoken.Unitless(c.Grace)+spoken.Unitless(c.Keep) != "":
		return fmt.Errorf("delayq.Config: %s%s%s", spoken.Unitless(c.Timeout), spoken.Unitless(c.Grace),
			spoken.Unitless(c.Keep))
	case c.Lease != 0 && c.Lease < claim.MinLease:
		return fmt.Errorf("delayq.Config: Lease must be at least %s", claim.MinLease)
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

// ensure creates the schema and sets the width of a new one.
func ensure(ctx context.Context, db pgsql.Pool, cfg Config) error {
	l, err := ledger.New(ctx, db, cfg.Schema, nil)
	if errors.Is(err, pgsql.ErrNotMigrated) {
		if err = pgsql.Migrate(ctx, db, pgsql.Schema(cfg.Schema)); err == nil {
			l, err = ledger.New(ctx, db, cfg.Schema, nil)
		}
	}
	if err != nil || l.Grid().Width() == cfg.Width {
		return err
	}
	failed := setWidth(ctx, db, cfg, l)
	// Another process that opens the queue for the first time may have been faster, and is using it
	// already.
	l, err = ledger.New(ctx, db, cfg.Schema, nil)
	if err != nil || l.Grid().Width() == cfg.Width {
		return err
	}
	return failed
}

// setWidth sets the width of a queue that was never used and whose width was never set.
func setWidth(ctx context.Context, db pgsql.Pool, cfg Config, l *ledger.Ledger) error {
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: cfg.Schema})
	if err != nil {
		return err
	}
	waiting, _, err := admin.New(client).ListPage(ctx, db, admin.Filter{Limit: 1})
	if err != nil {
		return err
	}
	runs, err := seq.Collect(l.List(ctx, time.Time{}, time.Time{}, 1))
	if err != nil {
		return err
	}
	if len(waiting) > 0 || len(runs) > 0 || l.Grid() != grid.Default {
		return fmt.Errorf("its slots are %s wide, not %s: correct delayq.Config, or change it with: "+
			"prescient --schema %s slots set-width %[2]s", l.Grid(), cfg.Width, cfg.Schema)
	}
	g, err := grid.New(cfg.Width)
	if err == nil {
		_, err = l.SetWidth(ctx, g)
	}
	return err
}
