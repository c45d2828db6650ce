package pgxjobs

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// querier is implemented by transactions and connections of pgx.
type querier interface {
	copier
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// conn is a connection of database/sql over a transaction or a connection of pgx.
type conn struct {
	on    querier
	types *pgtype.Map
}

func (c *conn) Close() error { return nil }

func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("there is a transaction already") }

func (c *conn) Prepare(query string) (driver.Stmt, error) { return &stmt{conn: c, query: query}, nil }

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := c.on.Exec(ctx, query, values(args)...)
	return driver.RowsAffected(tag.RowsAffected()), explain(err)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	list, err := c.on.Query(ctx, query, values(args)...)
	if err != nil {
		return nil, explain(err)
	}
	return &rows{list, c.types}, nil
}

func values(args []driver.NamedValue) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg.Value
	}
	return list
}

// explain tells database/sql that a connection is broken if nothing was sent on it.
func explain(err error) error {
	if pgconn.SafeToRetry(err) {
		return errors.Join(driver.ErrBadConn, err)
	}
	return err
}

// poolConn is a connection of a pool. It has transactions of its own, and sends several statements
// at once as lib/pq does.
type poolConn struct {
	conn
	pooled *pgxpool.Conn
	tx     pgx.Tx     // under way
	leased sync.Mutex // locked while the transaction is lent
}

// txLease is the transaction of a poolConn, until it is given back.
type txLease struct {
	tx      pgx.Tx
	release func()
}

func (c *poolConn) Close() error {
	c.pooled.Release()
	return nil
}

func (c *poolConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var options pgx.TxOptions
	if level := sql.IsolationLevel(opts.Isolation); level != sql.LevelDefault {
		options.IsoLevel = pgx.TxIsoLevel(strings.ToLower(level.String()))
	}
	if opts.ReadOnly {
		options.AccessMode = pgx.ReadOnly
	}
	var err error
	c.tx, err = c.pooled.BeginTx(ctx, options)
	return &txEnd{c, ctx}, explain(err)
}

// CheckNamedValue leaves a loan for ExecContext to fill in.
func (c *poolConn) CheckNamedValue(arg *driver.NamedValue) error {
	if _, ok := arg.Value.(*txLease); ok {
		return nil
	}
	return driver.ErrSkip
}

// ExecContext lends the transaction to a caller that passes a loan.
func (c *poolConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 1 {
		if l, ok := args[0].Value.(*txLease); ok {
			c.leased.Lock()
			l.tx, l.release = c.tx, c.leased.Unlock
			return driver.ResultNoRows, nil
		}
	}
	return c.conn.ExecContext(ctx, query, args)
}

func (c *poolConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 {
		return c.conn.QueryContext(ctx, query, args)
	}
	results := &results{rows{types: c.types}, c.pooled.Conn().PgConn().Exec(ctx, query)}
	if err := results.NextResultSet(); err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(err)
	}
	return results, nil
}

// txEnd ends a transaction of a poolConn.
type txEnd struct {
	on  *poolConn
	ctx context.Context
}

func (e *txEnd) Commit() error { return explain(e.on.tx.Commit(e.ctx)) }

// Rollback is also called by database/sql when the context of the transaction ends, even while it
// is lent. It then cuts the connection: the check need not return soon, and one goroutine at a time
// may use a connection of pgx.
func (e *txEnd) Rollback() error {
	if !e.on.leased.TryLock() {
		wire := e.on.pooled.Conn().PgConn()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), cutTimeout)
		_ = wire.CancelRequest(ctx)
		cancel()
		_ = wire.Conn().Close()
		e.on.leased.Lock()
	}
	defer e.on.leased.Unlock()
	if own := e.on.pooled.Conn(); own.PgConn().IsBusy() { // the check has left rows open: no statement can follow
		return own.Close(e.ctx)
	}
	return explain(e.on.tx.Rollback(e.ctx))
}

// cutTimeout bounds the request to cancel a statement, which needs a connection of its own.
const cutTimeout = 5 * time.Second
