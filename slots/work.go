package slots

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/page"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// workOn works on a claim: it reads, checks and records its rows until none is left. Rows that another transaction has
// locked wait outside of the bounds on the run's work, up to a bound of their own, and are tried once a second.
func (r *run) workOn(c *claim) {
	defer r.drop(c)
	units, more, err := r.read(c)
	for err == nil {
		err = r.process(c, units, more)
		c.holdWaiting()
		if err != nil || c.isOver() {
			break
		}
		switch {
		case more && !c.isFull():
			units, more, err = r.read(c)
		case !more && c.isEmpty():
			if c.Refused > 0 { // the claim keeps the slot open
				return
			}
			if err = r.records.End(r.work, &c.Claim); err == nil {
				return
			}
		default:
			if !c.goesOn() {
				r.pause(c)
			}
			units, c.again = c.again, nil
			c.Locked, err = r.records.RecordLocked(r.work, &c.Claim)
		}
	}
	if len(c.Locked) > 0 {
		r.cfg.Logger.WarnContext(r.work, "checks were done but not recorded, and will be done again",
			"claim", c.Token, "rows", len(c.Locked))
	}
	if err != nil && context.Cause(c.ctx) == nil {
		r.halt(err)
	}
}

// pause waits for locks of other transactions, or for permits. Locked rows no longer count as work of the run, and take
// no permits.
func (r *run) pause(c *claim) {
	c.landAll()
	c.giveUp()
	wait := c.vigil.Next()
	if c.vigil.IsLong() {
		r.nameHolder(c)
	}
	select {
	case <-time.After(wait):
		return
	case <-r.stop.Done():
	case <-c.ctx.Done():
	}
	c.undone = true // after one more try
}

// nameHolder names in the log the session that holds a lock of rows of a claim. The log is not worth an error.
func (r *run) nameHolder(c *claim) {
	ids := c.lockedRows()
	_ = r.pages.InTurn(c.ctx, func() error {
		c.vigil.Tell(c.ctx, &r.server, r.slot, c.Jobs, r.records.Names(c.Jobs), ids)
		return nil
	})
}

// read reads rows of a claim that are still in the slot, as units of work. more reports that there are further rows.
func (r *run) read(c *claim) (units []*unit.Unit, more bool, err error) {
	rows, err := r.pages.Read(c.ctx, c.Jobs, c.Readable(), c.Left, c.waiting.Load())
	if r.records.Refuses(err) {
		if err = r.records.RecordUnreadable(r.work, c.ctx, &c.Claim, err); err != nil {
			return nil, false, err
		}
		return r.read(c)
	}
	c.readAt, c.undone = rows.At, c.undone || rows.Cut
	c.took(int64(len(rows.List)), rows.Bytes)
	if err != nil {
		return nil, rows.More, err
	}
	return r.units(c, rows), rows.More, nil
}

// units puts rows into units, one a call. Rows that need no call have their outcome at once.
func (r *run) units(c *claim, rows page.Rows) []*unit.Unit {
	b := unit.NewBuilder(rows.List)
	moment := r.moment()
	for i := range rows.List {
		number := rows.Numbers[i]
		l, def := r.lanes.of(number), r.records.Jobs[number]
		switch verdict, stays := r.sel.judge(def, &rows.List[i], moment); {
		case stays:
			c.Leaves = true
			c.Leave(rows.List[i].ID)
		case verdict != nil:
			b.Settle(i, def, number, verdict)
		default:
			b.Add(i, def, number, l.limitKey)
		}
	}
	return b.Units
}

// process checks units, and records their outcomes as they come. The last record ends the claim if
// nothing else of it is left. If the lease is lost, process records nothing more, but still returns
// only when each check has returned or is abandoned: until then the claim keeps its permits.
func (r *run) process(c *claim, units []*unit.Unit, more bool) error {
	queues, err := r.lanes.admit(c, units)
	if err != nil {
		return err
	}
	began := elapsed.Now()
	rd := r.calls.round(c, queues)
	over := make(chan struct{})
	defer close(over)
	go rd.watch(over)
	rd.start(queues)
	for last := false; !last; {
		got := rd.take()
		last = got.last
		if c.isLost() {
			c.close() // so that the run claims other rows meanwhile
			continue
		}
		c.undone = c.undone || last && rd.wasCut()
		c.postpone(got.again...)
		for _, u := range got.again {
			c.holdLocked(u.Bytes())
		}
		ends := last && !more && !c.undone && c.Refused == 0 && c.isEmpty()
		left, err := r.records.Record(r.work, &c.Claim, got.outcomes, ends)
		c.postponeLocked(left)
		if err != nil {
			return err
		}
		c.land(got.settled)
	}
	c.lanes[0].adapt(time.Since(began), r.cfg.Page)
	return nil
}
