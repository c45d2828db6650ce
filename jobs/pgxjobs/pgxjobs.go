package pgxjobs

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
)

// Tx returns a transaction of pgx for the calls of a client. Their writes are part of it. The
// caller commits it or rolls it back. One goroutine at a time may use it. It costs nothing and
// needs no closing.
func Tx(tx pgx.Tx) jobs.Tx { return txAdapter{tx} }

// txAdapter is a transaction of pgx for database/sql.
type txAdapter struct{ tx pgx.Tx }

// txKey is the context key of a transaction.
type txKey struct{}

// txPool is a pool whose connections exist for one statement each: the transaction of the
// statement's context.
var txPool = sync.OnceValue(func() *sql.DB {
	db := sql.OpenDB(connector(func(ctx context.Context) (driver.Conn, error) {
		tx, ok := ctx.Value(txKey{}).(pgx.Tx)
		if !ok {
			return nil, errors.New("there is no transaction of pgx: tx is nil")
		}
		return &conn{tx, tx.Conn().TypeMap()}, nil
	}))
	db.SetMaxIdleConns(-1)
	return db
})

// Commit and Rollback end the transaction of pgx.
func (g txAdapter) Commit() error   { return g.tx.Commit(context.Background()) }
func (g txAdapter) Rollback() error { return g.tx.Rollback(context.Background()) }

func (g txAdapter) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return txPool().QueryContext(context.WithValue(ctx, txKey{}, g.tx), query, args...)
}

func (g txAdapter) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return txPool().ExecContext(context.WithValue(ctx, txKey{}, g.tx), query, args...)
}

// CopyFrom runs a statement "copy ... from stdin", and returns how many rows the server wrote.
func (g txAdapter) CopyFrom(ctx context.Context, query string, rows iter.Seq[[]any]) (written int64, err error) {
	return copyRows(ctx, g.tx, query, rows)
}

// Open returns a pool of database/sql that takes a connection from a pool of pgx for each
// transaction. Closing it leaves the pool of pgx open. It is safe for concurrent use.
func Open(pool *pgxpool.Pool) *sqlx.DB {
	db := sql.OpenDB(connector(func(ctx context.Context) (driver.Conn, error) {
		if pool == nil {
			return nil, errors.New("there is no pool of pgx: pool is nil")
		}
		own, err := pool.Acquire(ctx)
		if err != nil {
			return nil, pg.OfConnecting(ctx, err)
		}
		return &poolConn{conn: conn{own.Conn(), own.Conn().TypeMap()}, pooled: own}, nil
	}))
	db.SetMaxIdleConns(-1)
	return sqlx.NewDb(db, "pgx")
}

// connector makes the connections of a pool of database/sql.
type connector func(ctx context.Context) (driver.Conn, error)

func (c connector) Connect(ctx context.Context) (driver.Conn, error) { return c(ctx) }

func (c connector) Driver() driver.Driver { return c }

// SendsSeveral tells package sql that the connections send several statements in one message.
func (c connector) SendsSeveral() {}

func (c connector) Open(string) (driver.Conn, error) { return c(context.Background()) }

// InTx wraps a function with a transaction of pgx for jobs.InTx, jobs.Each, jobs.BatchInTx or
// jobs.Group. The job needs jobs.WithPool with a pool of Open, for the
// runner's database and with a role that has the rights of a runner. Each check in a transaction
// (see run.connections) takes a connection of it.
func InTx[In, Out any](
	fn func(ctx context.Context, tx pgx.Tx, in In) (Out, error),
) func(ctx context.Context, tx *sqlx.Tx, in In) (Out, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, tx *sqlx.Tx, in In) (out Out, err error) {
		var own txLease
		if _, err := tx.ExecContext(ctx, "", &own); err != nil {
			return out, cmp.Or(ctx.Err(),
				fmt.Errorf("the transaction of the check is not one of pgx: "+
					"register the job with jobs.WithPool(pgxjobs.Open(pool)): %w", err))
		}
		defer own.release()
		out, err = fn(ctx, own.tx, in)
		if err == nil && own.tx.Conn().PgConn().IsBusy() {
			err = errLeftOpen
		}
		return out, err
	}
}

var errLeftOpen = errors.New("the check has left rows of its transaction open: " +
	"it must read them to their end, or close them")
