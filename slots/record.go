package slots

import (
	"database/sql"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// slotBegun is the state of the error of a fence whose record was on its way over a boundary.
const slotBegun = "PS004"

// record records outcomes of a claim, and ends it with the last. It returns those whose rows somebody else has locked.
func (r *run) record(c *claim, batch []row.Outcome, ends bool) (locked []row.Outcome, err error) {
	if len(batch) == 0 {
		if ends {
			err = r.end(c)
		}
		return nil, err
	}
	row.Sort(batch)
	for len(batch) > 0 && err == nil {
		n := fitting(batch[:min(len(batch), r.writing.size())])
		var rest []row.Outcome
		rest, err = r.recordSome(c, batch[:n], ends && n == len(batch) && len(locked) == 0)
		locked, batch = append(locked, rest...), batch[n:]
	}
	return locked, err
}

// recordAtOnce bounds a message that records outcomes, in bytes.
const recordAtOnce = 16 << 20

// fitting returns how many of the first outcomes fit into a message, at least one.
func fitting(batch []row.Outcome) int {
	bytes := int64(0)
	for i := range batch {
		if bytes += batch[i].Size(); bytes > recordAtOnce {
			return max(i, 1)
		}
	}
	return len(batch)
}

func (r *run) recordSome(c *claim, batch []row.Outcome, ends bool) (locked []row.Outcome, err error) {
	r.writing.writers <- struct{}{}
	defer r.writing.writers.Leave()
	if r.writing.isWary() || slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return r.recordApart(c, batch, server.LockTimeout)
	}
	began := elapsed.Now()
	err = r.recordAll(c, batch, ends)
	switch {
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err):
		r.writing.beWary()
		return r.recordFree(c, batch, server.LockTimeout)
	case pgsql.HasState(err, slotBegun) || r.refuses(err):
		return r.recordFree(c, batch, server.LockTimeout)
	}
	r.writing.adapt(time.Since(began))
	return nil, err
}

// recordAll records outcomes straight, in one message.
func (r *run) recordAll(c *claim, batch []row.Outcome, ends bool) error {
	var m pgsql.Message
	var n row.Tally
	var end string
	m.Do(r.server.WaitForLocks(server.LockTimeout))
	r.message(&m, c, batch, &n)
	m.Do(r.server.WaitForLocks(server.OwnTimeout))
	part := r.writing.parts.Add(1)
	m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.Token, part, ends, r.movesTo(batch)}, server.Nothing)
	if ends && c.leaves {
		m.Add(pgsql.SlotUnsettle.In(r.schema), []any{r.slot}, server.Nothing)
	}
	if ends && c.closes {
		m.Add(pgsql.SlotClose.In(r.schema), []any{r.slot, false, c.Token}, func(row *sql.Rows) error { return row.Scan(&end) })
	}
	if ends {
		c.Ending(true)
	}
	err := r.commitOnce(c, part, &m, &n, row.Expected(batch))
	switch {
	case lease.IsLost(err):
		r.leases.Lose(c.Lease)
		return nil
	case err != nil:
		c.Ending(false)
		return err
	}
	c.done = ends
	if end == "done" {
		r.closed.Store(true)
	}
	n.Yielded = int64(len(batch)) - n.Checked()
	r.report.count(n, batch, r.known)
	return nil
}

// movesTo is the first instant to which outcomes move rows; nil: they move none, or the clock is a replayed one.
func (r *run) movesTo(batch []row.Outcome) any {
	var first time.Time
	for i := range batch {
		if v := batch[i].Verdict; v.Outcome == "" && (first.IsZero() || v.Next.Before(first)) {
			first = v.Next
		}
	}
	if first.IsZero() || r.cfg.Now != nil {
		return nil
	}
	return first
}

// end ends a claim of which nothing is left.
func (r *run) end(c *claim) error { return r.recordAll(c, nil, true) }

// commitOnce sends a message that ends with the fence, again while the database cannot do it. Where the reply to it is lost
// it finds out what became of it, and then n is all.
func (r *run) commitOnce(c *claim, part int64, m *pgsql.Message, n *row.Tally, all row.Tally) error {
	unknown := false // a message whose reply was lost may still be carried out, and has locks until then
	waits := func(err error) bool { return pgsql.IsTransient(err) || unknown && pgsql.IsLockTimeout(err) }
	return r.server.Retry(r.work, waits, func() error {
		if unknown {
			done, err := r.find(c, part)
			if done {
				*n = all
			}
			if done || err != nil {
				return err
			}
		}
		*n = row.Tally{}
		err := r.server.Commit(r.work, m)
		if unknown && (pgsql.HasState(err, pqerror.UniqueViolation) || lease.IsLost(err)) { // of its mark; or it has ended the claim
			if done, _ := r.find(c, part); done {
				*n, err = all, nil
			}
		}
		unknown = unknown || pgsql.IsTransient(err)
		return err
	})
}

// find finds out whether a record was committed. Where it was not, and the claim is gone, the lease is lost. The mark of a record
// goes with its slot, which another may have closed since; but nothing else ends a claim while its lease is good.
func (r *run) find(c *claim, part int64) (done bool, err error) {
	var held bool
	err = r.server.Ask(r.work, r.work, pgsql.RecordFind, []any{r.slot, c.Token, part}, func(row *sql.Rows) error { return row.Scan(&done, &held) })
	if err == nil && !done && !held {
		if done = c.IsEnding() && c.Good(); !done {
			err = ErrLeaseLost
		}
	}
	return done, err
}
