// Package round calls the functions for rows of a claim: each call when its gate lets it start,
// and under a watch that bounds its time, whatever becomes of the claim of the rows. It hands back
// what became of the rows, in batches to record.
package round

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// Caller has what the rounds of a run share to call functions. It is safe for concurrent use.
type Caller struct {
	*phase.Contexts
	Log     *slog.Logger
	Panics  *unit.Panics
	Moment  func() guard.Moment // returns the current moment, by which rows are judged
	Session *claim.Session      // tells which rows are still in the slot
	Leases  *claim.Keeper
	Rows    int           // of a batch
	Grace   time.Duration // how long a check may ignore its timeout

	// Abandoned is called for each call that ignored its timeout and the grace period.
	Abandoned func()
}

// Round is units of one claim to check, each once.
type Round struct {
	*Caller
	Lease   *claim.Lease // of the claim
	Checker *txn.Checker // of the claim
	Queues  []lane.Queue
	ReadAt  time.Time        // local monotonic instant at which the rows were read
	Started func(rows int64) // is called with the number of rows whose check begins

	results *results
}

// Do checks the units, and yields what becomes of them. The last batch comes when no check runs and none will
// start, or when the run's time for checks is over. A call that ignores its context is abandoned then or later. Call Do
// once, and range over it once.
func (rd *Round) Do() iter.Seq[Batch] {
	return func(yield func(Batch) bool) {
		rd.results = newResults(rd)
		over := make(chan struct{})
		defer close(over)
		go rd.watch(over)
		rd.start()
		for {
			if b := rd.results.await(); !yield(b) || b.Last {
				return
			}
		}
	}
}

// start starts the checks, each as soon as there is room for it.
func (rd *Round) start() {
	for _, of := range rd.Queues {
		q := &queue{Queue: of}
		for range min(q.AtOnce, len(q.Units)) {
			go rd.checkMany(q)
		}
	}
}

// checkMany does checks of a queue until none is left. A check that never returns keeps the goroutine.
func (rd *Round) checkMany(q *queue) {
	for q.isNeeded() {
		permit, ok := q.Gate.Acquire(rd.Lease.Ctx)
		if !ok {
			return
		}
		chain := &txn.Chain{
			Permit: permit, Later: rd.results.later,
			Follow: func(before *unit.Unit) *unit.Unit { return rd.next(q, before) },
		}
		for u := rd.next(q, nil); u != nil; u = chain.Next() {
			if !rd.check(u, q, chain) {
				return
			}
		}
		q.Gate.Release()
	}
}

// next begins the call of the next unit of a queue, and returns the unit. It returns nil if the queue is empty, if the
// run is stopped, or if the unit may not follow the check before it in a chain.
func (rd *Round) next(q *queue, before *unit.Unit) *unit.Unit {
	rd.Leases.LoseExpired(rd.Lease)
	u := q.take(before)
	if u == nil || !rd.results.open(u, q) {
		return nil
	}
	rd.Started(u.Size())
	u.Brief(rd.Moment())
	return u
}

