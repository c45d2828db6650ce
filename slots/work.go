package slots

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
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

	readAt time.Time     // local monotonic instant at which its rows were read
	again  []*unit.Unit  // units to check once another transaction's lock is gone, or a permit is free
	locked []row.Outcome // outcomes whose rows another transaction has locked
	wait   wait
	// last follows the record of the last row. GoOn: rows are left to other runners.
	last record.Then
}

func (r *run) newWork(lanes ...*lane.Lane) *work {
	return &work{run: r, lanes: lanes, permits: permit.NewSet(), last: record.EndClaim}
}

// start starts the work on a claim.
func (w *work) start(c *claim.Claim) {
	r := w.run
	w.Claim = c
	ctx, end := r.cfg.Registry.StartSpan(r.ctx.Checks, "claim",
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
			if !w.goesOn() {
				w.pause()
			}
			units, w.again = w.again, nil
			w.locked, err = r.records.RecordLocked(w.Claim, w.locked)
		}
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
	w.wait.end()
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

// pause waits for locks of other transactions, or for permits. Locked rows no longer count as work of the run, and take
// no permits.
func (w *work) pause() {
	w.account.ReleaseAll()
	w.releasePermits()
	pause := w.wait.Pause()
	if w.wait.IsLong() {
		w.logHolder()
	}
	w.wait.begin(pause, slices.ContainsFunc(w.again, func(u *unit.Unit) bool { return !u.Waited }))
	select {
	case <-time.After(pause):
		return
	case <-w.run.ctx.Stop.Done():
	case <-w.Ctx.Done():
	}
	w.last = record.GoOn // after one more try
}

// logHolder names in the log the session that holds a lock of rows of the claim. The log is not worth an error.
func (w *work) logHolder() {
	r, ids := w.run, w.lockedRows()
	_ = r.session.InTurn(w.Ctx, func() error {
		names := r.session.Jobs.Names(w.Jobs)
		holder, mends := w.wait.LogHolder(w.Ctx, &r.server, r.slot, w.Jobs, names, ids)
		r.report.hold(len(ids), names, holder, mends)
		return nil
	})
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

// goesOn reports whether a unit of the claim waits for nothing.
func (w *work) goesOn() bool {
	return slices.ContainsFunc(w.again, func(u *unit.Unit) bool { return u.SplitOff })
}

// postponeBusy keeps units for a later try whose function would be called and whose rows another transaction has
// locked, and returns the other units. It does so only in a slot that an earlier run has left: that may have called the
// function already, without a record, and the next run would call it again. A check with a transaction finds the lock
// itself.
func (w *work) postponeBusy(units []*unit.Unit) (free []*unit.Unit, err error) {
	var ids []int64
	for _, u := range units {
		if u.Verdict == nil && !u.Def.InTx() {
			ids = append(ids, u.IDs()...)
		}
	}
	if !w.run.sel.leftBefore || len(ids) == 0 {
		return units, nil
	}
	slices.Sort(ids)
	busy, err := w.run.session.Busy(w.Claim, ids)
	for _, u := range units {
		locked, rest := (*unit.Unit)(nil), u
		if u.Verdict == nil && !u.Def.InTx() {
			locked, rest = u.SplitBusy(busy)
		}
		if locked != nil {
			w.postpone([]*unit.Unit{locked})
			w.account.AddLocked(locked.Bytes())
		}
		if rest != nil {
			free = append(free, rest)
		}
	}
	return free, err
}

// postpone keeps units for a later try.
func (w *work) postpone(units []*unit.Unit) {
	w.again = append(w.again, units...)
	for _, u := range units {
		for _, id := range u.Claimed() {
			w.Postpone(id)
		}
	}
}

// postponeLocked keeps outcomes, whose rows another transaction has locked.
func (w *work) postponeLocked(locked []row.Outcome) {
	for _, o := range locked {
		w.Postpone(o.ID)
	}
	w.locked = append(w.locked, locked...)
	w.account.AddLocked(row.Size(locked))
}

// countWaiting counts the bytes of the rows of a claim that wait.
func (w *work) countWaiting() {
	locked, parked := row.Size(w.locked), int64(0)
	for _, u := range w.again {
		if u.Waited {
			locked += u.Bytes()
		} else {
			parked += u.Bytes()
		}
	}
	w.account.CountWaiting(locked, parked)
}

// lockedRows returns the ids of the rows of a claim that wait for a lock, in order.
func (w *work) lockedRows() pq.Int64Array {
	ids := pq.Int64Array(row.IDs(w.locked))
	for _, u := range w.again {
		if u.Waited { // else it waits for a permit
			ids = append(ids, u.Claimed()...)
		}
	}
	slices.Sort(ids)
	return ids
}
