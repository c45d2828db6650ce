package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/engine/bridge"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a Client. The zero value is the default.
type Config struct {
	// Schema holds the tables. Default "prescient".
	Schema string
	// Horizon is how far ahead a check may be asked for; beyond it a date is taken for a mistake. Default 5 years.
	Horizon time.Duration
	// MaxPayload limits a payload, in bytes. The database takes at most 1048576 of its text. Defaults to 65536.
	MaxPayload int
	// Registry are the jobs that runs know, where the application has them at hand: a check of another is enqueued, and
	// Logger is warned, once for each job. Default: nobody looks.
	Registry *Registry
	// Logger is warned. Default slog.Default().
	Logger *slog.Logger
	// Now is what instants are compared with, for a replay of the past or the future. Default: the database's clock.
	Now func() time.Time
}

// DefaultMaxPayload is the payload limit in bytes where Config sets none.
const DefaultMaxPayload = 64 << 10

// Client asks for checks, cancels and moves them, and reads what waits and what ended.
// It holds no connection and is safe for concurrent use.
//
// If the schema has roles (see pgsql.MakeRoles), the role of an app may enqueue, cancel and move. EnqueueAll is faster as a
// runner. Package admin has what operators do.
type Client struct {
	cfg     Config
	warned  *sync.Map // the names of jobs that Registry has not
	schema  pgsql.Schema
	setting pgsql.Setting
}

// DB is where a call goes. In a *sql.Tx or *sqlx.Tx it is part of that transaction; a *sql.DB or *sqlx.DB gets a
// transaction of its own.
type DB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// NewClient reads the grid and the clock from the database, through any driver for PostgreSQL. It returns
// pgsql.ErrNotMigrated where the schema is missing. After a change of the width, a client made before rounds to the old
// grid and the database to the new one.
func NewClient(ctx context.Context, db pgsql.Pool, cfg Config) (*Client, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	cfg.Horizon = cmp.Or(cfg.Horizon, DefaultHorizon)
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, DefaultMaxPayload)
	if cfg.Horizon < 0 || cfg.MaxPayload < 0 {
		return nil, errors.New("jobs.Config: Horizon and MaxPayload must not be negative")
	}
	setting, err := pgsql.ReadSetting(ctx, db, schema)
	if err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Client{cfg: cfg, warned: new(sync.Map), schema: schema, setting: setting}, nil
}

func init() {
	bridge.ClientOf = func(client any) bridge.Client {
		c := client.(*Client)
		return bridge.Client{Schema: c.schema, Now: c.now, Clock: c.clock, ValidateDue: c.validateDue, ValidateName: validateJobName}
	}
	bridge.Scan = func(row *sql.Rows, job any, more ...any) error { return job.(*FutureJob).scan(row, more...) }
}

// warnUnregistered warns of a job that runs do not know, as far as the application can tell.
func (c *Client) warnUnregistered(job string) {
	if c.cfg.Registry == nil {
		return
	}
	if _, known := c.cfg.Registry.registered[job]; known {
		return
	}
	if _, before := c.warned.LoadOrStore(job, true); !before {
		c.cfg.Logger.Warn("enqueued a check of a job that is not registered: it waits until a run knows the job", "job", job)
	}
}

// FromNow returns the instant so long after now, by the clock that slots are compared with: a FutureJob's CheckAt.
func (c *Client) FromNow(wait time.Duration) time.Time { return c.now().Add(wait) }

// Grid returns the grid of the database.
func (c *Client) Grid() grid.Grid { return c.setting.Grid }

func (c *Client) now() time.Time {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return c.setting.Now()
}

// clock is the parameter by which statements learn of a replayed clock: nil asks the database.
func (c *Client) clock() any {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return nil
}

// row runs a statement that returns one row, in the caller's transaction or in one of its own.
func (c *Client) row(ctx context.Context, db DB, stmt pgsql.Statement, args []any, dest ...any) error {
	return tx.In(ctx, db, func(db tx.DB) error {
		return pgsql.One(ctx, db, stmt.In(c.schema), args, dest...)
	})
}

// list runs a statement that only reads and returns its rows, each as scan fills it in.
func list[T any](ctx context.Context, c *Client, db DB, stmt pgsql.Statement, args []any, scan func(row *sql.Rows, v *T) error) (rows []T, err error) {
	err = tx.Read(ctx, db, func(db tx.DB) error {
		rows, err = pgsql.Collect(ctx, db, stmt.In(c.schema), args, scan)
		return err
	})
	return rows, err
}
