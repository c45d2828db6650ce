package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// The errors of checks that do not return properly, as they stand in last_error.
var (
	errTimeout = errors.New("timeout")
	errIgnored = errors.New("the check went on and was abandoned")
	errGoexit  = errors.New("the check called runtime.Goexit")
	errEndedTx = errors.New("the check ended its transaction itself: it must return instead")
)

// txAttempts is how often a check with a transaction runs when the server ends its transaction for the sake of
// another one.
const txAttempts = 3

// flight is a row, or a batch of rows of one job, on its way to an outcome.
type flight struct {
	lane    *lane
	rows    []jobs.FutureJob
	shards  []*shard  // of each row
	page    int       // that they came with
	passed  int       // gates of its lane that it is through; guarded by scan.mu
	started time.Time // local monotonic instant
	ctx     context.Context
	cancel  context.CancelCauseFunc // ends ctx when the leases of all shards are lost

	settled  bool // its outcome is known, by return or by abandonment; guarded by scan.mu
	mine     bool // it was settled by the check with a transaction itself
	recorded bool // its outcome was committed with its transaction, or is nobody's to record any more
}

// begin makes the context of the check: that of the shard, where it is one.
func (f *flight) begin(checks context.Context) {
	f.ctx, f.cancel = f.shards[0].ctx, func(error) {}
	if slices.ContainsFunc(f.shards, func(sh *shard) bool { return sh != f.shards[0] }) {
		f.ctx, f.cancel = context.WithCancelCause(checks)
	}
}

// String names the rows in the log.
func (f *flight) String() string {
	if len(f.rows) == 1 {
		return f.rows[0].Key().String()
	}
	return fmt.Sprintf("%d rows of %s", len(f.rows), f.lane.name)
}

// check runs a check on a goroutine of its own, which a check that never returns keeps to itself, and then those that
// it makes room for.
func (s *scan) check(f *flight) {
	for f != nil {
		f = s.checkOne(f)
	}
}

