package slots

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/round"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// work is the work of a goroutine on a claim, from reading its rows to recording the last of them.
type work struct {
	*claim.Claim
	run     *run
	lanes   []*lane.Lane // of its jobs: several if it was taken over from a binary that had these jobs in one lane
	account *lane.Account
	permits *permit.Set
	checker *txn.Checker

	// maybeCalled tells that functions of its rows may have been called before, without a record.
	maybeCalled bool

	readAt time.Time     // local monotonic instant at which its rows were read
	again  []*unit.Unit  // units to check once another transaction's lock is gone, or a permit is free
	locked []row.Outcome // outcomes whose rows another transaction has locked
	wait   wait
	// last follows the record of the last row. GoOn: rows are left to other runners.
	last record.Then
}

func (r *run) newWork(lanes ...*lane.Lane) *work {
	return &work{
		run: r, lanes: lanes, permits: permit.NewSet(), last: record.EndClaim,
		maybeCalled: r.session.Found.LeftBefore || r.leases.Lost() > 0,
	}
}

// start starts the work on a claim.
func (w *work) start(c *claim.Claim) {
	r := w.run
	w.Claim = c
	ctx, end := r.cfg.Registry.StartSpan(reserved.Caller{}, r.ctx.Checks, "claim",
		slog.Time("slot", r.slot), slog.Int64("claim", w.Token),
		slog.Any("jobs", r.session.Jobs.Names(w.Jobs)), slog.Int64("rows", w.Rows))
	w.Begin(ctx, w.needs()...)
	w.account = w.lanes[0].NewAccount(w.Rows, r.tasks.changed)
	w.checker = txn.NewChecker(r.txns, c)
	r.leases.Add(w.Lease)
	r.tasks.start(w, func() {
		defer w.drop()
		w.do()
		end(context.Cause(w.Ctx))
	})
}

// do reads, checks and records the rows of the claim until none is left. Rows that another transaction has locked wait
// outside of the bounds on the run's work, up to a bound of their own, and are tried once a second.
func (w *work) do() {
	r := w.run
	units, more, err := w.read()
	for err == nil {
		if units, err = w.postponeBusy(units); err != nil {
			break
		}
		err = w.process(units, more)
		w.countWaiting()
		if err != nil || w.isOver() {
			break
		}
		switch {
		case more && !w.account.IsFull():
			units, more, err = w.read()
		case !more && w.isEmpty():
			if w.Refused > 0 { // the claim keeps the slot open
				return
			}
			if _, err = r.records.Record(w.Claim, nil, w.last); err == nil {
				return
			}
		default:
			units = nil
			if slices.ContainsFunc(w.again, func(u *unit.Unit) bool { return u.Wait == unit.SplitOff }) || w.pause() {
				units, w.again = w.again, nil
			}
			w.locked, err = r.records.RecordLocked(w.Claim, w.locked)
		}
	}
	if errors.Is(r.ctx.Failure(), ErrLocked) { // without a turn: its checks have given their connections back
		r.report.holder.look(r.ctx.Work, w.findHolder)
	}
	if len(w.locked) > 0 {
		r.cfg.Logger.WarnContext(r.ctx.Work, "checks were done but not recorded, and will be done again",
			"claim", w.Token, "rows", len(w.locked))
	}
	if err != nil && context.Cause(w.Ctx) == nil {
		r.ctx.Halt(err)
	}
}

// read reads rows of a claim that are still in the slot, as units of work. more reports that there are further rows.
func (w *work) read() (units []*unit.Unit, more bool, err error) {
	r := w.run
	rows, err := r.session.Read(w.Claim, w.account.Unstarted())
	if r.records.Refuses(err) {
		locked, err := r.records.RecordUnreadable(w.Claim, err)
		w.postponeLocked(locked)
		if err != nil {
			return nil, false, err
		}
		return w.read()
	}
	w.wait.latest.Store(nil)
	w.wait.tried = time.Time{}
	w.readAt = rows.At
	if rows.Cut {
		w.last = record.GoOn
	}
	w.account.Read(int64(len(rows.List)), rows.Bytes)
	if err != nil {
		return nil, rows.More, err
	}
	return w.units(rows), rows.More, nil
}

