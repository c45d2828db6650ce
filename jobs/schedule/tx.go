package schedule

import (
	"context"
	"database/sql"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// inTx runs fn in db when that is a transaction, else in one of its own: anew when the server asks for another try.
func (s *Store) inTx(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	pool, ok := db.(interface {
		BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	})
	if !ok {
		return pgsql.ExplainMissing(fn(db))
	}
	begin := func() (*sql.Tx, error) { return pool.BeginTx(ctx, nil) }
	return pgsql.ExplainMissing(pgsql.Retry(func() error {
		return pgsql.Commit(begin, func(tx *sql.Tx) error { return fn(tx) })
	}))
}

// collect runs a statement and returns its rows, each as scan fills it in.
func collect[T any](ctx context.Context, s *Store, tx jobs.DB, stmt pgsql.Statement, args []any, scan func(row *sql.Rows, v *T) error) ([]T, error) {
	return pgsql.Collect(ctx, tx, stmt.In(s.schema), args, scan)
}

// text reads a row of one text.
func text(row *sql.Rows, v *string) error { return row.Scan(v) }
