package record

import (
	"context"
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

// RecordLocked records the outcomes in Locked whose rows are free by now, and returns those that are
// left, also with an error. One claim at a time waits for the first of its rows.
func (r *Recorder) RecordLocked(ctx context.Context, c *Claim) (left []row.Outcome, err error) {
	if leave, ok := r.BePatient(); ok {
		defer leave()
		return r.recordApart(ctx, c, c.Locked, PatientFor)
	}
	r.writing.writers <- struct{}{}
	defer func() { <-r.writing.writers }()
	return r.recordApart(ctx, c, c.Locked, server.LockTimeout)
}

// BePatient reports whether a transaction may wait PatientFor for a lock: one at a time may. The
// caller calls leave after the wait.
func (r *Recorder) BePatient() (leave func(), ok bool) {
	select {
	case r.writing.patience <- struct{}{}:
		return func() { <-r.writing.patience }, true
	default:
		return nil, false
	}
}

// recordApart is recordFree, and repeats it in parts if nothing could be recorded. Another
// transaction may hold a key that an outcome enqueues, and the other outcomes need not wait for it.
// recordApart takes at most as long as a slow write. It adapts the size of the parts, and leaves the
// rest to the next call, in another order.
func (r *Recorder) recordApart(
	ctx context.Context, c *Claim, batch []row.Outcome, wait time.Duration,
) (left []row.Outcome, err error) {
	left, err = r.recordFree(ctx, c, batch, wait)
	if err != nil || len(left) < len(batch) || !slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return left, err
	}
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	if c.part == 0 {
		c.part = len(batch) / 2
	}
	left = nil
	for began := elapsed.Now(); len(batch) > 0 && err == nil && time.Since(began) < slowWrite; {
		n := min(max(c.part, 1), len(batch))
		var rest []row.Outcome
		rest, err = r.recordFree(ctx, c, batch[:n], brieflyFor)
		if err == nil && len(rest) == n && n > 1 {
			c.part = n / 2
			continue
		}
		if len(rest) < n {
			c.part = 2 * n
		}
		left, batch = append(left, rest...), batch[n:]
	}
	return append(left, batch...), err
}

// PatientFor is the lock_timeout of a transaction that has no lock yet and queues for a row that
// other transactions lock again and again. No transaction waits for it.
const PatientFor = 900 * time.Millisecond

// brieflyFor is the lock_timeout of a transaction that tries one of many parts. Parts that would wait
// longer are left to a later call.
const brieflyFor = 10 * time.Millisecond

// errBusy ends a transaction whose rows are locked by a record without a reply: the server may still
// carry it out.
var errBusy = errors.New("a record without a reply may still be carried out")

// recordTogether is recordFree without the division: the database records all of the free rows, or
// none. With PatientFor it first waits for the first of the rows.
func (r *Recorder) recordTogether(
	ctx context.Context, c *Claim, batch []row.Outcome, wait time.Duration,
) (left []row.Outcome, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	row.Sort(batch)
	var n row.Tally
	var busy map[int64]bool
	var without []row.Lost // records without a reply
	waits := func(err error) bool {
		return pgsql.IsTransient(err) || len(without) > 0 && (pgsql.IsLockTimeout(err) || errors.Is(err, errBusy))
	}
	err = r.Server.Retry(ctx, waits, func() error {
		sent := row.Lost{Part: r.NextPart()}
		err := pgsql.InTx(ctx, r.Server.DB, func(tx *sqlx.Tx) (err error) {
			var free map[int64]bool
			if free, busy, err = r.lockFree(ctx, tx, batch, wait); err != nil {
				return err
			}
			if slices.ContainsFunc(without, func(l row.Lost) bool { return l.Has(busy) }) {
				return errBusy // until the server has carried it out, or dropped it
			}
			n, sent.Outcomes = row.Tally{}, row.Only(batch, func(o *row.Outcome) bool { return free[o.ID] })
			return r.recordThere(ctx, tx, c, sent, &n)
		})
		if pgsql.IsTransient(err) && len(sent.Outcomes) > 0 {
			without = append(without, sent)
		}
		return err
	})
	switch {
	case lease.IsLost(err):
		r.Leases.Lose(c.Lease)
		return nil, nil
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err) || errors.Is(err, errBusy):
		return batch, nil
	case err != nil:
		return batch, err
	}
	for _, l := range without {
		if done, _ := r.Find(ctx, c, l.Part); done {
			n.Plus(row.Expected(l.Outcomes))
		}
	}
	done := row.Only(batch, func(o *row.Outcome) bool { return !busy[o.ID] })
	n.Yielded = int64(len(done)) - n.Checked()
	r.Count(n, done)
	return row.Only(batch, func(o *row.Outcome) bool { return busy[o.ID] }), nil
}

// lockFree locks the rows of a batch that no other transaction has locked.
func (r *Recorder) lockFree(
	ctx context.Context, tx *sqlx.Tx, batch []row.Outcome, wait time.Duration,
) (free, busy map[int64]bool, err error) {
	var m pgsql.Message
	m.Do(r.Server.Settings(r.Server.Lease, min(wait, server.LockTimeout)))
	m.Do(pgsql.SlotIndexOnly.In(r.Server.Schema))
	if wait > server.LockTimeout {
		m.Do(r.Server.WaitForLocks(wait))
		m.Add(pgsql.RowWait.In(r.Server.Schema), []any{r.Slot, batch[0].Number, batch[0].ID}, server.Nothing)
		m.Do(r.Server.WaitForLocks(server.LockTimeout)) // other runs may wait for this transaction now
	}
	free, busy = r.AddLock(&m, row.Numbers(batch), row.IDs(batch))
	return free, busy, m.Send(ctx, tx)
}

// recordThere records outcomes whose rows the transaction has locked.
func (r *Recorder) recordThere(ctx context.Context, tx *sqlx.Tx, c *Claim, sent row.Lost, n *row.Tally) error {
	var m pgsql.Message
	send := func(m *pgsql.Message) error { return m.Send(ctx, tx) }
	if err := r.AddLocked(&m, c.Token, sent.Part, sent.Outcomes, n, send); err != nil {
		return err
	}
	return send(&m)
}
