package schedule

import (
	"context"
	"database/sql"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// inTx is jobs.InTx, done anew when the server asks for another try. Where db is a transaction it never does: that one
// is lost, and its owner's to repeat.
func (s *Store) inTx(ctx context.Context, db jobs.DB, fn func(tx jobs.DB) error) error {
	if jobs.IsTx(db) {
		return jobs.InTx(ctx, db, fn)
	}
	return pgsql.Retry(func() error { return jobs.InTx(ctx, db, fn) })
}

// collect runs a statement and returns its rows, each as scan fills it in.
func collect[T any](ctx context.Context, s *Store, tx jobs.DB, stmt pgsql.Statement, args []any, scan func(row *sql.Rows, v *T) error) ([]T, error) {
	return pgsql.Collect(ctx, tx, stmt.In(s.schema), args, scan)
}

// text reads a row of one text.
func text(row *sql.Rows, v *string) error { return row.Scan(v) }
