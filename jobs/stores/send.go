package stores

import (
	"context"
	"database/sql"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
)

const (
	// lockTimeout is the lock_timeout of each message. The message gives way to transactions of
	// applications before the server ends one of them for a deadlock.
	lockTimeout = 300 * time.Millisecond
	// patience is how long a message that meets a lock is repeated.
	patience = 20 * time.Second
)

// send sends a statement as a transaction of its own, in one message, so that a process that stops
// holds no locks. It repeats the message while another session holds a lock. actor is recorded in
// timelines. It returns the rows of the message that was committed, each filled in by scan.
func send[T any](
	ctx context.Context, s *Store, actor string, stmt pg.Statement, args []any,
	scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	var rows []T
	var m pg.Message
	m.Add("select set_config('prescient_caller.actor', $1, true)", []any{actor}, func(*sql.Rows) error {
		rows = nil // of a message that is repeated
		return nil
	})
	m.Add(s.in(stmt), args, func(row *sql.Rows) error {
		rows = append(rows, *new(T))
		return scan(row, &rows[len(rows)-1])
	})
	settings := s.in(pg.WaitForLocks(lockTimeout)) + "; set local statement_timeout = '60s'"
	for began := elapsed.Now(); ; {
		err := m.Commit(ctx, pg.Sqlx(s.DB), settings)
		switch {
		case err == nil:
			return rows, nil
		case ctx.Err() != nil:
			return nil, &Error{s.Name, context.Cause(ctx)}
		case !pg.IsLockTimeout(err) && !pg.IsRetryable(err) || time.Since(began) > patience:
			return nil, &Error{s.Name, pg.ExplainMissing(err)}
		}
		elapsed.Sleep(ctx, 50*time.Millisecond)
	}
}

func skip(*sql.Rows, *struct{}) error { return nil }
