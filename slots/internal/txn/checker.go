package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// Errors that end a check with a transaction. They are no errors of its rows, so no row counts them.
var (
	ErrRecorded = errors.New("the outcome is recorded with the transaction, or must not be recorded")
	ErrLocked   = errors.New("another session has a lock: to be repeated")
	ErrAgain    = errors.New("the database cannot do it now: to be repeated")
	errNoTx     = errors.New("there was no connection within the timeout of the job")
	errEndedTx  = errors.New("the check ended its transaction itself: it must return instead")
)

// Options describes the run that checks are for. Its Checkers share them.
type Options struct {
	*db.Server
	*phase.Contexts
	Records *record.Recorder
	Grace   time.Duration // how long a check may ignore its timeout
	Groups  *db.Advisory  // for the locks of groups
	Panics  *unit.Panics
}

// Checker does checks in transactions for a claim. It is safe for concurrent use.
type Checker struct {
	*Options

	claim   *claim.Claim
	begins  sync.Map // *patience by pool, with the messages that begin a check
	commits patience // with those that record it
}

// NewChecker returns a Checker for a claim, whose lease has begun.
func NewChecker(o *Options, c *claim.Claim) *Checker { return &Checker{Options: o, claim: c} }

// Chain is checks that a goroutine does one after the other with the same permit. The commit of a check may begin the
// transaction of the next.
type Chain struct {
	Permit permit.Permit
	// Follow begins the unit that follows in the chain, if it may. Nil: none does.
	Follow func(before *unit.Unit) *unit.Unit
	// Later takes rows of a unit that goes on without them: they wait for a lock of another transaction, or were left.
	Later func(u *unit.Unit)

	next  *unit.Unit
	begun *transaction // of next; nil: it has not begun
}

// Next returns the unit that Follow has begun during the last check. Nil: none.
func (ch *Chain) Next() *unit.Unit { return ch.next }

// maxChain bounds how long one chain may keep its permit, because other checks wait for it.
const maxChain = 200 * time.Millisecond

// follow begins the unit that follows in the chain.
func (ch *Chain) follow(u *unit.Unit) {
	if !ch.Permit.IsLimited() && !u.Def.Batched() && time.Since(ch.Permit.Since) < maxChain {
		ch.next = ch.Follow(u)
	}
}

// popBegun returns the transaction that the check before has begun for this one, and forgets it. Nil: there is
// none.
func (ch *Chain) popBegun() (begun *transaction) {
	begun, ch.next, ch.begun = ch.begun, nil, nil
	return begun
}

// Check does a check and records its outcome in one transaction. It always returns an error: ErrRecorded, ErrLocked or
// ErrAgain to repeat the check, or the error of its rows.
func (c *Checker) Check(ctx *unit.Context, u *unit.Unit, ch *Chain) error {
	open, end := context.WithCancel(c.claim.Ctx) // until its transaction ends
	defer end()
	waits := time.AfterFunc(u.Def.Timeout, end)
	defer waits.Stop()
	tx, err := c.begin(open, u, ch.popBegun())
	if err != nil && open.Err() != nil {
		err = errNoTx
	}
	if err != nil {
		return c.postpone(open, u, ch, fmt.Errorf("begin transaction: %w", err))
	}
	defer tx.End()
	if err := c.enter(open, tx, u, ch); err != nil {
		return err
	}
	// The timeout, the lease or the run may have ended during the wait. After SIGSTOP the contexts end late, so this asks.
	if !waits.Stop() {
		return c.postpone(open, u, ch, ErrLocked)
	}
	if !c.claim.IsValid() || c.Stop.Err() != nil {
		return c.postpone(open, u, ch, ErrAgain)
	}
	moment := c.Records.Moment()
	u.Brief(moment)
	u.Watch.Start()
	ctx.Restart(u.Watch.Began().Add(u.Def.Timeout))
	called := u.Judge(moment)
	if len(called) == 0 {
		err := c.commit(ctx, tx, u, ch, u.Outcomes(ctx, moment, nil, nil, 0, c.Panics))
		tx.End()
		ch.Permit.GiveBack()
		return err
	}
	context.AfterFunc(ctx, end)
	results, err := u.Def.Call(reserved.Caller{}, ctx, tx.Tx, called)
	if err != nil {
		return c.failed(ctx, tx, u, ch, err)
	}
	if ctx.Err() != nil && c.claim.Ctx.Err() == nil {
		return unit.ErrTimeout
	}
	if !u.Watch.Reserve() { // what has abandoned the call reads its unit
		return unit.ErrIgnored
	}
	left, results := u.SplitLeft(results)
	for _, rows := range left {
		ch.Later(rows)
	}
	if len(u.Rows) == 0 {
		return ErrRecorded // with their own calls
	}
	outcomes := u.Outcomes(ctx, c.Records.Moment(), results, nil, time.Since(u.Watch.Began()), c.Panics)
	return c.commit(ctx, tx, u, ch, outcomes)
}

// enter locks the rows of a check, and waits for an instant at which the check may begin if that has passed meanwhile.
func (c *Checker) enter(open context.Context, tx *transaction, u *unit.Unit, ch *Chain) error {
	err := c.lock(open, tx, u, ch)
	if !pg.IsTransient(err) && open.Err() == nil {
		c.beginsOn(u.Def.DB).renew()
	}
	if err != nil {
		if errors.Is(err, ErrRecorded) && u.Def.DB != nil {
			err = c.sameDatabase(open, tx.Tx)
		}
		tx.End() // so that no goroutine holds a connection while it waits for another
		ch.Permit.GiveBack()
		if errors.Is(err, ErrRecorded) {
			c.countUnanswered(u)
		}
		return c.postpone(open, u, ch, err)
	}
	if !ch.Permit.Renew(open) { // it waited for the connection or a lock
		return c.postpone(open, u, ch, ErrAgain)
	}
	return nil
}
