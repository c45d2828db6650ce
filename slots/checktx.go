package slots

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/statement"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Errors by which a check with a transaction ends without an error of its rows.
var (
	errRecorded = errors.New("the outcome is recorded with the transaction, or is nobody's to record any more")
	errAgain    = errors.New("somebody else has a lock, or the database cannot do it now: to be repeated")
	errEndedTx  = errors.New("the check ended its transaction itself: it must return instead")
)

// attempt is the state of a check's transactions: of the open one, and of those before it. Only the goroutine of the
// check uses it.
type attempt struct {
	state       string // the answer of begin_check
	transaction string // its number
	role        string // the role of its connection, if the job has a pool of its own

	// begun returns the transaction if the commit of the check before has begun it. Nil: it has not.
	begun func(ctx context.Context) (*pgsql.LazyTx, error)

	crowded    bool         // not recorded, because another transaction has a lock
	canceled   bool         // a statement of the function was cancelled
	breaks     int          // broken connections after a call of the function
	conflicted time.Time    // when the server first ended its transaction in favour of another
	lost       *record.Lost // a record without a reply; nil: there was none
}

// canceledOnce reports whether a statement of the check was cancelled, for the first time. The server reports a lock
// timeout as a cancellation if it grants the lock just then and the statement waits for another lock. A statement that
// was cancelled for a reason will be cancelled again.
func (a *attempt) canceledOnce(err error) bool {
	first := !a.canceled && pgsql.HasState(err, pqerror.QueryCanceled)
	a.canceled = a.canceled || first
	return first
}

// conflictsFor reports whether the server has ended the transactions of a check in favour of others for longer than a
// lease: then repeating does not help.
func (a *attempt) conflictsFor(lease time.Duration) bool {
	if a.conflicted.IsZero() {
		a.conflicted = elapsed.Now()
	}
	return time.Since(a.conflicted) > lease
}

// checkTx does a check and records its outcome in one transaction, or reports that the check has to be repeated. Only
// what the function did is an error of its rows.
func (rd *round) checkTx(ctx *call.Context, u *unit) ([]jobs.Result, error) {
	open, end := context.WithCancel(rd.claim.ctx) // until its transaction ends
	defer end()
	waits := time.AfterFunc(u.def.Timeout, end)
	tx, err := rd.beginTx(open, u)
	if err != nil {
		return nil, rd.postpone(open, u, fmt.Errorf("begin transaction: %w", err))
	}
	defer tx.End()
	if err := rd.lock(open, tx, u); err != nil {
		if errors.Is(err, errRecorded) && u.def.DB != nil {
			err = rd.sameDatabase(open, tx.Tx)
		}
		tx.End() // so that no goroutine holds a connection while it waits for another
		u.queue.door.Spare(u.at)
		if errors.Is(err, errRecorded) {
			rd.countLost(u)
		}
		return nil, rd.postpone(open, u, err)
	}
	if permit.Late(u.at) { // because it waited for the connection or a lock
		if !u.queue.door.Await(open) {
			return nil, rd.postpone(open, u, errAgain)
		}
	}
	if !waits.Stop() || rd.run.stop.Err() != nil { // meanwhile, or during the long commit that began it
		return nil, rd.postpone(open, u, errAgain)
	}
	rd.restart(u)
	ctx.Restart(u.began.Add(u.def.Timeout))
	if rd.isTooLate(u) {
		err := rd.commit(ctx, tx, u, rd.unchecked(u, guard.Verdict{Outcome: jobs.DeadlinePassed}))
		tx.End()
		u.queue.door.Spare(u.at)
		return nil, err
	}
	context.AfterFunc(ctx, end)
	results, err := u.def.Call(ctx, tx.Tx, slices.Clone(u.rows))
	if err != nil {
		switch lost := tx.Rollback(); {
		case ctx.Err() != nil:
		case pgsql.IsTransient(lost) && !isCut(err): // whatever the function returns for a broken connection
			return nil, u.broke(err)
		case u.divisible() && (pgsql.IsRetryable(err) || pgsql.IsLockTimeout(err)):
			u.split = true // so that the other rows do not wait
			return nil, rd.postpone(ctx, u, err)
		case pgsql.IsRetryable(err) && !u.conflictsFor(rd.run.cfg.Lease) || pgsql.IsLockTimeout(err) || u.canceledOnce(err):
			return nil, rd.postpone(ctx, u, err)
		case pgsql.IsStale(err) && u.breaks < maxBreaks:
			u.breaks++
			return nil, errAgain
		case !isCut(err):
			u.own = true
		}
		return nil, err
	}
	if ctx.Err() != nil && rd.claim.ctx.Err() == nil {
		return nil, call.ErrTimeout
	}
	return nil, rd.commit(ctx, tx, u, rd.outcomes(u, rd.verdicts(ctx, u, results, nil), true, time.Since(u.began)))
}

