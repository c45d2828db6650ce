package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/page"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
	pgsql "github.com/prescient-go/prescient/sql"
)

// caller has what the rounds of a run share to call functions.
type caller struct {
	*phases

	log     *slog.Logger
	report  *report
	panics  *call.Panics
	moment  func() guard.Moment // returns the current moment, by which rows are judged
	leases  *lease.Keeper
	pages   *page.Reader
	txns    *txn.Run
	page    int           // rows of a record
	grace   time.Duration // how long a check may ignore its timeout
	workers int
}

// round does the checks of units of one claim, each once.
type round struct {
	*caller
	*tray

	lease   *lease.Lease
	checker *txn.Checker
	read    time.Time        // local monotonic instant at which the rows were read
	started func(rows int64) // is called with rows whose check begins
}

// round returns a round of checks of a claim.
func (c *caller) round(of *claim, queues []*queue) *round {
	return &round{
		caller: c, tray: newTray(c.phases, of.ctx, c.page, queues),
		lease: of.Lease, checker: of.checker, read: of.readAt, started: of.started,
	}
}

// start starts the checks, each as soon as there is room for it.
func (rd *round) start(queues []*queue) {
	for _, q := range queues {
		for range min(q.places, len(q.units)) {
			go rd.checkMany(q)
		}
	}
}

// checkMany does checks on its goroutine until none is left. A check that never returns keeps the goroutine.
func (rd *round) checkMany(q *queue) {
	for q.isNeeded() {
		pass, ok := q.door.Enter(rd.ctx)
		if !ok {
			return
		}
		place := &txn.Place{
			Pass: pass, Later: rd.later, Follow: func(before *unit.Unit) *unit.Unit { return rd.begin(q, before) },
		}
		for u := rd.begin(q, nil); u != nil; u = place.Next() {
			if !rd.check(u, q, place) {
				return
			}
		}
		q.door.Leave()
	}
}

// begin returns the next unit of a queue. It returns nil if the queue is empty, if the run is
// stopped, or if the unit may not follow the check before it in the same place.
func (rd *round) begin(q *queue, before *unit.Unit) *unit.Unit {
	rd.leases.Expired(rd.lease) // ends the context of the claim if it is
	u := q.next(before)
	if u == nil || !rd.tray.start(u, q) {
		return nil
	}
	rd.started(u.Size())
	u.Brief(rd.moment())
	return u
}

