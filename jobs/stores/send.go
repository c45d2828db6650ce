package stores

import (
	"context"
	"database/sql"
	"time"

	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// lockTimeout is the lock_timeout of each message. The message gives way to transactions of
	// applications before the server ends one of them for a deadlock.
	lockTimeout = 300 * time.Millisecond
	// patience is how long a message that meets a lock is repeated.
	patience = 20 * time.Second
)

// monotonic measures durations.
var monotonic = time.Now //nolint:forbidigo // measures

// send sends a statement as a transaction of its own, in one message, so that a process that stops
// holds no locks. It repeats the message while another session holds a lock. actor is recorded in
// timelines.
func (s *Store) send(
	ctx context.Context, actor string, stmt pgsql.Statement, args []any, scan func(row *sql.Rows) error,
) error {
	var m pgsql.Message
	m.Add("select set_config('prescient_caller.actor', $1, true)", []any{actor}, skip)
	m.Add(s.in(stmt), args, scan)
	var err error
	settings := s.in(pgsql.WaitForLocks(lockTimeout)) + "; set local statement_timeout = '60s'"
	for began := monotonic(); err == nil; {
		err = m.Commit(ctx, pgsql.Sqlx(s.DB), settings)
		if err == nil {
			return nil
		}
		if !pgsql.IsLockTimeout(err) && !pgsql.IsRetryable(err) || time.Since(began) > patience {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
			err = nil
		case <-ctx.Done():
			return &Error{s.Name, context.Cause(ctx)}
		}
	}
	return &Error{s.Name, pgsql.ExplainMissing(err)}
}

func skip(*sql.Rows) error { return nil }
