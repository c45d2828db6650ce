package sql

import (
	"context"
	"database/sql/driver"
)

type preparedConnector struct {
	driver.Connector
}

func (c preparedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &preparedConn{pqConn: base.(pqConn), prepared: map[string]stmt{}}, nil
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

// maxPrepared bounds what a connection keeps prepared, since the statements of checks go through it, too: an
// application may make a new text for every call. Ours are fewer.
const maxPrepared = 250

// preparedConn prepares each statement that has parameters when it first comes, for as long as the connection lives.
type preparedConn struct {
	pqConn
	prepared map[string]stmt
}

func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.pqConn.QueryContext(ctx, query, args)
	}
	return s.QueryContext(ctx, args)
}

func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.prepare(ctx, query, args)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.pqConn.ExecContext(ctx, query, args)
	}
	return s.ExecContext(ctx, args)
}

// prepare returns a statement that is prepared; nil for one that is to go as it is.
func (c *preparedConn) prepare(ctx context.Context, query string, args []driver.NamedValue) (stmt, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	if len(args) == 0 || len(c.prepared) == maxPrepared {
		return nil, nil
	}
	base, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.prepared[query] = base.(stmt)
	return c.prepared[query], nil
}
