package slots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// slowWrite is what a batch takes at the most before it is made smaller, down to minBatch rows.
	slowWrite = 500 * time.Millisecond
	minBatch  = 20
	// linger is how long an outcome may wait for others to be recorded with.
	linger = 10 * time.Millisecond
	// lockTimeout is far below the server's deadlock_timeout (1 s): it is the run that yields, before the server
	// would kill somebody's business transaction.
	lockTimeout = 100 * time.Millisecond
	// patience is how long one attempt waits for a row that is locked elsewhere; below deadlock_timeout, too.
	patience = 900 * time.Millisecond
)

// deliver hands the outcomes of a check to the writers. Call it with mu held.
func (s *scan) deliver(f *flight, verdicts []jobs.Verdict, took time.Duration) {
	for i := range f.rows {
		s.deliverOutcome(f.outcome(i, &verdicts[i], took))
	}
}

func (s *scan) deliverOutcome(o outcome) {
	s.out--
	if s.ended || !s.isHeld(o.shard) {
		s.land(o.shard, o.lane, o.id) // the check came too late, or its lease is lost: another run does it again
		s.notify()
		return
	}
	if len(s.pending) == 0 {
		s.oldest = monotonic()
	}
	s.pending = append(s.pending, o)
	if s.out == 0 || len(s.pending) == s.batch {
		s.notify()
	}
}

// write is a writer: it records batches until there are no more.
func (s *scan) write() {
	for {
		b := s.nextBatch()
		if b == nil {
			return
		}
		started := monotonic()
		b, err := s.recordBatch(b)
		if err != nil {
			s.fail(err)
		}
		s.adapt(time.Since(started))
		s.landBatch(b)
	}
}

// adapt halves the batch when a write was slow, so that locks are short and heartbeats get through on a server that
// is under pressure, and doubles it, up to a page, when it was quick.
func (s *scan) adapt(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case took > slowWrite:
		s.batch = max(s.batch/2, min(minBatch, s.cfg.Page))
	case took < slowWrite/4:
		s.batch = min(2*s.batch, s.cfg.Page)
	}
}

// nextBatch waits for outcomes that are due; nil when the run is over.
func (s *scan) nextBatch() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if b := s.cut(); b != nil {
			return b
		}
		if s.ended && len(s.pending) == 0 {
			return nil
		}
		s.ready.Wait()
	}
}

// cut takes a batch that is due: a full one, page by page and there in the order of ids, since checks end out of order
// and a range has no gaps; or everything, when nothing more is on its way or the oldest outcome has waited long enough.
func (s *scan) cut() []outcome {
	n := len(s.pending)
	due := s.ended || s.out == 0 || time.Since(s.oldest) >= linger
	if n == 0 || n < s.batch && !due {
		return nil
	}
	slices.SortFunc(s.pending, comparePage)
	b := s.pending[:min(n, s.batch)]
	s.pending = append(make([]outcome, 0, s.batch), s.pending[len(b):]...)
	s.oldest = monotonic()
	return b
}

// landBatch counts the rows of a batch as no longer in flight.
func (s *scan) landBatch(b []outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range b {
		s.land(o.shard, o.lane, o.id)
	}
	s.notify()
}

// count adds to the result.
func (s *scan) count(n tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Finished += n.finished
	s.result.Rescheduled += n.rescheduled
	s.result.Failed += n.failed
	s.result.Yielded += n.yielded
	s.result.Checked += n.checked()
	if s.cfg.Progress != nil && n.checked() > 0 {
		s.cfg.Progress(Progress{Slot: s.ledger.slot, Planned: s.result.Planned, Recorded: s.result.Checked})
	}
}

// recordBatch records a batch: first straight, in one transaction; when rows are locked elsewhere, the careful way.
// Rows that stay locked leave the batch, and it returns the others.
func (s *scan) recordBatch(b []outcome) ([]outcome, error) {
	err := s.commitBatch(b)
	if !pgsql.IsLockTimeout(err) && !pgsql.IsRetryable(err) {
		return b, err
	}
	held := s.held(b)
	slices.SortFunc(held, compareShard)
	for _, p := range split(held) {
		rest, err := s.recordCarefully(p)
		if err != nil {
			return b, err
		}
		if len(rest) == 0 {
			continue
		}
		b = slices.DeleteFunc(slices.Clone(b), func(o outcome) bool {
			return slices.ContainsFunc(rest, func(r outcome) bool { return r.id == o.id })
		})
		s.beside.Go(func() { s.recordPatiently(p.shard, rest) })
	}
	return b, nil
}

// commitBatch records a batch in one transaction. While the database does not answer it tries again: when an earlier
// attempt was committed after all, though its reply was lost, this one finds no row in the slot.
func (s *scan) commitBatch(b []outcome) error {
	var unknown bool // an earlier attempt may have been committed
	return s.retry(func() error {
		total, err := s.tryBatch(b)
		if err == nil {
			if unknown && total.checked() == 0 {
				total = expected(b)
			}
			s.count(total)
			return nil
		}
		unknown = unknown || pgsql.IsTransient(err)
		return err
	})
}

