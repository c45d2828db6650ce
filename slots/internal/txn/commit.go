package txn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
	pgsql "github.com/prescient-go/prescient/sql"
)

// commit records the outcomes of a check in its own transaction, and commits it.
func (c *Checker) commit(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain, outcomes []row.Outcome) error {
	if !u.Watch.Reserve() {
		return unit.ErrIgnored
	}
	records := c.Records
	ours := u.Def.DB == nil
	var m pgsql.Message
	var n row.Tally
	if ours {
		m.Do(record.Forget)
	} else {
		m.Do("set role " + pq.QuoteLiteral(tx.role)) // the role is the application's choice, and stays
	}
	sent := row.Lost{Part: records.NextPart(), Outcomes: outcomes}
	send := func(m *pgsql.Message) error { return m.SendTx(context.WithoutCancel(ctx), tx.LazyTx) }
	err := records.AddTx(&m, c.claim.Token, sent.Part, outcomes, tx.number, ours, &n, send)
	if err == nil {
		err = c.commitTx(ctx, tx, u, ch, &m)
	}
	if err != nil {
		tx.End() // so that no goroutine holds a connection while it waits for another
		if !c.wasCommitted(ch, err, sent.Part) {
			u.Tried.Lost, u.Failure.Crowded = &sent, pgsql.IsLockTimeout(err)
			return c.recordFailed(ctx, u, ch, err)
		}
		n = row.Expected(outcomes)
	}
	n.Yielded = int64(len(outcomes)) - n.Checked()
	records.Count(n, outcomes)
	c.patience.renew()
	return ErrRecorded
}

// commitTx commits the transaction of a check. If another row follows in its chain, the same message begins the
// transaction of that row.
func (c *Checker) commitTx(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain, m *pgsql.Message) error {
	ctx = context.WithoutCancel(ctx) // the fence finds out whether the lease is lost
	if tx.Chains() {
		ch.follow(u)
	}
	if ch.next == nil {
		return m.CommitTx(ctx, tx.LazyTx)
	}
	next := new(transaction)
	var err error
	next.resume, err = m.CommitAndBegin(ctx, tx.LazyTx, c.beginningRow(next, ch.next, db.LockTimeout, false))
	if next.resume != nil {
		ch.begun = next
	}
	return err
}

// wasCommitted reports whether a record was committed in spite of an error: its reply was lost, the server reported its
// shutdown instead, or the next check could not begin in the same message.
func (c *Checker) wasCommitted(ch *Chain, err error, part int64) bool {
	if ch.next == nil && pgsql.State(err) != "" && !pgsql.IsTransient(err) || errors.Is(err, sql.ErrTxDone) {
		return false
	}
	done, found := c.Records.Find(c.Work, c.claim, part)
	return found == nil && done
}

// countLost counts a record that was committed in spite of an error, if the rows of a check are gone because of it.
func (c *Checker) countLost(u *unit.Unit) {
	lost := u.Tried.Lost
	if lost == nil {
		return
	}
	if done, err := c.Records.Find(c.Work, c.claim, lost.Part); err == nil && done {
		c.Records.Count(row.Expected(lost.Outcomes), lost.Outcomes)
	}
}

// sameDatabase returns ErrRecorded for rows that are gone, and another error if this is a database without the claim.
func (c *Checker) sameDatabase(ctx context.Context, tx *sqlx.Tx) error {
	const none = 0 // no record has this part
	var held bool
	var m pgsql.Message
	args := []any{c.Records.Slot, c.claim.Token, none}
	m.Add(pgsql.RecordFind.In(c.Schema), args, func(row *sql.Rows) error { return row.Scan(new(bool), &held) })
	if err := m.Send(ctx, tx); err != nil {
		return err
	}
	if _, lost := c.Records.Find(c.Work, c.claim, none); held || lost != nil {
		return ErrRecorded
	}
	return errors.New("it is a pool of another database than the runner's: the rows are not there")
}

// recordFailed returns why an outcome was not recorded: the lease is lost, the check has ended or
// broken its transaction, or the database cannot record it now.
func (c *Checker) recordFailed(ctx context.Context, u *unit.Unit, ch *Chain, err error) error {
	failed, commit := errors.AsType[*pgsql.CommitError](err)
	switch state := pgsql.State(err); {
	case commit && state != "" && (!db.Passes(err) || pgsql.IsRetryable(err) && u.Tried.ConflictsFor(c.Lease)):
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
	case state == pqerror.ReadOnlySQLTransaction, state == "" && !pgsql.IsTransient(err) && ctx.Err() == nil:
		return fmt.Errorf("the check has left its transaction such that nothing can be recorded in it, "+
			"read-only or with rows open: %w", err)
	case errors.Is(err, driver.ErrBadConn):
		return broke(u, err)
	case c.Records.Refuses(err):
		return fmt.Errorf("%s: its outcome cannot be recorded: %w", u, err)
	}
	return c.postpone(ctx, u, ch, err)
}

// postpone repeats a check whose transaction failed through no fault of the check.
func (c *Checker) postpone(ctx context.Context, u *unit.Unit, ch *Chain, err error) error {
	switch {
	case errors.Is(err, ErrRecorded) || c.ctx.Err() != nil:
		return err
	case errors.Is(err, ErrAgain):
		return ErrAgain
	case ctx.Err() != nil: // the check timed out in a statement of the run
		return ErrAgain
	case u.Group != nil && c.Records.Refuses(err) && (c.leavesUnreadable(u) || !u.Tried.ConflictsFor(c.Lease)):
		return ErrAgain // a row of the group cannot be read: the claim that has it gives it an error
	case db.Passes(err) || pgsql.IsStale(err):
		if c.patience.isOver(err, ch.Permit.Since, c.Lease) {
			c.Halt(named(u, err))
		}
		c.Logger.DebugContext(ctx, "check is repeated", "check", u.String(), "error", err)
		return ErrAgain
	}
	c.Halt(named(u, err))
	return ErrAgain
}

// patience ends when checks of a claim meet errors of the database for longer than a lease. Safe for concurrent use.
type patience struct {
	since atomic.Pointer[time.Time] // when the first error since the last record came; nil: none came
}

// isOver notes an error, and reports whether the patience is over. A check that got its permit
// before the first error may learn of it late. Waits for locks do not count.
func (p *patience) isOver(err error, came time.Time, lease time.Duration) bool {
	if !pgsql.IsTransient(err) {
		return false
	}
	since := p.since.Load()
	if since == nil {
		p.since.CompareAndSwap(nil, new(elapsed.Now()))
		return false
	}
	return time.Since(*since) > lease && came.After(*since)
}

// renew notes that outcomes are recorded.
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