// units puts rows into units, one a call. Rows that need no call have their outcome at once.
func (w *work) units(rows claim.Rows) []*unit.Unit {
	r := w.run
	b := unit.NewBuilder(rows.List)
	moment := r.moment()
	for i := range rows.List {
		number := rows.Numbers[i]
		l, def := r.lanes.Of(number), r.session.Jobs.Of(number)
		switch verdict, skips := r.sel.judge(def, &rows.List[i], moment); {
		case skips:
			w.Skipped = true
			w.Postpone(rows.List[i].ID)
		case verdict != nil:
			b.Settle(i, def, number, verdict)
		default:
			b.Add(i, def, number, l.LimitKey)
		}
	}
	return b.Units
}

// process checks units, and records their outcomes as they come. If the lease is lost, process
// records nothing more, but still returns only when each check has returned or is abandoned: until
// then the claim keeps its permits.
func (w *work) process(units []*unit.Unit, more bool) error {
	queues, parked, err := w.run.lanes.Admit(w.Ctx, w.permits, w.lanes, units)
	if err != nil {
		return err
	}
	for _, u := range parked { // they wait for a permit, whatever they have waited for before
		u.Wait = unit.Untried
	}
	w.postpone(parked)
	began := elapsed.Now()
	rd := round.Round{
		Caller: w.run.calls, Lease: w.Lease, Checker: w.checker, Queues: queues, ReadAt: w.readAt,
		Started: w.account.Started,
	}
	for batch := range rd.Do() {
		if w.isLost() {
			w.account.Close() // so that the run claims other rows meanwhile
		} else if err := w.record(batch, more); err != nil {
			return err
		}
	}
	w.lanes[0].Adapt(time.Since(began))
	return nil
}

// record records outcomes. The last record ends the claim if nothing else of it is left.
func (w *work) record(b round.Batch, more bool) error {
	if b.Cut {
		w.last = record.GoOn
	}
	w.postpone(b.Again)
	for _, u := range b.Again {
		w.account.AddLocked(u.Bytes())
	}
	then := record.GoOn
	if b.Last && !more && w.Refused == 0 && w.isEmpty() {
		then = w.last
	}
	left, err := w.run.records.Record(w.Claim, b.Outcomes, then)
	w.postponeLocked(left)
	if err == nil {
		w.account.Release(b.Done)
	}
	return err
}

// drop releases what the claim has in memory.
func (w *work) drop() {
	w.Release()
	w.account.Close()
	if w.Done {
		w.run.leases.Remove(w.Lease)
	}
	w.releasePermits()
}

// limits returns the limits of the jobs of a claim.
func (w *work) limits() (list []*permit.Limit) {
	for _, l := range w.lanes {
		if l.Limit != nil {
			list = append(list, l.Limit)
		}
	}
	return list
}

// needs returns what a claim needs beside its lease: the permits of its jobs.
func (w *work) needs() []claim.Requirement {
	list := []claim.Requirement{w.permits}
	for _, l := range w.limits() {
		list = append(list, l)
	}
	return list
}

// releasePermits releases the permits of a claim.
func (w *work) releasePermits() {
	for _, l := range w.limits() {
		l.Release(w.permits)
	}
}

// isLost reports whether the run has lost the lease of a claim.
func (w *work) isLost() bool { return errors.Is(context.Cause(w.Ctx), ErrLeaseLost) }

// isOver reports whether a claim is done, lost, or to be handed back.
func (w *work) isOver() bool { return w.Done || w.last == record.GoOn || w.Ctx.Err() != nil }

// isEmpty reports whether no row that was read waits for a lock or a permit.
func (w *work) isEmpty() bool { return len(w.again)+len(w.locked) == 0 }
