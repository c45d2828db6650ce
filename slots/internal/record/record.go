// Package record records the outcomes of a run, in one message to the server that ends with the
// fence. It finds out what became of a record whose reply was lost, records rows later that other
// transactions have locked, and isolates the rows that the database refuses. It knows no functions
// and no turns.
//
// A Recorder goes one of these ways. Only the first one can end the claim and close the slot. Each of the others does
// more than the one before:
//
//	recordUnlocked   records all rows in one message, which fails if another transaction has locked one
//	lockAndRecord    records the rows that it can lock
//	recordFree       also halves rows that the database refuses, and records an error for the one to blame
//	recordInParts    also tries few rows at a time if none was recorded and some enqueue
package record

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/row"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Recorder records the outcomes of a run. Its methods are safe for concurrent use, but one
// goroutine at a time records for a claim.
type Recorder struct {
	*Writer
	Options

	closed atomic.Bool
}

// Options of a Recorder.
type Options struct {
	Leases  *claim.Keeper       // drops the lease of a claim that the fence does not find
	Writing *Writing            // shared with the other runs of a catch-up
	Moment  func() guard.Moment // returns the current moment, by which rows are judged

	// Count is called with what was recorded, and with the outcomes, also those of rows that yielded.
	Count func(n row.Tally, outcomes []row.Outcome)
	// CountRefused is called for each row that is left in its slot, because the database records no error
	// for it either.
	CountRefused func(why error)
}

// New returns a Recorder that records by the statements of w.
func New(w *Writer, o Options) *Recorder { return &Recorder{Writer: w, Options: o} }

// HasClosed reports whether a record has closed the slot.
func (r *Recorder) HasClosed() bool { return r.closed.Load() }

// slotBegun is the state of the error of a fence whose record was on its way over a boundary.
const slotBegun = "PS004"

// Then says what follows when outcomes are recorded, in the same message.
type Then int

// What may follow a record.
const (
	// GoOn lets the claim go on: it has other rows.
	GoOn Then = iota
	// EndClaim ends the claim, whose last rows are recorded.
	EndClaim
	// CloseSlot ends the claim, and closes the slot if no work is left in it.
	CloseSlot
)

// Record records outcomes of a claim, and what follows the last of them. It returns those that
// are left: their rows are locked by another transaction, or an error came before they were recorded.
func (r *Recorder) Record(c *claim.Claim, batch []row.Outcome, then Then) (left []row.Outcome, err error) {
	if len(batch) == 0 && then != GoOn {
		return nil, r.recordUnlocked(c, nil, then)
	}
	sortByID(batch)
	for len(batch) > 0 && err == nil {
		n := fitting(batch[:min(len(batch), r.Writing.size())], MaxMessage)
		var rest []row.Outcome
		now := then
		if n < len(batch) || len(left) > 0 || c.Refused > 0 {
			now = GoOn
		}
		rest, err = r.recordMessage(c, batch[:n], now)
		left, batch = append(left, rest...), batch[n:]
	}
	return append(left, batch...), err
}

// recordMessage records outcomes that fit into one message. It returns those that are left. Usually
// no row is locked, so it looks for locks only after a record has met one.
func (r *Recorder) recordMessage(c *claim.Claim, batch []row.Outcome, then Then) ([]row.Outcome, error) {
	r.Writing.writers <- struct{}{}
	defer func() { <-r.Writing.writers }()
	if r.Writing.isWary() || slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return r.recordInParts(c, batch, db.LockTimeout)
	}
	began := elapsed.Now()
	err := r.recordUnlocked(c, batch, then)
	switch {
	case r.conflicts(err):
		r.Writing.beWary()
		return r.recordFree(c, batch, db.LockTimeout)
	case pg.HasState(err, slotBegun) || r.Refuses(err):
		return r.recordFree(c, batch, db.LockTimeout)
	case err != nil:
		return batch, err
	}
	r.Writing.adapt(time.Since(began))
	return nil, nil
}

