package slots

import (
	"context"
	"errors"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// Rows that another transaction has locked are tried again after againFirst, and then in doubling steps up to againEvery.
const againFirst, againEvery = 10 * time.Millisecond, time.Second

// workOn works on a claim: it reads, checks and records its rows until none is left. Rows that another transaction has
// locked wait outside of the bounds on the run's work, up to a bound of their own, and are tried once a second.
func (r *run) workOn(c *claim) {
	defer r.drop(c)
	units, more, err := r.read(c)
	for err == nil {
		err = r.process(c, units, more)
		r.hold(c, c.waiting())
		if err != nil || c.over() {
			break
		}
		switch {
		case more && !r.memory.now().Full() && !c.lane.load.now().Full():
			units, more, err = r.read(c)
		case !more && len(c.again)+len(c.Locked) == 0:
			if c.Refused > 0 { // the claim keeps the slot open
				return
			}
			if err = r.records.End(r.work, &c.Claim); err == nil {
				return
			}
		default:
			r.pause(c)
			units, c.again = c.again, nil
			c.Locked, err = r.records.RecordLocked(r.work, &c.Claim)
		}
	}
	if len(c.Locked) > 0 {
		r.cfg.Logger.WarnContext(r.work, "checks were done but not recorded, and will be done again", "claim", c.Token, "rows", len(c.Locked))
	}
	if err != nil && context.Cause(c.ctx) == nil {
		r.halt(err)
	}
}

// over reports whether a claim is done, lost, or to be handed back.
func (c *claim) over() bool { return c.Done || c.undone || c.ctx.Err() != nil }

// drop releases what a claim has in memory.
func (r *run) drop(c *claim) {
	c.end(context.Cause(c.ctx))
	c.Release()
	r.land(c, c.kept.rows)
	r.hold(c, waiting{})
	r.enqueue(c, -c.queued.Load())
	if c.Done {
		r.leases.Remove(c.Lease)
	}
	r.giveUp(c)
}

// pause waits for locks of other transactions, or for permits. Locked rows no longer count as work of the run, and take
// no permits.
func (r *run) pause(c *claim) {
	r.land(c, c.kept.rows)
	r.giveUp(c)
	wait := c.vigil.next()
	c.vigil.tell(r, c)
	if !r.pass(c.ctx, wait) {
		c.undone = true // after one more try
	}
}

// footprint is the memory of a claim's rows.
type footprint struct{ rows, bytes int64 }

// keep counts rows in memory, until land.
func (r *run) keep(c *claim, rows, bytes int64) {
	c.kept.rows, c.kept.bytes = c.kept.rows+rows, c.kept.bytes+bytes
	c.lane.load.kept.Add(rows)
	if !c.lane.spec.Own {
		r.memory.rows.Add(rows)
	}
	r.memory.bytes.Add(bytes)
}

func (r *run) land(c *claim, rows int64) {
	if rows = min(rows, c.kept.rows); rows > 0 {
		r.keep(c, -rows, -c.kept.bytes*rows/c.kept.rows)
		r.changed()
	}
}

// waiting is about how many bytes the rows of a claim take that wait.
type waiting struct {
	locked int64 // for other transactions
	parked int64 // for a place
}

// hold counts the rows of a claim that wait.
func (r *run) hold(c *claim, now waiting) {
	was := c.waits
	c.waits = now
	r.memory.held.Add(now.locked - was.locked)
	c.lane.load.parked.Add(now.parked - was.parked)
	if now.locked < was.locked || now.parked < was.parked {
		r.changed()
	}
}

// waiting returns what the rows of a claim that wait take.
func (c *claim) waiting() waiting {
	now := waiting{locked: bytesOf(c.Locked)}
	for _, u := range c.again {
		if u.waited {
			now.locked += u.bytes()
		} else {
			now.parked += u.bytes()
		}
	}
	return now
}

// bytesOf returns about how many bytes outcomes take.
func bytesOf(outcomes []row.Outcome) (bytes int64) {
	for i := range outcomes {
		bytes += outcomes[i].Size()
	}
	return bytes
}

// batchKey identifies a batch.
type batchKey struct {
	number int64
	limit  string // the key of it
}

// batch is a unit to which rows are added one by one.
type batch struct {
	*unit
	first int // where its first row is among those that were read
}

// add adds a row. It does not copy rows while they are neighbours in the page.
func (b batch) add(rows []jobs.FutureJob, i int) {
	if i == b.first+len(b.rows) {
		b.rows = rows[b.first : i+1 : i+1]
	} else {
		b.rows = append(b.rows, rows[i])
	}
}

// units groups rows into units, one a call. Rows that need no call have their outcome at once.
func (r *run) units(c *claim, rows []jobs.FutureJob, numbers []int64) []*unit {
	var units []*unit
	batches, groups := map[batchKey]batch{}, map[groupKey]*unit{}
	moment := r.moment()
	for i := range rows {
		job := r.known[numbers[i]]
		verdict, stays := r.sel.judge(job.def, &rows[i], moment)
		if stays {
			c.Leaves = true
			c.Leave(rows[i].ID)
			continue
		}
		batched := verdict == nil && job.def.Batched() && !job.def.Grouped()
		var group groupKey
		if verdict == nil && job.def.Grouped() {
			group = groupKeyOf(job.def, &rows[i])
			if u := groups[group]; u != nil {
				u.members = append(u.members, rows[i].ID)
				continue
			}
		}
		var key batchKey
		if batched {
			key = batchKey{numbers[i], r.limitKey(job.lane, rows[i])}
			if b, ok := batches[key]; ok && (job.def.BatchSize == 0 || len(b.rows) < job.def.BatchSize) {
				b.add(rows, i)
				continue
			}
		}
		u := &unit{def: job.def, number: numbers[i], verdict: verdict}
		u.rows = append(u.one[:0], rows[i])
		units = append(units, u)
		if group != (groupKey{}) {
			u.group, u.members, groups[group] = group, []int64{rows[i].ID}, u
		}
		if batched {
			batches[key] = batch{u, i}
		}
	}
	return units
}

// process checks units, and records their outcomes as they come. The last record ends the claim if nothing else of it is
// left.
func (r *run) process(c *claim, units []*unit, more bool) error {
	queues, err := r.admit(c, units)
	if err != nil {
		return err
	}
	rd := newRound(r, c, queues)
	c.round.Store(rd)
	defer c.round.Store(nil)
	rd.start(queues)
	for last := false; !last; {
		var batch []row.Outcome
		var settled int64
		batch, settled, last = rd.take()
		if errors.Is(context.Cause(c.ctx), ErrLeaseLost) {
			return nil
		}
		c.undone = c.undone || last && rd.wasCut()
		for _, u := range rd.yielded() {
			c.postpone(u)
			r.hold(c, waiting{c.waits.locked + u.bytes(), c.waits.parked})
		}
		ends := last && !more && !c.undone && c.Refused+int64(len(c.again)+len(c.Locked)) == 0
		locked, err := r.records.Record(r.work, &c.Claim, batch, ends)
		if err != nil {
			return err
		}
		for _, o := range locked {
			c.Leave(o.ID)
		}
		c.Locked = append(c.Locked, locked...)
		r.hold(c, waiting{c.waits.locked + bytesOf(locked), c.waits.parked})
		r.land(c, settled)
	}
	c.lane.adapt(time.Since(rd.begun), r.cfg.Page)
	return nil
}

// postpone keeps a unit for a later try.
func (c *claim) postpone(u *unit) {
	c.again = append(c.again, u)
	ids := u.members
	if !u.isGroup() {
		ids = u.ids()
	}
	for _, id := range ids {
		c.Leave(id)
	}
}
