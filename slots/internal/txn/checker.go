package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/holder"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/unit"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Errors by which a check with a transaction ends without an error of its rows.
var (
	ErrRecorded = errors.New("the outcome is recorded with the transaction, or must not be recorded")
	ErrAgain    = errors.New("another session has a lock, or the database cannot do it now: to be repeated")
	errEndedTx  = errors.New("the check ended its transaction itself: it must return instead")
)

// Run is the run that checks are for.
type Run struct {
	*server.Server
	Records *record.Recorder
	Stop    context.Context         // ends when nothing more may be started
	Halt    context.CancelCauseFunc // ends Stop, for an error of the database
	Work    context.Context         // of statements
	Grace   time.Duration           // how long a check may ignore its timeout
	Moment  func() guard.Moment     // returns the current moment, by which rows are judged
	Groups  *holder.Advisory        // for the locks of groups
	Panics  *call.Panics
}

// Checker does checks in transactions for a claim. It is safe for concurrent use.
type Checker struct {
	*Run

	claim *record.Claim
	ctx   context.Context // of checks; ends when the lease is lost

	patience patience
}

// NewChecker returns a Checker for a claim, whose checks end with ctx.
func NewChecker(ctx context.Context, r *Run, c *record.Claim) *Checker {
	return &Checker{Run: r, claim: c, ctx: ctx}
}

// Place is where a goroutine does checks, one after the other.
type Place struct {
	Pass permit.Pass
	// Follow begins the unit that follows in the place, if it may. Nil: none does.
	Follow func(before *unit.Unit) *unit.Unit
	// Later takes rows of a unit that goes on without them: they wait for a lock of another transaction, or were left.
	Later func(u *unit.Unit)

	next  *unit.Unit
	begun *transaction // of next; nil: it has not begun
}

// Next returns the unit that Follow has begun during the last check. Nil: none.
func (p *Place) Next() *unit.Unit { return p.next }

// stint bounds how long one chain of checks may hold a place, because other checks wait for it.
const stint = 200 * time.Millisecond

// follow begins the unit that follows in the place.
func (p *Place) follow(u *unit.Unit) {
	if !p.Pass.IsLimited() && !u.Def.Batched() && time.Since(p.Pass.Since) < stint {
		p.next = p.Follow(u)
	}
}

// leave takes what the check before has begun: the transaction of this check.
func (p *Place) leave() (begun *transaction) {
	begun, p.next, p.begun = p.begun, nil, nil
	return begun
}

// Check does a check and records its outcome in one transaction. It returns ErrRecorded, ErrAgain to repeat the check,
// or what the function did: results without their record, or the error of its rows.
func (c *Checker) Check(ctx *call.Context, u *unit.Unit, p *Place) ([]jobs.Result, error) {
	open, end := context.WithCancel(c.ctx) // until its transaction ends
	defer end()
	waits := time.AfterFunc(u.Def.Timeout, end)
	tx, err := c.begin(open, u, p.leave())
	if err != nil {
		return nil, c.postpone(open, u, p, fmt.Errorf("begin transaction: %w", err))
	}
	defer tx.End()
	if err := c.enter(open, tx, u, p); err != nil {
		return nil, err
	}
	if !waits.Stop() || c.Stop.Err() != nil { // meanwhile, or during the long commit that began it
		return nil, c.postpone(open, u, p, ErrAgain)
	}
	moment := c.Moment()
	u.Brief(moment)
	u.Watch.Start()
	ctx.Restart(u.Watch.Began().Add(u.Def.Timeout))
	if guard.PastDeadline(u.Def, moment) {
		err := c.commit(ctx, tx, u, p, u.Unchecked(guard.Verdict{Outcome: jobs.DeadlinePassed}))
		tx.End()
		p.Pass.Spare()
		return nil, err
	}
	context.AfterFunc(ctx, end)
	results, err := u.Def.Call(ctx, tx.Tx, slices.Clone(u.Rows))
	if err != nil {
		return nil, c.failed(ctx, tx, u, p, err)
	}
	if ctx.Err() != nil && c.ctx.Err() == nil {
		return nil, call.ErrTimeout
	}
	left, results := u.Leave(results)
	if left != nil {
		p.Later(left)
	}
	outcomes := u.Outcomes(ctx, c.Moment(), results, nil, time.Since(u.Watch.Began()), c.Panics)
	return nil, c.commit(ctx, tx, u, p, outcomes)
}

// enter locks the rows of a check, and waits for an instant at which the check may begin if that has passed meanwhile.
func (c *Checker) enter(open context.Context, tx *transaction, u *unit.Unit, p *Place) error {
	if err := c.lock(open, tx, u, p); err != nil {
		if errors.Is(err, ErrRecorded) && u.Def.DB != nil {
			err = c.sameDatabase(open, tx.Tx)
		}
		tx.End() // so that no goroutine holds a connection while it waits for another
		p.Pass.Spare()
		if errors.Is(err, ErrRecorded) {
			c.countLost(u)
		}
		return c.postpone(open, u, p, err)
	}
	if !p.Pass.Renew(open) { // it waited for the connection or a lock
		return c.postpone(open, u, p, ErrAgain)
	}
	return nil
}

// failed returns what becomes of a check whose function returned an error.
func (c *Checker) failed(ctx context.Context, tx *transaction, u *unit.Unit, p *Place, err error) error {
	switch lost := tx.Rollback(); {
	case ctx.Err() != nil:
	case pgsql.IsTransient(lost) && !isCut(err): // whatever the function returns for a broken connection
		return broke(u, err)
	case u.Divisible() && (pgsql.IsRetryable(err) || pgsql.IsLockTimeout(err)):
		u.Failure.Whole = true // so that the other rows do not wait
		return c.postpone(ctx, u, p, err)
	case pgsql.IsRetryable(err) && !u.Tried.ConflictsFor(c.Lease), pgsql.IsLockTimeout(err),
		pgsql.HasState(err, pqerror.QueryCanceled) && !errors.Is(err, jobs.ErrDivide) && u.Tried.CanceledOnce() &&
			!u.Divisible():
		return c.postpone(ctx, u, p, err)
	case pgsql.IsStale(err) && u.Tried.Broke() <= maxBreaks:
		return ErrAgain
	case !isCut(err):
		u.Failure.Own = !pgsql.IsOfValue(err)
	}
	return err
}

// isCut reports whether an error is of a statement that was cut short: by a context that ended, which makes the driver
// close the connection, or by another session.
func isCut(err error) bool {
	return pgsql.HasState(err, pqerror.QueryCanceled) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}