// conflicts reports whether a record failed because of what other transactions have locked or written. The server may
// report a wait for a lock that took too long as a cancelled statement.
func (r *Recorder) conflicts(err error) bool {
	return pg.IsLockTimeout(err) || pg.IsRetryable(err) ||
		pg.HasState(err, pqerror.QueryCanceled) && r.Session.Work.Err() == nil
}

// recordUnlocked records outcomes in one message, which fails as a whole if another transaction has locked a row.
func (r *Recorder) recordUnlocked(c *claim.Claim, batch []row.Outcome, then Then) error {
	ends := then != GoOn
	var m pg.Message
	var n row.Tally
	var end string
	m.Do(r.Session.Server.WaitForLocks(db.LockTimeout))
	m.Do(pg.SlotIndexOnly.In(r.Session.Server.Schema))
	r.statements(&m, c.Token, batch, &n)
	m.Do(r.Session.Server.WaitForLocks(db.OwnTimeout))
	part := r.NextPart()
	fence := []any{r.Session.Slot, c.Token, part, ends, r.movesTo(batch)}
	m.Add(pg.ClaimFence.In(r.Session.Server.Schema), fence, db.Nothing)
	if ends && c.Skipped {
		m.Add(pg.SlotUnsettle.In(r.Session.Server.Schema), []any{r.Session.Slot}, db.Nothing)
	}
	if then == CloseSlot {
		m.Add(pg.SlotClose.In(r.Session.Server.Schema), []any{r.Session.Slot, false, c.Token}, func(row *sql.Rows) error {
			return row.Scan(&end)
		})
	}
	if ends {
		c.SetEnding(true)
	}
	err := r.commitOnce(c, part, &m, &n, row.Expected(batch))
	switch {
	case claim.IsLost(err):
		r.Leases.Lose(c.Lease)
		return nil
	case err != nil:
		c.SetEnding(false)
		return err
	}
	c.Done = ends
	if end == "done" {
		r.closed.Store(true)
	}
	n.Yielded = int64(len(batch)) - n.Checked()
	r.Count(n, batch)
	return nil
}

// movesTo returns the first instant to which outcomes move rows. Nil: they move none, or the clock
// is a replayed one.
func (r *Recorder) movesTo(batch []row.Outcome) any {
	var first time.Time
	for i := range batch {
		if v := batch[i].Verdict; v.Outcome == "" && (first.IsZero() || v.Next.Before(first)) {
			first = v.Next
		}
	}
	if first.IsZero() || r.Session.Clock() != nil {
		return nil
	}
	return first
}

// commitOnce sends a message that ends with the fence, and repeats it while the database cannot
// carry it out. If the reply is lost, it finds out whether the message was committed, and then sets
// n to all. Without outcomes, no part of the message can be recorded apart: it waits for a lock, too, until the run is
// stopped.
func (r *Recorder) commitOnce(c *claim.Claim, part int64, m *pg.Message, n *row.Tally, all row.Tally) error {
	unknown := false // a message without a reply may still be carried out, and holds locks until then
	waits := func(err error) bool {
		empty := all == (row.Tally{}) && r.Session.Stop.Err() == nil
		return pg.IsTransient(err) || unknown && pg.IsLockTimeout(err) || empty && db.Retryable(err)
	}
	return r.Session.Server.Retry(r.Session.Work, waits, func() error {
		if unknown {
			done, err := r.Find(c, part)
			if done {
				*n = all
			}
			if done || err != nil {
				return err
			}
		}
		*n = row.Tally{}
		err := r.Session.Server.Commit(r.Session.Work, m)
		// The mark exists, or the message has ended the claim.
		if unknown && (pg.HasState(err, pqerror.UniqueViolation) || claim.IsLost(err)) {
			if done, _ := r.Find(c, part); done {
				*n, err = all, nil
			}
		}
		unknown = unknown || pg.IsTransient(err)
		return err
	})
}

