package sql

import (
	"context"
	"database/sql/driver"
)

// NewConnector wraps a connector of lib/pq: its connections begin transactions of [BeginLazy] as it says, and keep
// statements prepared where that is wanted. [Open] uses it.
func NewConnector(base driver.Connector, prepare bool) driver.Connector {
	return connector{base, prepare}
}

type connector struct {
	driver.Connector
	prepare bool
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	wrapped := &conn{pqConn: base.(pqConn)}
	if c.prepare {
		wrapped.prepared = map[string]stmt{}
	}
	return wrapped, nil
}

// lazyDriver is the driver of pools of which BeginLazy may ask more.
type lazyDriver struct{ driver.Driver }

func (c connector) Driver() driver.Driver { return lazyDriver{c.Connector.Driver()} }

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

// maxPrepared bounds what a connection keeps prepared, since the statements of checks go through it, too: an
// application may make a new text for every call. Ours are fewer.
const maxPrepared = 250

type conn struct {
	pqConn
	prepared map[string]stmt // statements with parameters, from their first use on; nil: none is kept
	tx       *lazyTx         // that is under way; nil: none is, or one that is not lazy
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	within, ok := ctx.Value(lazy).(context.Context)
	if !ok {
		return c.pqConn.BeginTx(ctx, opts)
	}
	c.tx = &lazyTx{conn: c, ctx: within}
	return c.tx, nil
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx, query, err := c.tx.enter(ctx, query, len(args) == 0)
	if err != nil {
		return nil, err
	}
	s, err := c.keep(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.pqConn.QueryContext(ctx, query, args)
	}
	return s.QueryContext(ctx, args)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx, query, err := c.tx.enter(ctx, query, len(args) == 0)
	if err != nil {
		return nil, err
	}
	s, err := c.keep(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.pqConn.ExecContext(ctx, query, args)
	}
	return s.ExecContext(ctx, args)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	ctx, query, err := c.tx.enter(ctx, query, false)
	if err != nil {
		return nil, err
	}
	return c.pqConn.PrepareContext(ctx, query)
}

// keep returns a statement that is prepared; nil for one that is to go as it is.
func (c *conn) keep(ctx context.Context, query string, args []driver.NamedValue) (stmt, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	if c.prepared == nil || len(args) == 0 || len(c.prepared) == maxPrepared {
		return nil, nil
	}
	base, err := c.pqConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.prepared[query] = base.(stmt)
	return c.prepared[query], nil
}
