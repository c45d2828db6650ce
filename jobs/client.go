package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a Client. The zero value is the default.
type Config struct {
	// Schema holds the tables. Default "prescient".
	Schema string
	// Horizon limits how far ahead a check may be enqueued, because a later date is probably a
	// mistake. Default 5 years. The database takes at most 100 years.
	Horizon time.Duration
	// MaxPayload limits a payload, in bytes. The database takes at most 1048576 of its text.
	// Default 65536.
	MaxPayload int
	// Registry has the jobs that runs know, if the application can name them. A check of any other
	// job is enqueued, and Logger gets one warning for each job. Optional.
	Registry *Registry
	// Around wraps every enqueue of the client. The first is the outermost. Optional.
	Around []EnqueueMiddleware
	// Logger receives warnings. Default slog.Default().
	Logger *slog.Logger
	// Now is the clock that instants are compared with, for a replay of the past or the future. The
	// database takes it only from a role that is a runner. Default: the database's.
	Now func() time.Time
	// Setting has the result of pgsql.ReadSetting for the schema, so that it is not read again. Optional.
	Setting *pgsql.Setting
}

// Client enqueues, cancels and moves checks. It reads only those that wait beside a check, see Related. It holds no
// connection and is safe for concurrent use.
//
// If the schema has roles (see pgsql.MakeRoles), the role of an app may enqueue, cancel and move.
// EnqueueAll is faster as a runner. Package admin has the methods for operators.
type Client struct {
	cfg     Config
	warned  *sync.Map // the jobs that Registry lacks and Logger was warned about
	pool    pgsql.Pool
	schema  pgsql.Schema
	setting pgsql.Setting
}

// DB runs the statements of a call that reads, and of what packages admin and schedule write. With a *sql.Tx or
// *sqlx.Tx the call is part of that transaction. With a *sql.DB or *sqlx.DB it runs in a new transaction.
type DB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Tx is the transaction that a call is part of, such as a *sql.Tx or *sqlx.Tx: what the call writes is committed or
// rolled back with it. A *sql.DB and a *sqlx.DB are none, because a check that is enqueued through a pool exists also
// if the transaction that created the need for it is rolled back. See Client.EnqueueNow and OwnTx.
type Tx interface {
	DB
	Commit() error
	Rollback() error
}

// OwnTx stands for a transaction that begins with a call and is committed before the call returns. So what the call
// writes does not depend on any other transaction. db may be a *sql.DB or *sqlx.DB. Of another type, or of nil, it
// returns nil, which each call refuses.
func OwnTx(db pgsql.Pool) Tx {
	if pool := pg.Sqlx(db); pool != nil {
		return ownTx{pool}
	}
	return nil
}

// ownTx is a pool, in which each call begins a transaction.
type ownTx struct{ *sqlx.DB }

var errOwnTx = errors.New("jobs.OwnTx is no transaction that the caller may end: each call has committed its own")

func (ownTx) Commit() error   { return errOwnTx }
func (ownTx) Rollback() error { return errOwnTx }

// NewClient returns a client. It reads the grid and the clock from the database, through any driver
// for PostgreSQL. It returns pgsql.ErrNotMigrated if the schema is missing. After a change of the
// width, an older client rounds to the old grid and the database rounds to the new one.
func NewClient(ctx context.Context, db pgsql.Pool, cfg Config) (*Client, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	cfg.Horizon = cmp.Or(cfg.Horizon, DefaultHorizon)
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, defaults.MaxPayload)
	if cfg.Horizon < 0 || cfg.MaxPayload < 0 {
		return nil, errors.New("jobs.Config: Horizon and MaxPayload must not be negative")
	}
	if problem := spoken.Unitless(cfg.Horizon); problem != "" {
		return nil, errors.New("jobs.Config: Horizon: " + problem)
	}
	if slices.ContainsFunc(cfg.Around, func(m EnqueueMiddleware) bool { return m == nil }) {
		return nil, errors.New("jobs.Config: a middleware of Around is nil")
	}
	if cfg.Setting == nil {
		setting, err := pgsql.ReadSetting(ctx, db, schema)
		if err != nil {
			return nil, err
		}
		cfg.Setting = &setting
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Client{cfg: cfg, warned: new(sync.Map), pool: db, schema: schema, setting: *cfg.Setting}, nil
}

// warnUnregistered logs a warning, once for each job, about a job that Registry lacks.
func (c *Client) warnUnregistered(job string) {
	if c.cfg.Registry == nil {
		return
	}
	if _, known := c.cfg.Registry.Lookup(job); known {
		return
	}
	if _, before := c.warned.LoadOrStore(job, true); !before {
		c.cfg.Logger.Warn("enqueued a check of a job that is not registered: it waits until a run knows the job", "job", job)
	}
}

// FromNow returns the instant that is wait after now, for Request.CheckAt. It uses the clock of Now, which is the
// database's as NewClient has read it.
func (c *Client) FromNow(wait time.Duration) time.Time { return c.Now().Add(wait) }

// Pool returns the pool that the client was made with.
func (c *Client) Pool() pgsql.Pool { return c.pool }

// Schema returns the schema of the tables.
func (c *Client) Schema() pgsql.Schema { return c.schema }

// Grid returns the grid of the database.
func (c *Client) Grid() grid.Grid { return c.setting.Grid }

// Now returns the present by the clock that slots are compared with: Config.Now, or the database's clock. NewClient
// reads the database's clock once, and Now adds the time since then. So make a new client after that clock was set, or
// after this machine was suspended: the time of a suspension does not count, and Now would be early by it.
func (c *Client) Now() time.Time {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return c.setting.Now()
}

// Clock returns the instant of Config.Now as a parameter of statements. Nil asks the database. It is for prescient's
// packages alone.
func (c *Client) Clock(_ reserved.Caller) any { return c.clock() }

func (c *Client) clock() any {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return nil
}

// row runs a statement that returns one row, in the caller's transaction or in a new one.
func (c *Client) row(ctx context.Context, db DB, stmt pg.Statement, args []any, dest ...any) error {
	return tx.In(ctx, db, func(db tx.DB) error {
		return pg.One(pg.Often(ctx), db, stmt.In(c.schema), args, dest...)
	})
}