// isCut reports whether an error is of a statement that was cut short: by a context that ended, which makes the driver
// close the connection, or by another session.
func isCut(err error) bool {
	return pgsql.HasState(err, pqerror.QueryCanceled) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// maxBreaks is how often a check is repeated after its connection broke. The check may break it itself, for example by
// a statement that the driver does not know.
const maxBreaks = 10

// broke returns the error of a check whose connection was good when its function was called.
func (u *unit) broke(err error) error {
	if u.breaks++; u.breaks <= maxBreaks {
		u.split = u.breaks > 1 // the first break may be the network's
		return errAgain
	}
	return fmt.Errorf("the connection of the check broke each of %d times: %w", u.breaks, err)
}

// sameDatabase returns errRecorded for rows that are gone, and another error if this is a database without the claim.
func (rd *round) sameDatabase(ctx context.Context, tx *sqlx.Tx) error {
	r := rd.run
	const none = 0 // no record has this part
	var held bool
	var m pgsql.Message
	m.Add(pgsql.RecordFind.In(r.schema), []any{r.slot, rd.claim.Token, none}, func(row *sql.Rows) error { return row.Scan(new(bool), &held) })
	if err := m.Send(ctx, tx); err != nil {
		return err
	}
	if _, lost := r.records.Find(r.work, &rd.claim.Claim, none); held || lost != nil {
		return errRecorded
	}
	return errors.New("it is a pool of another database than the runner's: the rows are not there")
}

// postpone repeats a check whose transaction failed through no fault of the check.
func (rd *round) postpone(ctx context.Context, u *unit, err error) error {
	switch {
	case errors.Is(err, errRecorded) || rd.claim.ctx.Err() != nil:
		return err
	case errors.Is(err, errAgain):
		return errAgain
	case ctx.Err() != nil: // the check timed out in a statement of the run
		return errAgain
	case u.isGroup() && rd.run.records.Refuses(err) && (rd.leavesUnreadable(u) || !u.conflictsFor(rd.run.cfg.Lease)):
		return errAgain // a row of the group cannot be read: the claim that has it gives it an error
	case server.Passes(err) || pgsql.IsStale(err):
		if rd.claim.impatient(err, u.since, rd.run.cfg.Lease) {
			rd.run.halt(u.named(err))
		}
		rd.run.cfg.Logger.DebugContext(ctx, "check is repeated", "check", u.String(), "error", err)
		return errAgain
	}
	rd.run.halt(u.named(err))
	return errAgain
}

// named adds the name of the job to an error of a pool other than the runner's.
func (u *unit) named(err error) error {
	if u.def.DB == nil {
		return err
	}
	return fmt.Errorf("the pool that job %s is registered with, by jobs.WithPool: %w", u.def.Name, err)
}

// impatient reports whether checks of a claim have met errors of the database for longer than a lease, without a record
// in between. A check that came to its place before the first error may learn of it late. Waits for locks do not count.
func (c *claim) impatient(err error, came time.Time, lease time.Duration) bool {
	if !pgsql.IsTransient(err) {
		return false
	}
	since := c.troubled.Load()
	if since == nil {
		c.troubled.CompareAndSwap(nil, new(elapsed.Now()))
		return false
	}
	return time.Since(*since) > lease && came.After(*since)
}

// commit records the outcomes of a check in its own transaction, and commits it.
func (rd *round) commit(ctx context.Context, tx *pgsql.LazyTx, u *unit, outcomes []row.Outcome) error {
	if !rd.isRunning(u) {
		return call.ErrIgnored
	}
	r := rd.run
	ours := u.def.DB == nil
	var m pgsql.Message
	var n row.Tally
	if ours {
		m.Do(statement.Forget)
	} else {
		m.Do("set role " + pq.QuoteLiteral(u.role)) // the role is the application's choice, and stays
	}
	sent := record.Lost{Part: r.records.NextPart(), Outcomes: outcomes}
	send := func(m *pgsql.Message) error { return m.SendTx(context.WithoutCancel(ctx), tx) }
	err := r.records.AddTx(&m, rd.claim.Token, sent.Part, outcomes, u.transaction, ours, &n, send)
	if err == nil {
		err = rd.commitTx(ctx, tx, u, &m)
	}
	if err != nil {
		tx.End() // nobody holds a connection and waits for another
		if !rd.wasCommitted(u, err, sent.Part) {
			u.lost, u.crowded = &sent, pgsql.IsLockTimeout(err)
			return rd.recordFailed(ctx, u, err)
		}
		n = row.Expected(outcomes)
	}
	n.Yielded = int64(len(outcomes)) - n.Checked()
	r.records.Count(n, outcomes)
	rd.claim.troubled.Store(nil)
	return errRecorded
}

// wasCommitted reports whether a record was committed in spite of an error: its reply was lost, the server reported its
// shutdown instead, or the next check could not begin in the same message.
func (rd *round) wasCommitted(u *unit, err error, part int64) bool {
	if u.next == nil && pgsql.State(err) != "" && !pgsql.IsTransient(err) || errors.Is(err, sql.ErrTxDone) {
		return false
	}
	done, found := rd.run.records.Find(rd.run.work, &rd.claim.Claim, part)
	return found == nil && done
}

// countLost counts a record that was committed in spite of an error, if the rows of a check are gone because of it.
func (rd *round) countLost(u *unit) {
	if u.lost == nil {
		return
	}
	if done, err := rd.run.records.Find(rd.run.work, &rd.claim.Claim, u.lost.Part); err == nil && done {
		rd.run.records.Count(row.Expected(u.lost.Outcomes), u.lost.Outcomes)
	}
}

// recordFailed returns why an outcome was not recorded: the lease is lost, the check has ended or broken its transaction,
// or the database cannot record it now.
func (rd *round) recordFailed(ctx context.Context, u *unit, err error) error {
	failed, commit := errors.AsType[*pgsql.CommitError](err)
	switch state := pgsql.State(err); {
	case commit && state != "" && (!server.Passes(err) || pgsql.IsRetryable(err) && u.conflictsFor(rd.run.cfg.Lease)):
		return failed // a deferred constraint
	case lease.IsLost(err):
		rd.run.leases.Lose(rd.claim.Lease)
		return err
	case state == "PS002":
		return errEndedTx
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return errEndedTx
	case state == pqerror.InFailedSQLTransaction:
		return fmt.Errorf("the check went on after an error of its transaction: %w", err)
	case state == pqerror.ObjectInUse: // what Forget drops is in use
		return fmt.Errorf(`the check has left constraints of a temporary table for the commit, which "set constraints all immediate" checks: %w`, err)
	case state == pqerror.ReadOnlySQLTransaction, state == "" && !pgsql.IsTransient(err) && ctx.Err() == nil:
		return fmt.Errorf("the check has left its transaction such that nothing can be recorded in it, read-only or with rows open: %w", err)
	case errors.Is(err, driver.ErrBadConn):
		return u.broke(err)
	case rd.run.records.Refuses(err):
		return fmt.Errorf("%s: its outcome cannot be recorded: %w", u, err)
	}
	return rd.postpone(ctx, u, err)
}
