package sql

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
)

// ErrNotMigrated is returned if the schema is missing or older than the code.
var ErrNotMigrated = pg.ErrNotMigrated

// ErrNewer is returned if the schema is newer than the code.
var ErrNewer = pg.ErrNewer

// ErrReadOnly is returned if a write reaches a server or a transaction that only reads.
var ErrReadOnly = pg.ErrReadOnly

// ErrRowSecurity is returned if row security would hide rows of prescient's tables.
var ErrRowSecurity = pg.ErrRowSecurity

// ErrStatementPooling is returned if PgBouncer ends each transaction after its first statement.
var ErrStatementPooling = pg.ErrStatementPooling

// Pool is a *sql.DB or a *sqlx.DB. Where a pool must be set, a value of another type, such as a wrapper, is refused as
// if it were nil.
type Pool interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	Conn(ctx context.Context) (*sql.Conn, error)
	PingContext(ctx context.Context) error
	Stats() sql.DBStats
}

// InTx runs fn in a transaction that commits when fn returns nil. It runs fn again if the server
// ended the transaction because of another one (a deadlock or a serialization failure). So fn must
// be repeatable.
//
// The transaction is READ COMMITTED, and fails if row security would hide rows from it.
//
// Every statement goes through a transaction, reads too. database/sql silently repeats an
// autocommit statement when the connection drops. A pooler in transaction mode mixes up the answers
// of parameterised statements outside one.
func InTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return pg.InTx(ctx, db, fn)
}

// ReadTx is InTx for a function that only reads, on a hot standby too.
func ReadTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return pg.ReadTx(ctx, db, fn)
}
