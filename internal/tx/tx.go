// Package tx runs functions in the transaction of a caller, or in one of their own where the caller gives a pool.
package tx

import (
	"context"
	"database/sql"

	pgsql "github.com/prescient-go/prescient/sql"
)

// DB is a transaction or a pool, of database/sql or of sqlx.
type DB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type pool interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// In runs fn in db when that is a transaction, else in a new one: a statement outside of a transaction might be
// repeated silently by database/sql. Errors are explained, see pgsql.ExplainMissing.
func In(ctx context.Context, db DB, fn func(db DB) error) error { return in(ctx, db, nil, fn) }

// Read is In for what only reads: where db is a pool of a hot standby it works, too.
func Read(ctx context.Context, db DB, fn func(db DB) error) error {
	return in(ctx, db, &sql.TxOptions{ReadOnly: true}, fn)
}

func in(ctx context.Context, db DB, opts *sql.TxOptions, fn func(db DB) error) error {
	if db == nil {
		return pgsql.ErrNoDatabase
	}
	p, ok := db.(pool)
	if !ok {
		return pgsql.ExplainMissing(fn(db))
	}
	begin := func() (*sql.Tx, error) { return p.BeginTx(ctx, opts) }
	return pgsql.Commit(begin, func(tx *sql.Tx) error { return pgsql.ExplainMissing(fn(tx)) })
}

// Is tells whether In would run in db itself: then it is its owner who repeats the transaction.
func Is(db DB) bool {
	_, ok := db.(pool)
	return !ok
}
