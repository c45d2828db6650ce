// Package db sends the messages of the engine to the database: each as one transaction, with the timeouts of the
// engine. It repeats a message while the database cannot carry it out, and names in the log the sessions whose locks a
// run waits for. The package knows no claims or jobs, and rows by their ids alone.
package db

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// LockTimeout is how long a run waits for a lock. It is far below the server's deadlock_timeout (1 s),
// so the run yields before the server would end an application's transaction.
const LockTimeout = 100 * time.Millisecond

// OwnTimeout is how long a run waits for locks that only the engine takes, each for a moment.
const OwnTimeout = 5 * time.Second

// Server is the database server, as the engine uses it. It is constant.
type Server struct {
	DB      *sqlx.DB
	Schema  pgsql.Schema
	Citus   bool          // the database is a Citus cluster
	Version string        // which settings it has
	Lease   time.Duration // how long to repeat what the server cannot do now
	Logger  *slog.Logger
}

// Settings returns the settings of a transaction of the engine. lock is how long it waits for a lock.
// After idle the server ends a transaction in whose middle this process was stopped. Arrays may have
// nulls, whatever the role or database has set.
func (s *Server) Settings(idle, lock time.Duration) string {
	return fmt.Sprintf("%s; set local idle_in_transaction_session_timeout = %s; %s; set local array_nulls = on",
		s.WaitForLocks(lock), Millis(idle), pg.Lift(s.Version))
}

// Unhurried adds the settings that must precede begin_check and record_row, which make the other settings themselves: a
// statement_timeout holds only for the statements after it.
func (s *Server) Unhurried(m *pg.Message, lock time.Duration) {
	m.Do(pg.Lift(s.Version))
	if s.Citus {
		m.Do(s.WaitForLocks(lock))
	}
}

// Millis is a timeout as the server takes it, 24 days at the most.
func Millis(d time.Duration) string {
	return strconv.FormatInt(min(d.Milliseconds(), math.MaxInt32), 10)
}

// WaitForLocks is pg.WaitForLocks. Without Citus it is a shorter statement with the same effect.
func (s *Server) WaitForLocks(most time.Duration) string {
	if s.Citus {
		return pg.WaitForLocks(most).In(s.Schema)
	}
	return fmt.Sprintf("set local lock_timeout = %d", most.Milliseconds())
}

// Commit sends a message of the engine as one transaction, in which the server compiles nothing (JIT).
func (s *Server) Commit(ctx context.Context, m *pg.Message) error {
	return m.Commit(ctx, s.DB, s.Settings(s.Lease, OwnTimeout)+"; set local jit = off")
}

// Ask sends a statement as a transaction of its own, and reads what it returns. It repeats the statement
// while the database cannot carry it out, until ctx ends. A statement that was sent goes on until work
// ends.
func (s *Server) Ask(
	ctx, work context.Context, stmt pg.Statement, args []any, scan func(row *sql.Rows) error,
) error {
	var m pg.Message
	m.Add(stmt.In(s.Schema), args, scan)
	return s.Retry(ctx, Retryable, func() error { return s.Commit(work, &m) })
}

// Retry repeats fn while the database cannot carry it out: the server restarts, is out of connections,
// or another transaction has a lock. Retry gives up after the length of a lease, or when ctx ends.
func (s *Server) Retry(ctx context.Context, retryable func(err error) bool, fn func() error) error {
	var since time.Time // of the first error, because fn may have waited for its turn before
	pause := 20 * time.Millisecond
	for {
		err := fn()
		if since.IsZero() {
			since = elapsed.Now()
		}
		if err == nil || !retryable(err) || time.Since(since) > s.Lease {
			return err
		}
		s.Logger.DebugContext(ctx, "the database cannot do it now; trying again", "error", err)
		if !elapsed.Sleep(ctx, pause) {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// Retryable reports whether the same statement may succeed a little later.
func Retryable(err error) bool {
	return pg.IsTransient(err) || pg.IsRetryable(err) || pg.IsLockTimeout(err) ||
		pg.HasState(err, pqerror.QueryCanceled)
}

// Nothing scans no rows.
func Nothing(*sql.Rows) error { return nil }

// Into returns a function that adds the number of each row to a set.
func Into(set map[int64]bool) func(row *sql.Rows) error {
	return func(row *sql.Rows) error {
		var n int64
		err := row.Scan(&n)
		set[n] = true
		return err
	}
}
