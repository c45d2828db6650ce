package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/session"
	"github.com/prescient-go/prescient/slots/internal/statement"
	"github.com/prescient-go/prescient/slots/internal/turn"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// lookEvery is how often an idle runner looks for claims to take over.
	lookEvery = 500 * time.Millisecond
	// closingTime is how long a stopped run has, after the grace period, to record outcomes and to hand back its claims.
	// After lastTime it returns even if the database has not answered.
	closingTime = 5 * time.Second
	lastTime    = 8 * time.Second
)

// earlyError is returned for a slot that has not begun by the clock that slots are compared with.
type earlyError struct{ ahead time.Duration }

func (e earlyError) Error() string {
	return fmt.Sprintf("the slot is %s ahead by the database's clock: a slot is never run early", spoken.Duration(e.ahead))
}

// errOffGrid is returned for an instant that was a slot when the runner was made.
var errOffGrid = errors.New("it is not a slot any more, since the width was changed: what was in it waits in the slots after it")

// run is the work of one runner on one slot. The goroutine of do decides what to claim, and each claim has a goroutine of
// its own, in workOn. They share the bounds on concurrent work, the leases, and the result.
type run struct {
	*Runner
	slot time.Time
	sel  selection

	stop   context.Context         // ends when nothing more may be claimed or started: the run was stopped, or failed
	halt   context.CancelCauseFunc // ends stop, for an error of the run itself
	work   context.Context         // of statements; goes on after stop until outcomes are recorded
	checks context.Context         // of checks; goes on after stop for the grace period

	workers     permit.Semaphore // concurrent checks
	connections permit.Semaphore // concurrent checks with a transaction
	readers     permit.Semaphore // concurrent claims and reads
	session     session.Session
	leases      *lease.Keeper
	going       atomic.Int64 // claims with a goroutine
	memory      memory       // rows in memory, except rows that wait for a lock of another transaction
	records     *record.Recorder
	wake        chan struct{} // wakes the goroutine of do

	known map[int64]slotJob // the jobs of the slot; replaced by look, while there are no claims
	lanes []*lane           // of them; only the goroutine of do uses it
	order *turn.Order       // in which lanes have their turn; only the goroutine of do uses it

	report *report
}

func newRun(ctx context.Context, r *Runner, slot time.Time, sel selection) *run {
	n := &run{
		Runner: r, slot: slot, sel: sel,
		workers: make(permit.Semaphore, r.cfg.Workers), connections: make(permit.Semaphore, r.cfg.Connections), readers: make(permit.Semaphore, 1),
		wake: make(chan struct{}, 1), order: turn.NewOrder(int64(r.cfg.Page), sel.limit),
	}
	writer := &statement.Writer{Server: &r.server, Slot: slot, Runner: r.cfg.Name, Now: r.Now, Replayed: r.cfg.Now != nil}
	n.session = session.Session{
		Server: &r.server, Slot: slot, Kind: string(sel.kind), Token: lease.NewToken(), Runner: r.cfg.Name, Able: r.cfg.Workers, Clock: writer.Clock,
	}
	n.stop, n.halt = context.WithCancelCause(ctx)
	n.report = &report{cfg: &r.cfg, ctx: n.stop, result: Result{Slot: slot, Kind: sel.kind}}
	n.leases = lease.NewKeeper(&r.server, n.session.Token, slog.Time("slot", slot))
	n.records = record.New(writer, record.Options{
		Leases: n.leases, Page: r.cfg.Page, Moment: n.moment, Count: n.count, CountRefused: n.countRefused,
	})
	return n
}

// do does the whole run. After lastTime it leaves behind statements on a dead network, which end by themselves.
func (r *run) do() (Result, error) {
	defer r.halt(nil)
	var endWork, endChecks context.CancelCauseFunc
	r.work, endWork = context.WithCancelCause(context.WithoutCancel(r.stop))
	r.checks, endChecks = context.WithCancelCause(r.work)
	over, last := make(chan struct{}), make(chan struct{})
	defer context.AfterFunc(r.stop, func() {
		at := func(d time.Duration, then func()) { time.AfterFunc(r.cfg.Grace+d, then) }
		at(0, func() { endChecks(ErrStopped) })
		at(closingTime, func() { endWork(ErrStopped) })
		at(lastTime, func() { close(last) })
	})()
	var state State
	var err error
	go func() {
		defer close(over)
		var end string
		switch end, err = r.open(); end {
		case "open":
			state, err = r.attend()
		case "busy":
			state = StateOpen
		case "done":
			state = StateDone
		}
	}()
	select {
	case <-over:
		endWork(nil)
		return r.finish(state, err)
	case <-last:
		cause := context.Cause(r.stop)
		if errors.Is(cause, context.Canceled) {
			cause = ErrStopped
		}
		return r.finish(StateOpen, fmt.Errorf("%w: the database does not answer; claims end with their leases", cause))
	}
}

