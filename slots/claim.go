package slots

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/holder"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/page"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// claim is a right to rows of the slot, with the state of the goroutine that works on it.
type claim struct {
	record.Claim
	*account

	lanes   []*lane // of its jobs: several if it was taken over from a binary that had these jobs in one lane
	shares  *permit.Holding
	ctx     context.Context                     // of its checks; ends when the lease is lost
	end     func(err error, attrs ...slog.Attr) // of its span
	checker *txn.Checker

	readAt time.Time    // local monotonic instant at which its rows were read
	again  []*unit.Unit // units to check once another transaction's lock is gone, or a permit is free
	vigil  holder.Vigil
	undone bool // rows were not checked, and are left to other runners
}

func newClaim(lanes ...*lane) *claim {
	return &claim{Claim: record.Claim{Lease: lease.New()}, lanes: lanes, shares: permit.NewHolding()}
}

// claim claims rows of a lane and starts the work on them. It returns false if there were none.
func (r *run) claim(l *lane) (bool, error) {
	if r.cfg.ClaimDelay > 0 {
		delay := time.Duration(hostLoad() * float64(r.cfg.ClaimDelay))
		if !server.Sleep(r.stop, min(delay, maxDelay)) {
			return false, nil
		}
	}
	c := newClaim(l)
	if ok, err := r.makeRoom(c, l); !ok {
		return false, err
	}
	rows, err := r.pages.Next(c.Lease, l.turn.First(), r.lanes.want(l))
	if err != nil || len(rows.Jobs) == 0 {
		c.giveUp()
	}
	if err != nil {
		return false, err
	}
	l.turn.Claimed(rows.Left)
	if len(rows.Jobs) == 0 {
		return false, nil
	}
	c.Closes = !r.crew.isBusy() && !r.lanes.waits() && !r.sel.leave && r.sel.limit == 0
	r.begin(c, rows)
	return true, nil
}

// makeRoom obtains a permit before anything is claimed, if all rows of the claim will need the same: no other run can
// check the rows that this one has claimed. Without a permit the lane rests for a while. Rows that are only moved or
// ended need none.
func (r *run) makeRoom(c *claim, l *lane) (ok bool, err error) {
	if !l.hasOneKey() {
		return true, nil
	}
	if verdict, stays := r.sel.judge(l.job, new(jobs.FutureJob), r.moment()); verdict != nil || stays {
		return true, nil
	}
	shares, err := l.limit.Obtain(r.stop, c.shares, map[string]int{"": l.spec.Places})
	if err == nil && len(shares) == 0 {
		l.turn.Rest(elapsed.Now().Add(lookEvery))
	}
	return len(shares) > 0, err
}

// takeOver takes over a claim whose lease has ended, or its rows of the jobs that are known here.
func (r *run) takeOver() (bool, error) {
	numbers := r.lanes.numbers()
	if r.lanes.isLimitReached() || len(numbers) == 0 {
		return false, nil
	}
	c := newClaim()
	rows, err := r.pages.TakeOver(c.Lease, numbers)
	if err != nil || len(rows.Jobs) == 0 {
		return false, err
	}
	for _, number := range rows.Jobs {
		if l := r.lanes.of(number); !slices.Contains(c.lanes, l) {
			c.lanes = append(c.lanes, l)
		}
	}
	r.report.takeOver()
	r.begin(c, rows)
	return true, nil
}

// begin starts the work on a claim.
func (r *run) begin(c *claim, rows page.Claim) {
	c.Jobs, c.First, c.Last = rows.Jobs, rows.First, rows.Last
	ctx, end := r.cfg.Registry.StartSpan(r.checks, "claim",
		slog.Time("slot", r.slot), slog.Int64("claim", c.Token),
		slog.Any("jobs", r.records.Names(c.Jobs)), slog.Int64("rows", rows.Rows))
	c.ctx = c.Begin(ctx, c.needs()...)
	c.end = end
	c.account = r.lanes.account(c.lanes[0], r.crew.changed)
	c.checker = txn.NewChecker(c.ctx, r.calls.txns, &c.Claim)
	c.enqueue(rows.Rows)
	r.leases.Add(c.Lease)
	r.crew.start(func() { r.workOn(c) })
}

// drop releases what a claim has in memory.
func (r *run) drop(c *claim) {
	c.end(context.Cause(c.ctx))
	c.Release()
	c.close()
	if c.Done {
		r.leases.Remove(c.Lease)
	}
	c.giveUp()
}

// needs returns what a claim needs beside its lease: the permits of its jobs.
func (c *claim) needs() []lease.Right {
	list := []lease.Right{c.shares}
	for _, l := range c.lanes {
		if l.limit != nil {
			list = append(list, l.limit)
		}
	}
	return list
}

// giveUp gives back the permits of a claim.
func (c *claim) giveUp() {
	for _, l := range c.lanes {
		if l.limit != nil {
			l.limit.Leave(c.shares)
		}
	}
}

// isLost reports whether the run has lost the lease of a claim.
func (c *claim) isLost() bool { return errors.Is(context.Cause(c.ctx), ErrLeaseLost) }

// isOver reports whether a claim is done, lost, or to be handed back.
func (c *claim) isOver() bool { return c.Done || c.undone || c.ctx.Err() != nil }

// isEmpty reports whether no row of a claim waits that was read.
func (c *claim) isEmpty() bool { return len(c.again)+len(c.Locked) == 0 }

// goesOn reports whether a unit of a claim waits for nothing.
func (c *claim) goesOn() bool {
	return slices.ContainsFunc(c.again, func(u *unit.Unit) bool { return u.Left })
}

// postpone keeps units for a later try.
func (c *claim) postpone(units ...*unit.Unit) {
	c.again = append(c.again, units...)
	for _, u := range units {
		for _, id := range u.Claimed() {
			c.Leave(id)
		}
	}
}

// postponeLocked keeps outcomes, whose rows another transaction has locked.
func (c *claim) postponeLocked(locked []row.Outcome) {
	for _, o := range locked {
		c.Leave(o.ID)
	}
	c.Locked = append(c.Locked, locked...)
	c.holdLocked(bytesOf(locked))
}

// holdWaiting counts what the rows of a claim that wait take.
func (c *claim) holdWaiting() {
	now := waits{locked: bytesOf(c.Locked)}
	for _, u := range c.again {
		if u.Waited {
			now.locked += u.Bytes()
		} else {
			now.parked += u.Bytes()
		}
	}
	c.hold(now)
}

// bytesOf returns about how many bytes outcomes take.
func bytesOf(outcomes []row.Outcome) (bytes int64) {
	for i := range outcomes {
		bytes += outcomes[i].Size()
	}
	return bytes
}

// lockedRows returns the ids of the rows of a claim that wait for a lock, in order.
func (c *claim) lockedRows() pq.Int64Array {
	ids := pq.Int64Array(row.IDs(c.Locked))
	for _, u := range c.again {
		if u.Waited { // else it waits for a place
			ids = append(ids, u.Claimed()...)
		}
	}
	slices.Sort(ids)
	return ids
}