// Find finds out whether a record was committed. It returns claim.ErrLost if the record was not and
// the claim is gone. The mark of a record goes with its slot, which another runner may have closed
// since. But nothing else ends a claim while its lease is good.
func (r *Recorder) Find(c *claim.Claim, part int64) (done bool, err error) {
	var held bool
	work, args := r.Session.Work, []any{r.Session.Slot, c.Token, part}
	err = r.Session.Server.Ask(work, work, pg.RecordFind, args, func(row *sql.Rows) error {
		return row.Scan(&done, &held)
	})
	if err == nil && !done && !held {
		if done = c.IsEnding() && c.IsValid(); !done {
			err = claim.ErrLost
		}
	}
	return done, err
}

// RecordLocked records outcomes of rows that were locked and are free by now. It returns those that are left, also with
// an error. One claim at a time waits for the first of its rows.
func (r *Recorder) RecordLocked(c *claim.Claim, locked []row.Outcome) (left []row.Outcome, err error) {
	if release, ok := r.BePatient(); ok {
		defer release()
		return r.recordInParts(c, locked, PatientFor)
	}
	r.Writing.writers <- struct{}{}
	defer func() { <-r.Writing.writers }()
	return r.recordInParts(c, locked, db.LockTimeout)
}

// PatientFor is the lock_timeout of a transaction that has no lock yet and queues for a row that
// other transactions lock again and again. No transaction waits for it.
const PatientFor = 900 * time.Millisecond

// brieflyFor is the lock_timeout of a transaction that tries one of many parts. Parts that would wait
// longer are left to a later call.
const brieflyFor = 10 * time.Millisecond

// recordInParts records the rows that no other transaction has locked. If it can record none of them at once, it tries
// them in parts: another transaction may hold a key that one outcome enqueues, and the other outcomes need not wait for
// it. recordInParts takes at most as long as a slow write, and adapts the size of the parts. Each call shuffles the
// outcomes, so that none is always last.
func (r *Recorder) recordInParts(
	c *claim.Claim, batch []row.Outcome, wait time.Duration,
) (left []row.Outcome, err error) {
	left, err = r.recordFree(c, batch, wait)
	if err != nil || len(left) < len(batch) || !slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return left, err
	}
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	if c.TryTogether == 0 {
		c.TryTogether = len(batch) / 2
	}
	left = nil
	for began := elapsed.Now(); len(batch) > 0 && err == nil && time.Since(began) < slowWrite; {
		n := min(max(c.TryTogether, 1), len(batch))
		var rest []row.Outcome
		rest, err = r.recordFree(c, batch[:n], brieflyFor)
		if err == nil && len(rest) == n && n > 1 {
			c.TryTogether = n / 2
			continue
		}
		if len(rest) < n {
			c.TryTogether = 2 * n
		}
		left, batch = append(left, rest...), batch[n:]
	}
	return append(left, batch...), err
}

// recordFree records the rows that no other transaction has locked, and returns the others, also with an error: their
// checks have run and must not run again. If the database refuses a batch, recordFree halves it, down to the row that
// causes the error.
func (r *Recorder) recordFree(c *claim.Claim, batch []row.Outcome, wait time.Duration) (left []row.Outcome, err error) {
	left, err = r.lockAndRecord(c, batch, wait)
	switch {
	case !r.Refuses(err):
		return left, err
	case len(batch) == 1:
		return r.recordError(c, batch[0], fmt.Errorf("its outcome cannot be recorded: %w", err))
	}
	left, err = nil, nil
	for half := range slices.Chunk(slices.Clone(batch), (len(batch)+1)/2) {
		if err == nil {
			half, err = r.recordFree(c, half, db.LockTimeout)
		}
		left = append(left, half...)
	}
	return left, err
}

// errBusy ends a transaction whose rows are locked by a record without a reply: the server may still
// carry it out.
var errBusy = errors.New("a record without a reply may still be carried out")

