package replay

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// poolSize is enough for two runners with the default configuration.
const poolSize = 32

// Connect opens a pool that is made for replays, several times as fast as any other: its connections prepare every
// statement once, and do not wait for the disk. The server must be reached directly, not through a pooler in
// transaction mode. url is a postgres:// URL or key=value pairs; pgsql.ErrURL is all that is said about a bad one.
// The pool is the caller's to close.
func Connect(ctx context.Context, url string) (*sqlx.DB, error) {
	cfg, err := pq.NewConfig(url)
	if err != nil {
		return nil, pgsql.ErrURL
	}
	if cfg.SSLMode == "" {
		cfg.SSLMode = pq.SSLModePrefer
	}
	if cfg.Runtime == nil {
		cfg.Runtime = map[string]string{}
	}
	cfg.Runtime["synchronous_commit"] = "off"
	cfg.Runtime["plan_cache_mode"] = "force_generic_plan" // most of the work of a small slot is planning
	base, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, pgsql.ErrURL
	}
	db := sqlx.NewDb(sql.OpenDB(connector{base}), "postgres")
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the database: %w", err), db.Close())
	}
	return db, nil
}

type connector struct {
	driver.Connector
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{pqConn: base.(pqConn), prepared: map[string]stmt{}}, nil
}

// pqConn and stmt are what database/sql uses of a connection of the driver and of its statements.
type pqConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// conn prepares each statement that has parameters when it first comes, for as long as the connection lives.
type conn struct {
	pqConn
	prepared map[string]stmt
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) == 0 {
		return c.pqConn.QueryContext(ctx, query, args)
	}
	s, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 0 {
		return c.pqConn.ExecContext(ctx, query, args)
	}
	s, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args)
}

func (c *conn) prepare(ctx context.Context, query string) (stmt, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	base, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.prepared[query] = base.(stmt)
	return c.prepared[query], nil
}
