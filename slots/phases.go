package slots

import (
	"context"
	"time"
)

const (
	// closingTime is how long a stopped run has, after the grace period, to record outcomes and to hand back its claims.
	// After lastTime it returns even if the database has not answered.
	closingTime = 5 * time.Second
	lastTime    = 8 * time.Second
)

// phases are the contexts of a run. After it is stopped, they end one after the other.
type phases struct {
	stop   context.Context         // ends when nothing more may be claimed or started: the run was stopped, or failed
	halt   context.CancelCauseFunc // ends stop, for an error of the run itself
	checks context.Context         // of checks; goes on after stop for the grace period
	work   context.Context         // of statements; goes on after stop until outcomes are recorded
	last   chan struct{}           // closed when the run must return

	endWork context.CancelCauseFunc
	disarm  func() bool
}

// newPhases returns the phases of a run, whose stop ends with ctx. Call close.
func newPhases(ctx context.Context, grace time.Duration) *phases {
	var endChecks context.CancelCauseFunc
	p := &phases{last: make(chan struct{})}
	p.stop, p.halt = context.WithCancelCause(ctx)
	p.work, p.endWork = context.WithCancelCause(context.WithoutCancel(p.stop))
	p.checks, endChecks = context.WithCancelCause(p.work)
	p.disarm = context.AfterFunc(p.stop, func() {
		at := func(d time.Duration, then func()) { time.AfterFunc(grace+d, then) }
		at(0, func() { endChecks(ErrStopped) })
		at(closingTime, func() { p.endWork(ErrStopped) })
		at(lastTime, func() { close(p.last) })
	})
	return p
}

// close ends stop without a cause. Statements that are left behind on a dead network end by themselves.
func (p *phases) close() {
	p.disarm()
	p.halt(nil)
}