// lockAndRecord locks the rows that no other transaction has locked, and records them in the same transaction: all of
// them or none. It returns the others. With PatientFor it first waits for the first of the rows.
func (r *Recorder) lockAndRecord(
	c *claim.Claim, batch []row.Outcome, wait time.Duration,
) (left []row.Outcome, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	sortByID(batch)
	var n row.Tally
	var busy map[int64]bool
	var unanswered []row.Sent
	waits := func(err error) bool {
		return pg.IsTransient(err) || len(unanswered) > 0 && (pg.IsLockTimeout(err) || errors.Is(err, errBusy))
	}
	err = r.Session.Server.Retry(r.Session.Work, waits, func() error {
		sent := row.Sent{Part: r.NextPart()}
		err := pgsql.InTx(r.Session.Work, r.Session.Server.DB, func(tx *sqlx.Tx) (err error) {
			var free map[int64]bool
			if free, busy, err = r.lockFree(tx, batch, wait); err != nil {
				return err
			}
			if slices.ContainsFunc(unanswered, func(s row.Sent) bool { return s.Has(busy) }) {
				return errBusy // until the server has carried it out, or dropped it
			}
			n = row.Tally{}
			sent.Outcomes, _ = split(batch, free)
			var m pg.Message
			send := func(m *pg.Message) error { return m.Send(r.Session.Work, tx) }
			if err := r.AddLocked(&m, c.Token, sent.Part, sent.Outcomes, &n, send); err != nil {
				return err
			}
			return send(&m)
		})
		if pg.IsTransient(err) && len(sent.Outcomes) > 0 {
			unanswered = append(unanswered, sent)
		}
		return err
	})
	switch {
	case claim.IsLost(err):
		r.Leases.Lose(c.Lease)
		return nil, nil
	case r.conflicts(err) || errors.Is(err, errBusy):
		return batch, nil
	case err != nil:
		return batch, err
	}
	for _, sent := range unanswered {
		if done, _ := r.Find(c, sent.Part); done {
			n.Plus(row.Expected(sent.Outcomes))
		}
	}
	left, done := split(batch, busy)
	n.Yielded = int64(len(done)) - n.Checked()
	r.Count(n, done)
	return left, nil
}

// split divides outcomes into those of some rows, and the others.
func split(outcomes []row.Outcome, ids map[int64]bool) (of, others []row.Outcome) {
	for _, o := range outcomes {
		if ids[o.ID] {
			of = append(of, o)
		} else {
			others = append(others, o)
		}
	}
	return of, others
}

// lockFree locks the rows of a batch that no other transaction has locked.
func (r *Recorder) lockFree(
	tx *sqlx.Tx, batch []row.Outcome, wait time.Duration,
) (free, busy map[int64]bool, err error) {
	var m pg.Message
	m.Do(r.Session.Server.Settings(r.Session.Server.Lease, min(wait, db.LockTimeout)))
	m.Do(pg.SlotIndexOnly.In(r.Session.Server.Schema))
	if wait > db.LockTimeout {
		m.Do(r.Session.Server.WaitForLocks(wait))
		m.Add(pg.RowWait.In(r.Session.Server.Schema), []any{r.Session.Slot, batch[0].Number, batch[0].ID}, db.Nothing)
		m.Do(r.Session.Server.WaitForLocks(db.LockTimeout)) // other runs may wait for this transaction now
	}
	free, busy = r.Session.AddLock(&m, numbersOf(batch), row.IDs(batch))
	return free, busy, m.Send(r.Session.Work, tx)
}

// BePatient reports whether a transaction may wait PatientFor for a lock: one at a time may. The
// caller calls release after the wait.
func (r *Recorder) BePatient() (release func(), ok bool) {
	select {
	case r.Writing.patience <- struct{}{}:
		return func() { <-r.Writing.patience }, true
	default:
		return nil, false
	}
}
