package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lib/pq/pqerror"

	pgsql "github.com/prescient-go/prescient/sql"
)

// lockTimeout is far below the server's deadlock_timeout (1 s): it is the run that yields, before the server would kill
// somebody's business transaction.
const lockTimeout = 100 * time.Millisecond

// ownTimeout is for locks that the engine alone takes, each for a moment.
const ownTimeout = 5 * time.Second

// settings are those of a transaction of the engine: how long it waits for a lock, and when the server ends it since this
// process was stopped in its middle. Arrays may have nulls, whatever the role or database has set.
func (r *Runner) settings(idle, lock time.Duration) string {
	return fmt.Sprintf("%s; set local idle_in_transaction_session_timeout = %s; set local statement_timeout = 0; set local array_nulls = on",
		r.waitForLocks(lock), millis(idle))
}

// unhurried adds what is to be set before begin_check and record_row, which set the rest: a statement's timeout holds for those after it.
func (r *Runner) unhurried(m *pgsql.Message, lock time.Duration) {
	m.Do("set local statement_timeout = 0")
	if r.setting.Citus {
		m.Do(r.waitForLocks(lock))
	}
}

// ofRow are the settings that begin_check and record_row make themselves.
func ofRow(c *claim, lock, idle time.Duration) []any {
	return []any{sessionOf(c), millis(lock), millis(idle)}
}

// millis is a timeout as the server takes it, 24 days at the most.
func millis(d time.Duration) string {
	return strconv.FormatInt(min(d.Milliseconds(), math.MaxInt32), 10)
}

// waitForLocks is pgsql.WaitForLocks, or what it comes to where there are no workers to be told.
func (r *Runner) waitForLocks(most time.Duration) string {
	if r.setting.Citus {
		return pgsql.WaitForLocks(most).In(r.schema)
	}
	return fmt.Sprintf("set local lock_timeout = %d", most.Milliseconds())
}

// commit sends a message of the engine as one transaction, of which nothing is compiled.
func (r *Runner) commit(ctx context.Context, m *pgsql.Message) error {
	return m.Commit(ctx, r.cfg.DB, r.settings(r.cfg.Lease, ownTimeout)+"; set local jit = off")
}

// ask sends a statement that is a transaction of its own, and reads what it returns; again while the database cannot do it.
func (r *run) ask(ctx context.Context, stmt pgsql.Statement, args []any, scan func(row *sql.Rows) error) error {
	var m pgsql.Message
	m.Add(stmt.In(r.schema), args, scan)
	return r.retry(ctx, passes, func() error { return r.commit(r.work, &m) })
}

// retry repeats what the database could not do just now: it restarts, is out of connections, somebody has a lock. For
// as long as a lease at the most, and until ctx ends.
func (r *Runner) retry(ctx context.Context, passes func(err error) bool, fn func() error) error {
	var since time.Time // of the first error: before that fn may have waited for its turn
	pause := 20 * time.Millisecond
	for {
		err := fn()
		if since.IsZero() {
			since = monotonic()
		}
		if err == nil || !passes(err) || time.Since(since) > r.cfg.Lease {
			return err
		}
		r.cfg.Logger.DebugContext(ctx, "the database cannot do it now; trying again", "error", err)
		if !sleep(ctx, pause) {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// sleep waits, and returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// passes tells whether the same may succeed a little later.
func passes(err error) bool {
	return pgsql.IsTransient(err) || pgsql.IsRetryable(err) || pgsql.IsLockTimeout(err) || pgsql.HasState(err, pqerror.QueryCanceled)
}

// isLost tells whether a fence has found no lease.
func isLost(err error) bool {
	return pgsql.HasState(err, "PS001") || errors.Is(err, ErrLeaseLost)
}

func nothing(*sql.Rows) error { return nil }

// into reads rows of one number each.
func into(set map[int64]bool) func(row *sql.Rows) error {
	return func(row *sql.Rows) error {
		var n int64
		err := row.Scan(&n)
		set[n] = true
		return err
	}
}
