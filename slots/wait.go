package slots

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// wait is the wait of a claim for locks, permits or the database. The goroutine of the claim changes it.
type wait struct {
	db.RowWait
	latest atomic.Pointer[pause] // nil: the claim has rows that have not been tried

	rows  int64     // that waited in the latest pause
	tried time.Time // local monotonic instant at which the try after it began; zero: rows were read since
}

// pause is that between two tries of the rows of a claim.
type pause struct {
	others bool // rows wait for other things than locks: a permit of a limit, or the database
	// until is the local monotonic instant at which the try after it is over. Then a check runs, or another pause begins.
	until time.Time
}

// usualTry is longer than most tries of locked rows take.
const usualTry = record.PatientFor + time.Second

// triesFor returns how long the next try of some rows counts as waiting. If the last try was in vain, that is twice as
// long as it took: a function may wait for locks with a lock_timeout of its own, or work before it meets the lock, and
// many rows may wait for few connections. A check that goes on for longer counts as running.
func (w *wait) triesFor(rows int64) time.Duration {
	if w.tried.IsZero() || rows != w.rows {
		return usualTry
	}
	return max(usualTry, 2*time.Since(w.tried))
}

// current returns the pause that goes on. Nil: the claim does not wait.
func (w *wait) current() *pause {
	if p := w.latest.Load(); p != nil && elapsed.Now().Before(p.until) {
		return p
	}
	return nil
}

// postponeBusy keeps units for a later try whose function would be called and whose rows another transaction has
// locked, and returns the other units. It does so only if the rows may have been in another claim: then the function
// may have been called without a record, and would be called again. A check with a transaction finds the lock itself.
func (w *work) postponeBusy(units []*unit.Unit) (free []*unit.Unit, err error) {
	var ids []int64
	for _, u := range units {
		if u.Verdict == nil && !u.Def.InTx() {
			ids = append(ids, u.IDs()...)
		}
	}
	if !w.maybeCalled || len(ids) == 0 {
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
		if u.Wait != unit.Untried {
			locked += u.Bytes()
		} else {
			parked += u.Bytes()
		}
	}
	w.account.CountWaiting(locked, parked)
}

// waitingRows returns how many rows of a claim wait.
func (w *work) waitingRows() int64 {
	rows := int64(len(w.locked))
	for _, u := range w.again {
		rows += u.Size()
	}
	return rows
}

// lockedRows returns the ids of the rows of a claim that wait for a lock, in order.
func (w *work) lockedRows() pq.Int64Array {
	ids := pq.Int64Array(row.IDs(w.locked))
	for _, u := range w.again {
		if u.Wait == unit.Locked {
			ids = append(ids, u.Claimed()...)
		}
	}
	slices.Sort(ids)
	return ids
}

// pause waits for locks of other transactions, for permits or for the database. Rows that wait no longer count as work
// of the run, and take no permits. It returns false if nothing more may start.
func (w *work) pause() bool {
	w.account.ReleaseAll()
	w.releasePermits()
	lasts := w.wait.Pause()
	if w.wait.IsLong() {
		_ = w.run.session.InTurn(w.Ctx, func() error {
			w.findHolder(w.Ctx)
			return nil
		})
	}
	rows := w.waitingRows()
	w.wait.latest.Store(&pause{
		others: slices.ContainsFunc(w.again, func(u *unit.Unit) bool { return u.Wait != unit.Locked }),
		until:  elapsed.Now().Add(lasts + w.wait.triesFor(rows)),
	})
	w.wait.rows = rows
	select {
	case <-time.After(lasts):
		w.wait.tried = elapsed.Now()
		return true
	case <-w.run.ctx.Stop.Done():
	case <-w.Ctx.Done():
	}
	w.last = record.GoOn // after one more try to record
	return false
}

// findHolder finds a session that holds a lock of rows of the claim, and names it in the log. It returns the session,
// and how to end it. Empty: it is not known, which is not worth an error.
func (w *work) findHolder(ctx context.Context) string {
	r, ids := w.run, w.lockedRows()
	names := r.session.Jobs.Names(w.Jobs)
	holder, mends := w.wait.LogHolder(ctx, &r.server, r.slot, w.Jobs, names, ids)
	if holder == "" {
		return ""
	}
	return fmt.Sprintf("%s has a lock of rows of %s; %s; to end it: %s", holder, spoken.List(names),
		spoken.Count(len(ids), "row waits", "rows wait"), mends)
}
