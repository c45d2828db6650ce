// Package phase ends a run in phases. A run that is stopped claims and starts nothing more. Its checks go on for the
// grace period, and its statements until the outcomes are recorded.
package phase

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrStopped is the cause with which the contexts of a stopped run end.
var ErrStopped = errors.New("stopped before the slot was done")

// ErrBeforeLedger is wrapped by the error of a run of a slot from before the ledger's beginning.
var ErrBeforeLedger = errors.New("before the ledger")

const (
	// ClosingTime is how long a stopped run has, after the grace period, to record outcomes and to hand back its claims.
	ClosingTime = 5 * time.Second
	// LastTime is when it returns, after the grace period, even if the database has not answered.
	LastTime = 8 * time.Second
)

// Contexts are the contexts of a run. After it is stopped, they end one after the other.
type Contexts struct {
	Stop   context.Context         // ends when nothing more may be claimed or started: the run was stopped, or failed
	Halt   context.CancelCauseFunc // ends Stop, for an error of the run itself
	Checks context.Context         // of checks; goes on after Stop for the grace period
	Work   context.Context         // of statements; goes on after Stop until outcomes are recorded
	Last   <-chan struct{}         // closed when the run must return

	endWork context.CancelCauseFunc
	disarm  func() bool
	failure atomic.Pointer[error] // that Halt was called with first, before the run was stopped
}

// Failure returns the error of the run itself that has ended Stop. Nil: none has. The cause of Stop may be of any kind,
// because the caller of the run ends it with a cause of theirs.
func (c *Contexts) Failure() error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// New returns the contexts of a run, whose Stop ends with ctx. Call End.
func New(ctx context.Context, grace time.Duration) *Contexts {
	var endChecks context.CancelCauseFunc
	last := make(chan struct{})
	c := &Contexts{Last: last}
	var halt context.CancelCauseFunc
	c.Stop, halt = context.WithCancelCause(ctx)
	c.Halt = func(err error) {
		if err != nil && c.Stop.Err() == nil {
			c.failure.CompareAndSwap(nil, &err)
		}
		halt(err)
	}
	c.Work, c.endWork = context.WithCancelCause(context.WithoutCancel(c.Stop))
	c.Checks, endChecks = context.WithCancelCause(c.Work)
	c.disarm = context.AfterFunc(c.Stop, func() {
		at := func(d time.Duration, then func()) { time.AfterFunc(grace+d, then) }
		at(0, func() { endChecks(ErrStopped) })
		at(ClosingTime, func() { c.endWork(ErrStopped) })
		at(LastTime, func() { close(last) })
	})
	return c
}

// EndWork ends Work and Checks without a cause: all statements have returned.
func (c *Contexts) EndWork() { c.endWork(nil) }

// End ends Stop without a cause. Statements that are left behind on a dead network end by themselves.
func (c *Contexts) End() {
	c.disarm()
	c.Halt(nil)
}