// check does one check. It returns false if its goroutine must end: the check was abandoned, or has
// ended the goroutine.
func (rd *Round) check(u *unit.Unit, q *queue, chain *txn.Chain) (goOn bool) {
	if u.Verdict != nil {
		return rd.results.settle(u, u.Unchecked(rd.Moment(), *u.Verdict))
	}
	if !u.Def.InTx() {
		if goOn, ok := rd.mayStart(u, chain); !ok {
			return goOn
		}
	}
	ctx := unit.NewContext(rd.Lease.Ctx, u.Watch.Began().Add(u.Def.Timeout)) // the same instant for abandonOverdue
	defer ctx.End()
	var results []jobs.Result
	err := unit.ErrGoexit // unless the function returns or panics
	defer func() {
		took := time.Since(u.Watch.Began())
		if p := recover(); p != nil {
			rd.Panics.Check(ctx, u.Def.Name, u.String(), p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
		goOn = rd.conclude(ctx, u, results, err, took)
		if err == unit.ErrGoexit && goOn { //nolint:errorlint // this goroutine is about to end
			q.Gate.Release()
			go rd.checkMany(q)
		}
	}()
	switch {
	case u.Def.InTx():
		err = rd.Checker.Check(ctx, u, chain)
	case u.Def.Batched():
		rows := slices.Clone(u.Rows) // because the function may change it
		results, err = u.Def.Call(reserved.Caller{}, ctx, nil, rows)
		u.Failure.Own = err != nil && ctx.Err() == nil && !pg.HasState(err, pqerror.QueryCanceled) && !pg.IsOfValue(err)
	default:
		results, err = u.Def.Call(reserved.Caller{}, ctx, nil, u.Rows)
	}
	return true
}

// fresh is how long rows are assumed to be as they were read. The checks of a claim of the right size take less.
const fresh = 3 * time.Second

// mayStart reports whether the function of a check without a transaction may start. Otherwise the
// check is done, or waits; check returns goOn. A check with a transaction finds out when it locks
// its rows.
func (rd *Round) mayStart(u *unit.Unit, chain *txn.Chain) (goOn, ok bool) {
	if time.Since(rd.ReadAt) >= fresh {
		if rd.isGone(u) {
			chain.Permit.GiveBack()
			return rd.results.settle(u, nil), false
		}
		// The look took time.
		if !chain.Permit.Renew(rd.Lease.Ctx) || rd.Leases.LoseExpired(rd.Lease) || rd.Stop.Err() != nil {
			return rd.results.yield(u, unit.Repeated), false
		}
		u.Brief(rd.Moment())
	}
	if guard.PastDeadline(u.Def, rd.Moment()) { // since its rows were read
		chain.Permit.GiveBack()
		return rd.results.settle(u, u.Unchecked(rd.Moment(), guard.Verdict{Outcome: jobs.OutcomeDeadline})), false
	}
	u.Watch.Start()
	return true, true
}

// isGone drops the rows of a unit that their owners have cancelled or moved since they were read, and reports whether
// none is left. Rows wait for minutes if checks are slow or limited.
func (rd *Round) isGone(u *unit.Unit) bool {
	remaining, err := rd.Session.Remaining(rd.Lease.Ctx, u.Number, u.IDs())
	if err != nil {
		rd.Log.DebugContext(rd.Lease.Ctx, "rows that waited were not searched for", "check", u.String(), "error", err)
		return false
	}
	return !u.Keep(remaining)
}

// conclude processes the return of a check.
func (rd *Round) conclude(
	ctx context.Context, u *unit.Unit, results []jobs.Result, err error, took time.Duration,
) bool {
	switch {
	case errors.Is(err, txn.ErrRecorded):
		return rd.results.settle(u, nil)
	case errors.Is(err, txn.ErrLocked):
		return rd.results.yield(u, unit.Locked)
	case errors.Is(err, txn.ErrAgain):
		return rd.results.yield(u, unit.Repeated)
	case rd.Lease.Ctx.Err() != nil: // the check was cut short, or its claim belongs to another runner
		return rd.results.forget(u)
	case u.FailedAsAWhole(err) && u.MayDivide(took, timedOut(ctx, err)):
		rd.Log.DebugContext(ctx, "call is divided", "check", u.String(), "error", err)
		u.Failure.Whole = true
		return rd.results.yield(u, unit.Divided)
	}
	return rd.results.settle(u, u.Outcomes(ctx, rd.Moment(), results, err, took, rd.Panics))
}

// timedOut reports whether a call failed because of its timeout, or of a timeout that its function
// set: for a statement, or in a context.
func timedOut(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), unit.ErrTimeout) || pg.HasState(err, pqerror.QueryCanceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// watchEvery is how often a round looks for checks that are overdue.
const watchEvery = 100 * time.Millisecond

// watch abandons overdue checks until the round is over. If the round has left checks behind then, because the run was
// stopped, watch goes on until none of them is left: they have permits that other runs of the process need.
func (rd *Round) watch(over <-chan struct{}) {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for over != nil || rd.results.isBusy() {
		select {
		case <-look.C:
			rd.abandonOverdue()
		case <-over:
			over = nil
		}
	}
}

// abandonOverdue abandons checks that ignored their timeout and the grace period. Other checks get their permits, and
// their rows count as failed.
func (rd *Round) abandonOverdue() {
	for _, u := range rd.results.calls() {
		most := u.MayTake(rd.Grace)
		if !u.Watch.Abandon(most) {
			continue
		}
		was := u.Copy() // because the abandoned function may go on with the unit
		err := fmt.Errorf("%w after %s: %w", unit.ErrTimeout, u.Def.Timeout, unit.ErrIgnored)
		rd.Abandoned() // first, because the round may be over once the outcomes are known
		q := rd.results.abandon(u, was.Outcomes(rd.Work, rd.Moment(), nil, err, most, rd.Panics))
		rd.Log.ErrorContext(rd.Work, "check abandoned", "check", was.String(), "timeout", u.Def.Timeout, "grace", rd.Grace)
		q.Gate.Release()
		go rd.checkMany(q)
	}
}
