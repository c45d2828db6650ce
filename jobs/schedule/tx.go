package schedule

import (
	"context"
	"database/sql"
	"errors"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
)

// inTx runs fn as once does, and repeats it after a serialization failure or a deadlock. If db is a
// transaction, it never repeats: that transaction is lost, and only its owner can repeat it.
func inTx(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	if tx.Is(db) {
		return once(ctx, db, fn)
	}
	return pg.Retry(func() error { return once(ctx, db, fn) })
}

// once runs fn in db if that is a transaction, otherwise in a new one.
func once(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	return tx.In(ctx, db, func(db tx.DB) error { return fn(db) })
}

// inside is a transaction that once or its caller ends.
type inside struct{ jobs.DB }

var errInside = errors.New("the transaction belongs to the caller of package schedule")

func (inside) Commit() error   { return errInside }
func (inside) Rollback() error { return errInside }

// reading is once for calls that only read.
func reading(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	return tx.Read(ctx, db, func(db tx.DB) error { return fn(db) })
}

// collect runs a statement and returns its rows, which scan fills in.
func collect[T any](
	ctx context.Context, s *Store, tx jobs.DB, stmt pg.Statement, args []any, scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	return pg.Collect(ctx, tx, stmt.In(s.schema), args, scan)
}

// text scans a row with one text column.
func text(row *sql.Rows, v *string) error { return row.Scan(v) }
