package slots

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// recordLocked takes up what somebody else had locked. One claim at a time waits for the first of its rows.
func (r *run) recordLocked(c *claim) (locked []row.Outcome, err error) {
	if r.writing.patience.Try() {
		defer r.writing.patience.Leave()
		return r.recordApart(c, c.locked, patientFor)
	}
	r.writing.writers <- struct{}{}
	defer r.writing.writers.Leave()
	return r.recordApart(c, c.locked, server.LockTimeout)
}

// recordApart is recordFree, and again in parts where nothing could be recorded: a key that an outcome asks for may be somebody's who
// has not committed, and the others need not wait for him. It takes as long as a write may, and finds out how large a part can be
// that has none; what is left then has its turn the next time, in another order.
func (r *run) recordApart(c *claim, batch []row.Outcome, wait time.Duration) (locked []row.Outcome, err error) {
	locked, err = r.recordFree(c, batch, wait)
	if len(locked) < len(batch) || !slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return locked, err
	}
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	if c.part == 0 {
		c.part = len(batch) / 2
	}
	locked = nil
	for began := elapsed.Now(); len(batch) > 0 && time.Since(began) < slowWrite; {
		n := min(max(c.part, 1), len(batch))
		rest, err := r.recordFree(c, batch[:n], brieflyFor)
		if err != nil {
			return nil, err
		}
		if len(rest) == n && n > 1 {
			c.part = n / 2
			continue
		}
		if len(rest) < n {
			c.part = 2 * n
		}
		locked, batch = append(locked, rest...), batch[n:]
	}
	return append(locked, batch...), nil
}

// patientFor is lock_timeout of one who has no lock yet, in the queue for a row that others lock again and again. Nobody waits
// for him.
const patientFor = 900 * time.Millisecond

// brieflyFor is lock_timeout of one who tries many parts, of which those that wait are for another time.
const brieflyFor = 10 * time.Millisecond

// recordTogether is recordFree for rows that the database records all or none of. With patientFor it waits for the first
// of the rows before.
func (r *run) recordTogether(c *claim, batch []row.Outcome, wait time.Duration) (locked []row.Outcome, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	row.Sort(batch)
	var n row.Tally
	var busy map[int64]bool
	var without []lost // a reply
	waits := func(err error) bool {
		return pgsql.IsTransient(err) || len(without) > 0 && (pgsql.IsLockTimeout(err) || errors.Is(err, errAgain))
	}
	err = r.server.Retry(r.work, waits, func() error {
		sent := lost{part: r.writing.parts.Add(1)}
		err := pgsql.InTx(r.work, r.server.DB, func(tx *sqlx.Tx) (err error) {
			var free map[int64]bool
			if free, busy, err = r.lockFree(tx, batch, wait); err != nil {
				return err
			}
			if slices.ContainsFunc(without, func(l lost) bool { return l.has(busy) }) {
				return errAgain // until it is carried out, or not
			}
			n, sent.outcomes = row.Tally{}, row.Only(batch, func(o *row.Outcome) bool { return free[o.ID] })
			return r.recordThere(tx, c, sent, &n)
		})
		if pgsql.IsTransient(err) && len(sent.outcomes) > 0 {
			without = append(without, sent)
		}
		return err
	})
	switch {
	case lease.IsLost(err):
		r.leases.Lose(c.Lease)
		return nil, nil
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err) || errors.Is(err, errAgain):
		return batch, nil
	case err != nil:
		return nil, err
	}
	for _, l := range without {
		if done, _ := r.find(c, l.part); done {
			n.Plus(row.Expected(l.outcomes))
		}
	}
	done := row.Only(batch, func(o *row.Outcome) bool { return !busy[o.ID] })
	n.Yielded = int64(len(done)) - n.Checked()
	r.report.count(n, done, r.known)
	return row.Only(batch, func(o *row.Outcome) bool { return busy[o.ID] }), nil
}

// lost is a record whose reply was: it may still be carried out.
type lost struct {
	part     int64
	outcomes []row.Outcome
}

// has tells whether a row of it is among some.
func (l lost) has(rows map[int64]bool) bool {
	return slices.ContainsFunc(l.outcomes, func(o row.Outcome) bool { return rows[o.ID] })
}

// lockFree locks the rows of a batch that nobody else has locked.
func (r *run) lockFree(tx *sqlx.Tx, batch []row.Outcome, wait time.Duration) (free, busy map[int64]bool, err error) {
	var m pgsql.Message
	m.Do(r.server.Settings(r.cfg.Lease, min(wait, server.LockTimeout)))
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	if wait > server.LockTimeout {
		m.Do(r.server.WaitForLocks(wait))
		m.Add(pgsql.RowWait.In(r.schema), []any{r.slot, batch[0].Number, batch[0].ID}, server.Nothing)
		m.Do(r.server.WaitForLocks(server.LockTimeout)) // other runs may wait for this transaction now
	}
	return r.lockRows(r.work, tx, &m, numbersOf(batch), idsOf(batch))
}

// recordThere records outcomes whose rows are locked.
func (r *run) recordThere(tx *sqlx.Tx, c *claim, sent lost, n *row.Tally) error {
	var m pgsql.Message
	r.message(&m, c, sent.outcomes, n)
	r.addEnqueued(&m, sent.outcomes)
	m.Add(pgsql.ClaimFence.In(r.schema), []any{r.slot, c.Token, sent.part, false, nil}, server.Nothing)
	return m.Send(r.work, tx)
}
