// Package tx runs functions in the caller's transaction or, if the caller passes a pool, in a new
// one.
package tx

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/prescient-go/prescient/internal/pg"
)

// DB is a transaction or a pool, of database/sql or of sqlx.
type DB interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type pool interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// In runs fn in db if that is a transaction, otherwise in a new one, because database/sql may
// silently repeat a statement outside a transaction. Errors are explained, see
// pg.ExplainMissing.
func In(ctx context.Context, db DB, fn func(db DB) error) error {
	return in(pg.Own(ctx), db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, explained(fn))
}

// Read is In for a function that only reads. It also works on a pool of a hot standby.
func Read(ctx context.Context, db DB, fn func(db DB) error) error {
	return in(pg.Own(ctx), db, &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true}, explained(fn))
}

// Mixed is In for a function that also runs statements of the application. A new transaction has the
// settings of its login, and errors are not explained, because they may be about tables of the application.
func Mixed(ctx context.Context, db DB, fn func(db DB) error) error {
	return in(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, fn)
}

func explained(fn func(db DB) error) func(db DB) error {
	return func(db DB) error { return pg.ExplainMissing(fn(db)) }
}

// Collect runs a query in Read, and returns its rows, each filled in by scan.
func Collect[T any](
	ctx context.Context, db DB, query string, args []any, scan func(row *sql.Rows, v *T) error,
) (list []T, err error) {
	err = Read(ctx, db, func(db DB) error {
		list, err = pg.Collect(ctx, db, query, args, scan)
		return err
	})
	return list, err
}

func in(ctx context.Context, db DB, opts *sql.TxOptions, fn func(db DB) error) error {
	if db == nil {
		return pg.ErrNoDatabase
	}
	p, ok := db.(pool)
	if !ok {
		return fn(db)
	}
	begin := func() (*sql.Tx, error) { return p.BeginTx(ctx, opts) }
	d, ok := db.(interface{ Driver() driver.Driver })
	settled := ok && pg.Ours(d)
	return pg.Commit(begin, func(tx *sql.Tx) error {
		if opts.ReadOnly && !settled { // what writes calls functions, which make the settings themselves
			if err := pg.UseOwnSettings(ctx, tx); err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// Is tells whether In would run in db itself. Then the owner of db repeats the transaction.
func Is(db DB) bool {
	_, ok := db.(pool)
	return !ok
}