// open lets the run into the slot.
func (r *run) open() (state string, err error) {
	opened, list, err := r.session.Open(r.stop, r.work, int64(r.cfg.Page))
	if err != nil {
		return "", fmt.Errorf("open: %w", pgsql.ExplainMissing(err))
	}
	r.know(list)
	r.records.Place = opened.Place
	r.report.opened(opened)
	switch {
	case opened.State == "early" && opened.Ahead > 0:
		return opened.State, earlyError{opened.Ahead}
	case opened.State == "early":
		return opened.State, errOffGrid
	}
	return opened.State, nil
}

// finish turns how the run ended into its result and error.
func (r *run) finish(state State, err error) (Result, error) {
	result := r.report.soFar()
	result.State, result.Lost = state, r.leases.Lost()
	cause := context.Cause(r.stop)
	stopped := errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)
	switch {
	case err != nil && stopped && server.Passes(err):
		return result, fmt.Errorf("%w: %w", ErrStopped, err)
	case err != nil:
		return result, err
	case cause != nil && !stopped:
		return result, cause
	case result.Abandoned > 0:
		return result, ErrAbandoned
	case result.Refused > 0:
		return result, r.report.refused()
	case cause != nil && state != StateDone:
		return result, ErrStopped
	}
	return result, nil
}

// attend works on the open slot until it is done, or until nothing is left for this runner. Then it hands back its
// claims.
func (r *run) attend() (state State, err error) {
	beats, endBeats := context.WithCancel(r.work)
	var beating sync.WaitGroup
	beating.Go(func() { r.leases.Beat(beats) })
	state, err = r.loop()
	if err != nil {
		r.halt(err)
	}
	for r.going.Load() > 0 {
		<-r.wake
	}
	if r.records.HasClosed() {
		state = StateDone
	}
	endBeats()
	beating.Wait()
	if state != StateDone {
		ctx, end := context.WithTimeout(r.work, closingTime)
		defer end()
		r.leases.HandBack(ctx)
	}
	return state, err
}

// loop claims rows while there are rows and room for them, and closes the slot when there are none.
func (r *run) loop() (State, error) {
	var err error
	idle := elapsed.Now() // since when there has been nothing to do
	for err == nil && r.stop.Err() == nil {
		claimed := false
		if l := r.next(); l != nil {
			if claimed, err = r.claim(l); claimed {
				idle = elapsed.Now()
			}
			continue
		}
		if r.records.HasClosed() {
			return StateDone, nil
		}
		if r.going.Load() > 0 || r.waits() {
			if !r.wait(lookEvery) {
				_, err = r.takeOver()
			}
			idle = elapsed.Now()
			continue
		}
		var end string
		switch end, err = r.session.Close(r.work, r.sel.leave); {
		case err != nil:
		case end == "done":
			return StateDone, nil
		case end == "busy":
			if claimed, err = r.takeOver(); claimed {
				idle = elapsed.Now()
			} else if err == nil && (!r.stays(idle) || r.limitReached()) {
				return StateOpen, r.noteOrphans()
			} else {
				r.wait(lookEvery)
			}
		case r.rests() && !r.limitReached(): // left, or again
			r.wait(lookEvery)
			err = r.look()
		case r.sel.leave || r.limitReached():
			return StateOpen, nil
		default:
			if err = r.look(); err == nil && r.next() == nil && !r.rests() {
				return StateOpen, nil
			}
		}
	}
	return StateOpen, err
}

// noteOrphans records the jobs that are not registered here and of which a dead runner has left claims.
func (r *run) noteOrphans() error {
	names, err := r.session.Orphans(r.work)
	for _, name := range names {
		if _, registered := engine.Lookup(r.cfg.Registry, name); !registered {
			r.report.note(name)
		}
	}
	return err
}

// stays reports whether an idle run stays at the slot. It stays for a lease, in which it would find out that another
// runner has died, and longer if rows rest that only this run may be able to check. Catch-up goes on to other slots, and
// a run that has left rows keeps the slot open itself.
func (r *run) stays(idle time.Time) bool {
	if r.sel.kind == KindCatchUp || r.report.refused() != nil {
		return time.Since(idle) <= 2*lookEvery
	}
	return time.Since(idle) <= r.cfg.Lease || r.rests()
}

// wait returns true if something has changed, and false if the run is stopped, or after limit.
func (r *run) wait(limit time.Duration) bool {
	select {
	case <-r.wake:
		return true
	case <-time.After(limit):
	case <-r.stop.Done():
	}
	return false
}

// pass waits for a duration, and returns false if ctx or the run ends first.
func (r *run) pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.stop.Done():
	case <-ctx.Done():
	}
	return false
}

// changed wakes the goroutine of do.
func (r *run) changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// moment returns the current moment, by which rows are judged.
func (r *run) moment() guard.Moment {
	return guard.Moment{Grid: r.Grid(), Slot: r.slot, Now: r.Now(), CaughtUp: r.sel.kind == KindCatchUp}
}

// count takes what was recorded into the report.
func (r *run) count(n row.Tally, recorded []row.Outcome) { r.report.count(n, recorded, r.known) }

// countRefused takes a row into the report that is left in its slot. The run ends when a page of rows are.
func (r *run) countRefused(why error) {
	if n := r.report.refuse(why); n >= int64(r.cfg.Page) {
		r.halt(r.report.refused())
	}
}
