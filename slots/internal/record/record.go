package record

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/statement"
	pgsql "github.com/prescient-go/prescient/sql"
)

// slotBegun is the state of the error of a fence whose record was on its way over a boundary.
const slotBegun = "PS004"

// Record records outcomes of a claim, and ends the claim with the last of them. It returns those that
// are left: their rows are locked by another transaction, or an error came before they were recorded.
func (r *Recorder) Record(
	ctx context.Context, c *Claim, batch []row.Outcome, ends bool,
) (left []row.Outcome, err error) {
	if len(batch) == 0 && ends {
		return nil, r.End(ctx, c)
	}
	row.Sort(batch)
	for len(batch) > 0 && err == nil {
		n := row.Fitting(batch[:min(len(batch), r.writing.size())], statement.MaxMessage)
		var rest []row.Outcome
		rest, err = r.recordSome(ctx, c, batch[:n], ends && n == len(batch) && len(left) == 0)
		left, batch = append(left, rest...), batch[n:]
	}
	return append(left, batch...), err
}

// recordSome records outcomes that fit into a message. It returns those that are left.
func (r *Recorder) recordSome(ctx context.Context, c *Claim, batch []row.Outcome, ends bool) ([]row.Outcome, error) {
	r.writing.writers <- struct{}{}
	defer func() { <-r.writing.writers }()
	if r.writing.isWary() || slices.ContainsFunc(batch, row.Outcome.Enqueues) {
		return r.recordApart(ctx, c, batch, server.LockTimeout)
	}
	began := elapsed.Now()
	err := r.recordAll(ctx, c, batch, ends)
	switch {
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err):
		r.writing.beWary()
		return r.recordFree(ctx, c, batch, server.LockTimeout)
	case pgsql.HasState(err, slotBegun) || r.Refuses(err):
		return r.recordFree(ctx, c, batch, server.LockTimeout)
	case err != nil:
		return batch, err
	}
	r.writing.adapt(time.Since(began))
	return nil, nil
}

// recordAll records outcomes in one message, without a look at locks first.
func (r *Recorder) recordAll(ctx context.Context, c *Claim, batch []row.Outcome, ends bool) error {
	var m pgsql.Message
	var n row.Tally
	var end string
	m.Do(r.Server.WaitForLocks(server.LockTimeout))
	r.Add(&m, c.Token, batch, &n)
	m.Do(r.Server.WaitForLocks(server.OwnTimeout))
	part := r.NextPart()
	m.Add(pgsql.ClaimFence.In(r.Server.Schema), []any{r.Slot, c.Token, part, ends, r.movesTo(batch)}, server.Nothing)
	if ends && c.Leaves {
		m.Add(pgsql.SlotUnsettle.In(r.Server.Schema), []any{r.Slot}, server.Nothing)
	}
	if ends && c.Closes {
		m.Add(pgsql.SlotClose.In(r.Server.Schema), []any{r.Slot, false, c.Token}, func(row *sql.Rows) error {
			return row.Scan(&end)
		})
	}
	if ends {
		c.Ending(true)
	}
	err := r.commitOnce(ctx, c, part, &m, &n, row.Expected(batch))
	switch {
	case lease.IsLost(err):
		r.Leases.Lose(c.Lease)
		return nil
	case err != nil:
		c.Ending(false)
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
	if first := row.FirstMove(batch); !first.IsZero() && !r.Replayed {
		return first
	}
	return nil
}

// End ends a claim without rows.
func (r *Recorder) End(ctx context.Context, c *Claim) error { return r.recordAll(ctx, c, nil, true) }

// commitOnce sends a message that ends with the fence, and repeats it while the database cannot
// carry it out. If the reply is lost, it finds out whether the message was committed, and then sets
// n to all.
func (r *Recorder) commitOnce(
	ctx context.Context, c *Claim, part int64, m *pgsql.Message, n *row.Tally, all row.Tally,
) error {
	unknown := false // a message without a reply may still be carried out, and holds locks until then
	waits := func(err error) bool { return pgsql.IsTransient(err) || unknown && pgsql.IsLockTimeout(err) }
	return r.Server.Retry(ctx, waits, func() error {
		if unknown {
			done, err := r.Find(ctx, c, part)
			if done {
				*n = all
			}
			if done || err != nil {
				return err
			}
		}
		*n = row.Tally{}
		err := r.Server.Commit(ctx, m)
		// The mark exists, or the message has ended the claim.
		if unknown && (pgsql.HasState(err, pqerror.UniqueViolation) || lease.IsLost(err)) {
			if done, _ := r.Find(ctx, c, part); done {
				*n, err = all, nil
			}
		}
		unknown = unknown || pgsql.IsTransient(err)
		return err
	})
}

// Find finds out whether a record was committed. It returns lease.ErrLost if the record was not and
// the claim is gone. The mark of a record goes with its slot, which another runner may have closed
// since. But nothing else ends a claim while its lease is good.
func (r *Recorder) Find(ctx context.Context, c *Claim, part int64) (done bool, err error) {
	var held bool
	err = r.Server.Ask(ctx, ctx, pgsql.RecordFind, []any{r.Slot, c.Token, part}, func(row *sql.Rows) error {
		return row.Scan(&done, &held)
	})
	if err == nil && !done && !held {
		if done = c.IsEnding() && c.Good(); !done {
			err = lease.ErrLost
		}
	}
	return done, err
}