func (s *scan) checkOne(f *flight) (next *flight) {
	began := monotonic() // later than f.started where goroutines wait for a processor
	ctx := newDeadline(f.ctx, began.Add(f.lane.def.Timeout))
	defer f.cancel(nil)
	defer ctx.end()
	var results []jobs.Result
	err := errGoexit // unless the function returns or panics
	defer func() {
		took := time.Since(began) // not what conclude waits for
		if p := recover(); p != nil {
			s.cfg.Logger.ErrorContext(ctx, "check panicked", "check", f.String(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		next = s.conclude(ctx, f, results, err, took)
		if next != nil && err == errGoexit { //nolint:errorlint // this goroutine is about to end
			go s.check(next)
		}
	}()
	switch {
	case ctx.Err() != nil: // the lease was lost meanwhile
		f.recorded, err = true, nil
	case f.lane.def.InTx():
		results, err = s.checkTx(ctx, f)
	case f.lane.def.Batched():
		results, err = f.lane.def.Call(ctx, nil, slices.Clone(f.rows)) // a clone, since the function may change it
	default:
		results, err = f.lane.def.Call(ctx, nil, f.rows)
	}
	return nil
}

// conclude takes note of what a check has returned, and returns the flight that takes its place.
func (s *scan) conclude(ctx context.Context, f *flight, results []jobs.Result, err error, took time.Duration) (next *flight) {
	var verdicts []jobs.Verdict
	if !f.recorded {
		verdicts = s.verdicts(ctx, f, results, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.recorded:
		next = s.release(f)
		s.forget(f)
	case f.mine || !f.settled:
		f.settled = true
		next = s.release(f)
		s.deliver(f, verdicts, took)
	}
	return next
}

// brief tells the rows where they stand. Call it with mu held.
func (s *scan) brief(f *flight) {
	moment := s.moment()
	for i := range f.rows {
		f.rows[i].Slot, f.rows[i].CaughtUp = moment.Slot, moment.CaughtUp
		f.rows[i].Lateness = max(0, moment.Now.Sub(moment.Slot))
	}
}

// verdicts judges what a check returned, row by row; err is everyone's.
func (s *scan) verdicts(ctx context.Context, f *flight, results []jobs.Result, err error) []jobs.Verdict {
	moment := s.moment()
	list := make([]jobs.Verdict, len(f.rows))
	for i, row := range f.rows {
		result := jobs.Result{Err: err}
		if err == nil {
			result = results[i]
		}
		if result.Err != nil && errors.Is(context.Cause(ctx), errTimeout) {
			result.Err = fmt.Errorf("%w after %s: %w", errTimeout, f.lane.def.Timeout, result.Err)
		}
		list[i] = f.lane.def.After(moment, row, result.Next, result.Err)
		list[i].Payload = result.Payload
	}
	return list
}

// settle tells whether the caller is the first to know the outcome of a flight.
func (s *scan) settle(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !f.settled
	f.settled = true
	return first
}

// abandon gives up on checks that ignored their timeout: their places go to others, and their rows count as failed.
// When as many are abandoned as there are workers, the run ends.
func (s *scan) abandon(f *flight) {
	if !s.settle(f) {
		return
	}
	err := fmt.Errorf("%w after %s: %w", errTimeout, f.lane.def.Timeout, errIgnored)
	s.cfg.Logger.ErrorContext(s.work, "check abandoned", "check", f.String(), "timeout", f.lane.def.Timeout, "grace", s.cfg.Grace)
	verdicts := s.verdicts(s.work, f, nil, err)
	s.mu.Lock()
	if next := s.release(f); next != nil {
		go s.check(next)
	}
	s.result.Abandoned++
	many := s.result.Abandoned >= s.cfg.Workers
	s.deliver(f, verdicts, time.Since(f.started))
	s.mu.Unlock()
	if many {
		s.fail(fmt.Errorf("%w: %d of them, as many as there are workers", ErrAbandoned, s.cfg.Workers))
	}
}

// overdue returns the checks whose timeout and grace period are over. Call it with mu held.
func (s *scan) overdue() []*flight {
	var list []*flight
	for f := range s.running {
		if !f.settled && time.Since(f.started) > f.lane.def.Timeout+s.cfg.Grace {
			list = append(list, f)
		}
	}
	return list
}

// leave takes note that rows of shards which were read may still be in the slot.
func (s *scan) leave(shards ...*shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range shards {
		sh.left = true
	}
}

// forget lets a flight go without an outcome: it was not checked, is recorded already, or is not this runner's
// any more. Call it with mu held, and set shard.left where its rows are still in the slot, for the next pass.
func (s *scan) forget(f *flight) {
	for i, row := range f.rows {
		s.out--
		s.land(f.shards[i], f.lane, row.ID)
	}
	s.notify()
}

// checkTx runs a check and records its outcome in one transaction, anew when the server ended it for another one, and
// for the rows that are left when the leases of some are lost.
func (s *scan) checkTx(ctx context.Context, f *flight) (results []jobs.Result, err error) {
	for range txAttempts {
		results, err = s.tryTx(ctx, f)
		if !pgsql.IsRetryable(err) && !errors.Is(err, ErrLeaseLost) {
			break
		}
	}
	return results, err
}

func (s *scan) tryTx(ctx context.Context, f *flight) ([]jobs.Result, error) {
	tx, err := s.cfg.DB.BeginTxx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, limits(0, f.lane.def.Timeout+s.cfg.Grace)); err != nil {
		return nil, err
	}
	if err := s.lockRows(ctx, tx, f); err != nil {
		return nil, fmt.Errorf("lock the rows: %w", err)
	}
	if len(f.rows) == 0 {
		f.recorded = true
		return nil, nil
	}
	results, err := f.lane.def.Call(ctx, tx, slices.Clone(f.rows))
	if err != nil {
		return nil, err
	}
	if !f.mine && !s.settle(f) {
		return nil, errIgnored
	}
	f.mine = true
	return results, s.commit(ctx, tx, f, results)
}

// lockRows locks the rows before they are checked, so that their owners wait for the outcome. Rows that somebody else
// has locked, has moved or has cancelled leave the flight.
func (s *scan) lockRows(ctx context.Context, tx *sqlx.Tx, f *flight) error {
	if f.lane.def.Grouped() {
		if _, err := tx.ExecContext(ctx, pgsql.GroupLock.In(s.schema), f.rows[0].Group()); err != nil {
			return err
		}
	}
	ids := map[*shard][]int64{}
	for i, row := range f.rows {
		ids[f.shards[i]] = append(ids[f.shards[i]], row.ID)
	}
	locked := map[int64]bool{}
	for sh, list := range ids {
		free, err := s.lockFree(ctx, tx, sh, list)
		if err != nil {
			return err
		}
		for _, id := range free {
			locked[id] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.settled && !f.mine {
		return errIgnored
	}
	if len(locked) == len(f.rows) && !slices.ContainsFunc(f.shards, func(sh *shard) bool { return !s.isHeld(sh) }) {
		return nil
	}
	mine, others := &flight{lane: f.lane}, &flight{lane: f.lane}
	for i, row := range f.rows {
		to := others
		if locked[row.ID] && s.isHeld(f.shards[i]) {
			to = mine
		}
		to.rows, to.shards = append(to.rows, row), append(to.shards, f.shards[i])
	}
	f.rows, f.shards = mine.rows, mine.shards
	for _, sh := range others.shards {
		sh.left = true
	}
	s.forget(others)
	return nil
}

// commit records the outcome of a check in its own transaction.
func (s *scan) commit(ctx context.Context, tx *sqlx.Tx, f *flight, results []jobs.Result) error {
	outcomes := make([]outcome, len(f.rows))
	took := time.Since(f.started)
	verdicts := s.verdicts(ctx, f, results, nil)
	for i := range outcomes {
		outcomes[i] = f.outcome(i, &verdicts[i], took)
	}
	var lost []*shard
	n, err := s.record(ctx, tx, outcomes, false)
	if err == nil {
		lost, err = s.fenceShared(ctx, tx, n)
	}
	switch {
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return errEndedTx
	case errors.Is(err, ErrLeaseLost):
		s.lose(lost...)
		return err
	case err != nil:
		return fmt.Errorf("record the outcome: %w", err)
	}
	err = tx.Commit()
	switch {
	case err == nil:
		s.count(n.total())
		f.recorded = true
	case ctx.Err() != nil || pq.As(err) != nil:
		return fmt.Errorf("commit: %w", err)
	default:
		// The reply was lost. If the commit was too, the rows are still in the slot and the next pass finds them.
		s.cfg.Logger.WarnContext(ctx, "commit without a reply", "check", f.String(), "error", err)
		s.leave(f.shards...)
		f.recorded = true
	}
	return nil
}