// check does one check. It returns false if its goroutine must end: the check was abandoned, or has
// ended the goroutine.
func (rd *round) check(u *unit.Unit, q *queue, place *txn.Place) (goOn bool) {
	if u.Verdict != nil {
		return rd.settle(u, u.Unchecked(*u.Verdict))
	}
	if !u.Def.InTx() {
		if goOn, ok := rd.mayStart(u, place); !ok {
			return goOn
		}
	}
	ctx := call.NewContext(rd.ctx, u.Watch.Began().Add(u.Def.Timeout)) // the same instant for abandonOverdue
	defer ctx.End()
	var results []jobs.Result
	err := call.ErrGoexit // unless the function returns or panics
	defer func() {
		took := time.Since(u.Watch.Began())
		if p := recover(); p != nil {
			rd.panics.Check(ctx, u.Def.Name, u.String(), p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
		goOn = rd.conclude(ctx, u, results, err, took)
		if err == call.ErrGoexit && goOn { //nolint:errorlint // this goroutine is about to end
			q.door.Leave()
			go rd.checkMany(q)
		}
	}()
	switch {
	case u.Def.InTx():
		results, err = rd.checker.Check(ctx, u, place)
	case u.Def.Batched():
		results, err = u.Def.Call(ctx, nil, slices.Clone(u.Rows)) // a clone, because the function may change it
		u.Failure.Own = err != nil && ctx.Err() == nil && !pgsql.HasState(err, pqerror.QueryCanceled) && !pgsql.IsOfValue(err)
	default:
		results, err = u.Def.Call(ctx, nil, u.Rows)
	}
	return true
}

// fresh is how long rows are taken to be as they were read. The checks of a claim of the right size take less.
const fresh = 3 * time.Second

// mayStart reports whether the function of a check without a transaction may start. Otherwise the
// check is done, or waits; check returns goOn. A check with a transaction finds out when it locks
// its rows.
func (rd *round) mayStart(u *unit.Unit, place *txn.Place) (goOn, ok bool) {
	if time.Since(rd.read) >= fresh {
		if rd.isGone(u) {
			place.Pass.Spare()
			return rd.settle(u, nil), false
		}
		if !place.Pass.Renew(rd.ctx) || rd.stop.Err() != nil { // the look took its time
			return rd.yield(u), false
		}
		u.Brief(rd.moment())
	}
	if guard.PastDeadline(u.Def, rd.moment()) { // since its rows were read
		place.Pass.Spare()
		return rd.settle(u, u.Unchecked(guard.Verdict{Outcome: jobs.DeadlinePassed})), false
	}
	u.Watch.Start()
	return true, true
}

// isGone drops the rows of a unit that their owners have cancelled or moved since they were read, and reports whether
// none is left. Rows wait for minutes if checks are slow or limited.
func (rd *round) isGone(u *unit.Unit) bool {
	remaining, err := rd.pages.Remaining(rd.ctx, u.Number, u.IDs())
	if err != nil {
		rd.log.DebugContext(rd.ctx, "rows that waited were not looked for", "check", u.String(), "error", err)
		return false
	}
	return !u.Keep(remaining)
}

// conclude processes the return of a check.
func (rd *round) conclude(
	ctx context.Context, u *unit.Unit, results []jobs.Result, err error, took time.Duration,
) bool {
	switch {
	case errors.Is(err, txn.ErrRecorded):
		return rd.settle(u, nil)
	case errors.Is(err, txn.ErrAgain):
		return rd.yield(u)
	case rd.ctx.Err() != nil: // the check was cut short, or its claim belongs to another runner
		return rd.forget(u)
	case u.FailedAsAWhole(err) && u.MayDivide(took, timedOut(ctx, err)):
		rd.log.DebugContext(ctx, "call is divided", "check", u.String(), "error", err)
		u.Failure.Whole = true
		return rd.yield(u)
	}
	return rd.settle(u, u.Outcomes(ctx, rd.moment(), results, err, took, rd.panics))
}

// watchEvery is how often a round looks for checks that are overdue.
const watchEvery = 100 * time.Millisecond

// watch abandons overdue checks until the round is over. If the run has left checks behind then, because it was
// stopped, watch goes on until none of them is left: they have places in the bounds of Config.Shared.
func (rd *round) watch(over <-chan struct{}) {
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for over != nil || rd.isBusy() {
		select {
		case <-look.C:
			rd.abandonOverdue()
		case <-over:
			over = nil
		}
	}
}

// timedOut reports whether a call failed because of its timeout, or of a timeout that its function
// set: for a statement, or in a context.
func timedOut(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), call.ErrTimeout) || pgsql.HasState(err, pqerror.QueryCanceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// abandonOverdue abandons checks that ignored their timeout and the grace period. Other checks get their places, and
// their rows count as failed. The run ends once as many checks are abandoned as there are workers.
func (rd *round) abandonOverdue() {
	for _, u := range rd.calls() {
		most := call.Most(u.Def.Timeout, rd.grace)
		if !u.Watch.Abandon(most) {
			continue
		}
		was := u.Copy() // because the abandoned function may go on with the unit
		err := fmt.Errorf("%w after %s: %w", call.ErrTimeout, u.Def.Timeout, call.ErrIgnored)
		q := rd.abandon(u, was.Outcomes(rd.work, rd.moment(), nil, err, most, rd.panics))
		rd.log.ErrorContext(rd.work, "check abandoned", "check", was.String(), "timeout", u.Def.Timeout, "grace", rd.grace)
		if rd.report.abandon() >= rd.workers {
			rd.halt(fmt.Errorf("%w: %d of them, as many as there are workers", ErrAbandoned, rd.workers))
		}
		q.door.Leave()
		go rd.checkMany(q)
	}
}
