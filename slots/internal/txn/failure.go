package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// failed returns what becomes of a check whose function returned an error.
func (c *Checker) failed(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain, err error) error {
	switch undo := tx.Rollback(); {
	case ctx.Err() != nil:
	case pg.IsTransient(undo) && !isCut(err): // whatever the function returns for a broken connection
		return broke(u, err)
	case u.Divisible() && (pg.IsRetryable(err) || pg.IsLockTimeout(err)):
		u.Failure.Whole = true // so that the other rows do not wait
		return c.postpone(ctx, u, ch, err)
	case pg.IsRetryable(err) && !u.Tried.ConflictsFor(c.Lease), pg.IsLockTimeout(err),
		pg.HasState(err, pqerror.QueryCanceled) && !errors.Is(err, jobs.ErrDivide) && u.Tried.CanceledOnce() &&
			!u.Divisible():
		return c.postpone(ctx, u, ch, err)
	case pg.IsStale(err) && u.Tried.Broke() <= maxBreaks:
		return ErrAgain
	case !isCut(err):
		u.Failure.Own = !pg.IsOfValue(err)
	}
	return err
}

// isCut reports whether an error is of a statement that was cut short: by a context that ended, which makes the driver
// close the connection, or by another session.
func isCut(err error) bool {
	return pg.HasState(err, pqerror.QueryCanceled) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// recordFailed returns why an outcome was not recorded: the lease is lost, the check has ended or
// broken its transaction, or the database cannot record it now.
func (c *Checker) recordFailed(ctx context.Context, u *unit.Unit, ch *Chain, err error) error {
	failed, commit := errors.AsType[*pg.CommitError](err)
	switch state := pg.State(err); {
	case commit && state != "" && (!db.Retryable(err) || pg.IsRetryable(err) && u.Tried.ConflictsFor(c.Lease)):
		return failed // a deferred constraint
	case claim.IsLost(err):
		c.Records.Leases.Lose(c.claim.Lease)
		return err
	case state == "PS002":
		return errEndedTx
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return errEndedTx
	case state == pqerror.InFailedSQLTransaction:
		return fmt.Errorf("the check went on after an error of its transaction: %w", err)
	case state == pqerror.ObjectInUse: // what Forget drops is in use
		return fmt.Errorf("the check has left constraints of a temporary table for the commit, "+
			`which "set constraints all immediate" checks: %w`, err)
	case state == pqerror.ReadOnlySQLTransaction, state == "" && !pg.IsTransient(err) && ctx.Err() == nil:
		return fmt.Errorf("the check has left its transaction such that nothing can be recorded in it, "+
			"read-only or with rows open: %w", err)
	case state == "" && pg.IsTransient(err): // the driver's error for a broken connection, or the network's
		return broke(u, err)
	case c.Records.Refuses(err) || pg.IsRetryable(err) && u.Tried.ConflictsFor(c.Lease):
		return fmt.Errorf("%s: its outcome cannot be recorded: %w", u, err)
	case ctx.Err() == nil && pg.IsTransient(err) && c.commits.isOver(ch.Permit.Since, c.Lease):
		c.Halt(named(u, err))
		return ErrAgain
	}
	return c.postpone(ctx, u, ch, err)
}

// postpone repeats a check whose transaction failed through no fault of the check.
func (c *Checker) postpone(ctx context.Context, u *unit.Unit, ch *Chain, err error) error {
	switch {
	case errors.Is(err, ErrRecorded) || c.claim.Ctx.Err() != nil:
		return err
	case errors.Is(err, ErrLocked) || pg.IsLockTimeout(err):
		return ErrLocked
	case errors.Is(err, ErrAgain):
		return ErrAgain
	case ctx.Err() != nil && !errors.Is(err, errNoTx): // a statement of the run took too long, most likely at a lock
		return ErrLocked
	case u.Group != nil && c.Records.Refuses(err) && (c.leavesUnreadable(u) || !u.Tried.ConflictsFor(c.Lease)):
		return ErrAgain // a row of the group cannot be read: the claim that has it gives it an error
	case pg.HasState(err, pqerror.QueryCanceled): // so the server may report a lock timeout
		return ErrLocked
	case db.Retryable(err) || pg.IsStale(err) || errors.Is(err, errNoTx):
		c.Logger.DebugContext(ctx, "check is repeated", "check", u.String(), "error", err)
		fails := pg.IsTransient(err) || errors.Is(err, errNoTx)
		if fails && c.beginsOn(u.Def.DB).isOver(ch.Permit.Since, c.Lease) {
			c.Halt(named(u, err))
		}
		return ErrAgain
	}
	c.Halt(named(u, err))
	return ErrAgain
}

// patience ends when a message of the checks of a claim meets errors of the database for longer than a lease. Safe for
// concurrent use.
type patience struct {
	since atomic.Pointer[time.Time] // when the first error since the last success came; nil: none came
}

// beginsOn returns the patience with the messages that begin a check on a pool. Nil: it is the runner's.
func (c *Checker) beginsOn(pool *sqlx.DB) *patience {
	p, ok := c.begins.Load(pool)
	if !ok {
		p, _ = c.begins.LoadOrStore(pool, new(patience))
	}
	return p.(*patience)
}

// isOver notes an error, and reports whether the patience is over. A check that got its permit
// before the first error may learn of it late.
func (p *patience) isOver(came time.Time, lease time.Duration) bool {
	since := p.since.Load()
	if since == nil {
		p.since.CompareAndSwap(nil, new(elapsed.Now()))
		return false
	}
	return time.Since(*since) > lease && came.After(*since)
}

// renew notes that the database has carried out the message of a check.
func (p *patience) renew() { p.since.Store(nil) }

// named adds the name of the job to an error of a pool other than the runner's.
func named(u *unit.Unit, err error) error {
	if u.Def.DB == nil {
		return err
	}
	return fmt.Errorf("the pool that job %s is registered with, by jobs.WithPool: %w", u.Def.Name, err)
}

// maxBreaks is how often a check is repeated after its connection broke. The check may break it itself, for example by
// a statement that the driver does not know.
const maxBreaks = 10

// broke returns the error of a check whose connection was good when its function was called.
func broke(u *unit.Unit, err error) error {
	breaks := u.Tried.Broke()
	if breaks <= maxBreaks {
		u.Failure.Whole = breaks > 1 // the first break may be the network's
		return ErrAgain
	}
	return fmt.Errorf("the connection of the check broke each of %d times: %w", breaks, err)
}
