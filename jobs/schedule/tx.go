package schedule

import (
	"context"
	"database/sql"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// inTx is inTxOnce, done anew when the server asks for another try. Where db is a transaction it never does: that one
// is lost, and its owner's to repeat.
func (s *Store) inTx(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	if _, own := db.(pool); !own {
		return inTxOnce(ctx, db, fn)
	}
	return pgsql.Retry(func() error { return inTxOnce(ctx, db, fn) })
}

// inTxOnce runs fn in db when that is a transaction, else in one of its own.
func inTxOnce(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	p, own := db.(pool)
	if !own {
		return pgsql.ExplainMissing(fn(db))
	}
	begin := func() (*sql.Tx, error) { return p.BeginTx(ctx, nil) }
	return pgsql.Commit(begin, func(tx *sql.Tx) error { return pgsql.ExplainMissing(fn(tx)) })
}

type pool interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// collect runs a statement and returns its rows, each as scan fills it in.
func collect[T any](ctx context.Context, s *Store, tx jobs.DB, stmt pgsql.Statement, args []any, scan func(row *sql.Rows, v *T) error) ([]T, error) {
	return pgsql.Collect(ctx, tx, stmt.In(s.schema), args, scan)
}

// text reads a row of one text.
func text(row *sql.Rows, v *string) error { return row.Scan(v) }
