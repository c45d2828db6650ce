package txn

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// commit records the outcomes of a check in its own transaction, and commits it.
func (c *Checker) commit(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain, outcomes []row.Outcome) error {
	if !u.Watch.Reserve() {
		return unit.ErrIgnored
	}
	records := c.Records
	ours := u.Def.DB == nil
	var m pg.Message
	var n row.Tally
	if ours {
		m.Do(record.Forget)
	} else {
		m.Do("set role " + pq.QuoteLiteral(tx.role)) // the role is the application's choice, and stays
	}
	sent := row.Sent{Part: records.NextPart(), Outcomes: outcomes}
	send := func(m *pg.Message) error { return m.SendTx(context.WithoutCancel(ctx), tx.LazyTx) }
	err := records.AddTx(&m, c.claim.Token, sent.Part, outcomes, tx.number, ours, &n, send)
	if err == nil {
		err = c.commitTx(ctx, tx, u, ch, &m)
	}
	if err != nil {
		tx.End() // so that no goroutine holds a connection while it waits for another
		if !c.wasCommitted(ch, err, sent.Part) {
			u.Tried.Unanswered, u.Failure.Crowded = &sent, pg.IsLockTimeout(err)
			return c.recordFailed(ctx, u, ch, err)
		}
		n = row.Expected(outcomes)
	}
	n.Yielded = int64(len(outcomes)) - n.Checked()
	records.Count(n, outcomes)
	c.commits.renew()
	return ErrRecorded
}

// commitTx commits the transaction of a check. If another row follows in its chain, the same message begins the
// transaction of that row.
func (c *Checker) commitTx(ctx context.Context, tx *transaction, u *unit.Unit, ch *Chain, m *pg.Message) error {
	ctx = context.WithoutCancel(ctx) // the fence finds out whether the lease is lost
	if tx.Chains() {
		ch.follow(u)
	}
	if ch.next == nil {
		return m.CommitTx(ctx, tx.LazyTx)
	}
	next := new(transaction)
	var err error
	next.resume, err = m.CommitAndBegin(ctx, tx.LazyTx, c.beginningRow(next, ch.next, db.LockTimeout, false))
	if next.resume != nil {
		ch.begun = next
	}
	return err
}

// wasCommitted reports whether a record was committed in spite of an error: its reply was lost, the server reported its
// shutdown instead, or the next check could not begin in the same message.
func (c *Checker) wasCommitted(ch *Chain, err error, part int64) bool {
	if ch.next == nil && pg.State(err) != "" && !pg.IsTransient(err) || errors.Is(err, sql.ErrTxDone) {
		return false
	}
	done, found := c.Records.Find(c.claim, part)
	return found == nil && done
}

// countUnanswered counts the record without a reply, if it was committed: the rows of the check are gone because of it.
func (c *Checker) countUnanswered(u *unit.Unit) {
	sent := u.Tried.Unanswered
	if sent == nil {
		return
	}
	if done, err := c.Records.Find(c.claim, sent.Part); err == nil && done {
		c.Records.Count(row.Expected(sent.Outcomes), sent.Outcomes)
	}
}

// sameDatabase returns ErrRecorded for rows that are gone, and another error if this is a database without the claim.
func (c *Checker) sameDatabase(ctx context.Context, tx *sqlx.Tx) error {
	const none = 0 // no record has this part
	var held bool
	var m pg.Message
	args := []any{c.Records.Session.Slot, c.claim.Token, none}
	m.Add(pg.RecordFind.In(c.Schema), args, func(row *sql.Rows) error { return row.Scan(new(bool), &held) })
	if err := m.Send(ctx, tx); err != nil {
		return err
	}
	if _, lost := c.Records.Find(c.claim, none); held || lost != nil {
		return ErrRecorded
	}
	return errors.New("it is a pool of another database than the runner's: the rows are not there")
}