// tryBatch drops the shards whose lease is lost and records the others. Where a range was not what it seemed, this run
// goes by ids from now on: a job may be paused, or its rows be cancelled, in many more places.
func (s *scan) tryBatch(b []outcome) (tally, error) {
	for {
		held := s.held(b)
		if len(held) == 0 {
			return tally{}, nil
		}
		var total tally
		var lost []*shard
		err := s.inTx(lockTimeout, func(tx *sqlx.Tx) (err error) {
			total, lost, err = s.recordFenced(tx, held, true)
			return err
		})
		switch {
		case errors.Is(err, errNotWhole):
			s.goByID()
		case errors.Is(err, ErrLeaseLost):
			s.lose(lost...)
		default:
			return total, err
		}
	}
}

func (s *scan) goByID() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = true
}

// held returns what a batch has of shards that are still this runner's.
func (s *scan) held(b []outcome) []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b), func(o outcome) bool { return !s.isHeld(o.shard) })
}

// recordFenced writes outcomes in a transaction, and the fence. With ErrLeaseLost it returns the shards that are lost.
func (s *scan) recordFenced(tx *sqlx.Tx, outcomes []outcome, ranges bool) (tally, []*shard, error) {
	n, err := s.record(s.work, tx, outcomes, ranges)
	if err != nil {
		return tally{}, nil, err
	}
	lost, err := s.fence(s.work, tx, n)
	total := n.total()
	total.yielded = int64(len(outcomes)) - total.checked()
	return total, lost, err
}

// recordCarefully records the rows that nobody else has locked, taken in id order. The others are left to patient
// goroutines, so that the writer goes on.
func (s *scan) recordCarefully(p part) (rest []outcome, err error) {
	var n tally
	err = s.retry(func() error {
		return s.inTx(lockTimeout, func(tx *sqlx.Tx) error {
			free, err := s.lockFree(s.work, tx, p.shard, p.ids)
			if err != nil {
				return err
			}
			isFree := func(o outcome) bool { return slices.Contains(free, o.id) }
			rest = slices.DeleteFunc(slices.Clone(p.outcomes), isFree)
			mine := slices.DeleteFunc(slices.Clone(p.outcomes), func(o outcome) bool { return !isFree(o) })
			n, _, err = s.recordFenced(tx, mine, false)
			return err
		})
	})
	switch {
	case errors.Is(err, ErrLeaseLost):
		s.lose(p.shard)
		return nil, nil
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err):
		return p.outcomes, nil
	case err == nil:
		s.count(n)
	}
	return rest, err
}

// lockFree locks those rows of a shard that nobody else has locked. Rows that are gone count as locked elsewhere.
func (s *scan) lockFree(ctx context.Context, tx *sqlx.Tx, sh *shard, ids []int64) (free []int64, err error) {
	err = tx.SelectContext(ctx, &free, pgsql.RowsLock.In(s.schema), s.ledger.slot, sh.shard, pq.Array(ids))
	return free, err
}

// recordPatiently records rows that are locked elsewhere, one by one, each in a transaction of its own that waits
// for the row's owner: their checks have run and must not run again. It gives up when the lease is lost or the run
// ends.
func (s *scan) recordPatiently(sh *shard, outcomes []outcome) {
	for _, o := range outcomes {
		err := s.waitAndRecord(sh, o)
		if err != nil {
			s.cfg.Logger.WarnContext(s.work, "a check was done but not recorded, and will be done again", "id", o.id, "error", err)
			s.leave(sh)
		}
		s.landBatch([]outcome{o})
	}
}

func (s *scan) waitAndRecord(sh *shard, o outcome) error {
	for {
		var n tally
		err := s.retry(func() error {
			return s.inTx(patience, func(tx *sqlx.Tx) (err error) {
				n, _, err = s.recordFenced(tx, []outcome{o}, false)
				return err
			})
		})
		switch {
		case err == nil:
			s.count(n)
			return nil
		case errors.Is(err, ErrLeaseLost):
			s.lose(sh)
			return err
		case !pgsql.IsLockTimeout(err) && !pgsql.IsRetryable(err), s.hasEnded(), sh.ctx.Err() != nil:
			return err
		}
	}
}

func (s *scan) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// inTx runs fn in a transaction that waits for locks no longer than wait, and that the server ends when this process
// stops in its middle: its locks must not outlive its leases.
func (s *scan) inTx(wait time.Duration, fn func(tx *sqlx.Tx) error) error {
	return pgsql.InTx(s.work, s.cfg.DB, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(s.work, pgsql.SlotIndexOnly+"; "+limits(wait, s.cfg.Lease)); err != nil {
			return err
		}
		return fn(tx)
	})
}

func limits(lock, idle time.Duration) string {
	return fmt.Sprintf("set local lock_timeout = %d; set local idle_in_transaction_session_timeout = %d",
		lock.Milliseconds(), idle.Milliseconds())
}
