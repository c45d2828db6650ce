package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
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
		s.deliverOutcome(f.shard, f.outcome(i, &verdicts[i], took))
	}
}

func (s *scan) deliverOutcome(sh *shard, o outcome) {
	s.out--
	if s.ended || s.shards[sh.shard] != sh {
		s.land(sh, o.lane, o.id) // the check came too late, or its lease is lost: another run does it again
		s.notify()
		return
	}
	if sh.pending == nil {
		sh.pending = make([]outcome, 0, min(sh.flying, s.batch))
	}
	if len(sh.pending) == 0 {
		sh.oldest = monotonic()
	}
	sh.pending = append(sh.pending, o)
	s.pending++
	if s.out == 0 || len(sh.pending) == s.batch {
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
		if err := s.recordBatch(b); err != nil {
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

// batch is outcomes by shard: a full one of one shard, or all that waits of several.
type batch map[*shard][]outcome

// nextBatch waits for a batch that is due; nil when the run is over.
func (s *scan) nextBatch() batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if b := s.cut(); b != nil {
			return b
		}
		if s.ended && s.pending == 0 {
			return nil
		}
		s.ready.Wait()
	}
}

// cut takes a batch that is due: a full one of a shard; or everything, when nothing more is on its way or the oldest
// outcome has waited long enough.
func (s *scan) cut() batch {
	if s.pending == 0 {
		return nil
	}
	due := s.ended || s.out == 0
	for _, sh := range s.shards {
		if len(sh.pending) >= s.batch {
			slices.SortFunc(sh.pending, compareID) // checks end out of order, but a range is a batch without gaps
			full := sh.pending[:s.batch]
			sh.pending = append([]outcome(nil), sh.pending[s.batch:]...)
			s.pending -= len(full)
			return batch{sh: full}
		}
		due = due || len(sh.pending) > 0 && time.Since(sh.oldest) >= linger
	}
	if !due {
		return nil
	}
	b := batch{}
	for _, sh := range s.shards {
		if len(sh.pending) > 0 {
			b[sh] = sh.pending
			s.pending -= len(sh.pending)
			sh.pending = nil
		}
	}
	return b
}

// landBatch counts the rows of a batch as no longer in flight.
func (s *scan) landBatch(b batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sh, outcomes := range b {
		for _, o := range outcomes {
			s.land(sh, o.lane, o.id)
		}
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
// Rows that stay locked leave the batch.
func (s *scan) recordBatch(b batch) error {
	err := s.commitBatch(b)
	if !pgsql.IsLockTimeout(err) && !pgsql.IsRetryable(err) {
		return err
	}
	for _, sh := range s.held(b) {
		rest, err := s.recordCarefully(sh, b[sh])
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			continue
		}
		b[sh] = slices.DeleteFunc(slices.Clone(b[sh]), func(o outcome) bool {
			return slices.ContainsFunc(rest, func(r outcome) bool { return r.id == o.id })
		})
		s.beside.Go(func() { s.recordPatiently(sh, rest) })
	}
	return nil
}

// commitBatch records a batch in one transaction. While the database does not answer it tries again: when an earlier
// attempt was committed after all, though its reply was lost, this one finds no row in the slot.
func (s *scan) commitBatch(b batch) error {
	var unknown bool // an earlier attempt may have been committed
	return s.retry(func() error {
		total, err := s.tryBatch(b)
		if err == nil {
			if unknown && total.checked() == 0 {
				total = tally{}
				for _, outcomes := range b {
					total = total.plus(expected(outcomes))
				}
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
func (s *scan) tryBatch(b batch) (tally, error) {
	for {
		var total tally
		var lost *shard
		err := s.inTx(lockTimeout, func(tx *sqlx.Tx) error {
			total = tally{}
			for _, sh := range s.held(b) {
				n, err := s.recordFenced(tx, sh, b[sh], true)
				if err != nil {
					lost = sh
					return err
				}
				total = total.plus(n)
			}
			return nil
		})
		switch {
		case errors.Is(err, errNotWhole):
			s.goByID()
		case errors.Is(err, ErrLeaseLost):
			s.lose(lost)
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

// held returns the shards of a batch that are still this runner's, in order, so that two writers never wait for each
// other in a circle.
func (s *scan) held(b batch) []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	shards := slices.SortedFunc(maps.Keys(b), func(a, b *shard) int { return int(a.shard) - int(b.shard) })
	return slices.DeleteFunc(shards, func(sh *shard) bool { return s.shards[sh.shard] != sh })
}

// recordFenced writes outcomes of one shard in a transaction, and the fence.
func (s *scan) recordFenced(tx *sqlx.Tx, sh *shard, outcomes []outcome, ranges bool) (tally, error) {
	n, err := s.record(s.work, tx, sh, outcomes, ranges)
	if err != nil {
		return n, err
	}
	return n, s.fence(s.work, tx, sh, n)
}

// record writes outcomes of one shard in a transaction, which a fence must end. Rows that were cancelled or moved by
// their owner meanwhile are left as they are; with ranges, that is found out by an errNotWhole.
func (s *scan) record(ctx context.Context, tx *sqlx.Tx, sh *shard, outcomes []outcome, ranges bool) (tally, error) {
	slices.SortFunc(outcomes, compareID)
	like, rest := alike(outcomes)
	var n tally
	for _, group := range like {
		t, err := s.recordAlike(ctx, tx, sh, group, ranges)
		if err != nil {
			return n, err
		}
		n = n.plus(t)
	}
	if args := s.finishArgs(sh, rest); args != nil {
		var t tally
		if err := tx.QueryRowContext(ctx, pgsql.RowsFinish.In(s.schema), args...).Scan(&t.finished, &t.failed); err != nil {
			return n, err
		}
		n = n.plus(t)
	}
	if args := s.moveArgs(sh, rest); args != nil {
		var t tally
		if err := tx.QueryRowContext(ctx, pgsql.RowsMove.In(s.schema), args...).Scan(&t.rescheduled, &t.failed); err != nil {
			return n, err
		}
		n = n.plus(t)
	}
	n.yielded = int64(len(outcomes)) - n.checked()
	return n, nil
}

// fence adds up in the lease row what a batch has recorded, as its last statement: ErrLeaseLost when the shard is not
// this runner's any more.
func (s *scan) fence(ctx context.Context, tx *sqlx.Tx, sh *shard, n tally) error {
	return lost(tx.QueryRowContext(ctx, pgsql.LeaseRecord.In(s.schema), s.ledger.slot, sh.shard, sh.token,
		n.finished, n.rescheduled, n.failed))
}

// fenceShared is fence for a check with a transaction of its own: many of them commit at once.
func (s *scan) fenceShared(ctx context.Context, tx *sqlx.Tx, sh *shard, n tally) error {
	return lost(tx.QueryRowContext(ctx, pgsql.LeaseFence.In(s.schema), s.ledger.slot, sh.shard, sh.token,
		n.finished, n.rescheduled, n.failed))
}

func lost(row *sql.Row) error {
	var shard int16
	err := row.Scan(&shard)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrLeaseLost
	}
	return err
}

// recordCarefully records the rows that nobody else has locked, taken in id order. The others are left to patient
// goroutines, so that the writer goes on.
func (s *scan) recordCarefully(sh *shard, outcomes []outcome) (rest []outcome, err error) {
	var n tally
	err = s.retry(func() error {
		return s.inTx(lockTimeout, func(tx *sqlx.Tx) error {
			free, err := s.lockFree(tx, sh, outcomes)
			if err != nil {
				return err
			}
			isFree := func(o outcome) bool { return slices.Contains(free, o.id) }
			rest = slices.DeleteFunc(slices.Clone(outcomes), isFree)
			mine := slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !isFree(o) })
			n, err = s.recordFenced(tx, sh, mine, false)
			return err
		})
	})
	switch {
	case errors.Is(err, ErrLeaseLost):
		s.lose(sh)
		return nil, nil
	case pgsql.IsLockTimeout(err) || pgsql.IsRetryable(err):
		return outcomes, nil
	case err == nil:
		s.count(n)
	}
	return rest, err
}

// lockFree locks those rows of a batch that nobody else has locked. Rows that are gone count as locked elsewhere; the
// patient way finds out.
func (s *scan) lockFree(tx *sqlx.Tx, sh *shard, outcomes []outcome) ([]int64, error) {
	ids := make([]int64, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.id
	}
	var free []int64
	err := tx.SelectContext(s.work, &free, pgsql.RowsLock.In(s.schema), s.ledger.slot, sh.shard, pq.Array(ids))
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
		s.landBatch(batch{sh: {o}})
	}
}

func (s *scan) waitAndRecord(sh *shard, o outcome) error {
	for {
		var n tally
		err := s.retry(func() error {
			return s.inTx(patience, func(tx *sqlx.Tx) (err error) {
				n, err = s.recordFenced(tx, sh, []outcome{o}, false)
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
