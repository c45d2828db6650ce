package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
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

// flight is a row that was handed out, on its way to an outcome.
type flight struct {
	shard   *shard
	lane    *lane
	job     *jobs.FutureJob
	started time.Time // local monotonic instant

	settled  bool // its outcome is known, by return or by abandonment; guarded by scan.mu
	mine     bool // it was settled by the check with a transaction itself
	recorded bool // its outcome was committed with its transaction, or is nobody's to record any more
}

// check runs one check on a goroutine of its own, which a check that never returns keeps to itself.
func (s *scan) check(f *flight) {
	release, ok := s.admit(f)
	if !ok {
		s.forget(f)
		return
	}
	moment := s.moment()
	f.job.Slot, f.job.CaughtUp = moment.Slot, moment.CaughtUp
	f.job.Lateness = max(0, moment.Now.Sub(moment.Slot))
	f.started = monotonic()

	timeout := f.lane.def.Timeout
	ctx, cancel := context.WithTimeoutCause(f.shard.ctx, timeout, errTimeout)
	defer cancel()
	abandon := time.AfterFunc(timeout+s.cfg.Grace, func() { s.abandon(f, release) })
	defer abandon.Stop()

	var next *time.Time
	err := errGoexit // unless the function returns or panics
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Logger.ErrorContext(ctx, "check panicked", "check", f.job.Key().String(), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
			err = fmt.Errorf("%w after %s: %w", errTimeout, timeout, err)
		}
		switch {
		case f.recorded:
			release()
			s.forget(f)
		case f.mine || s.settle(f):
			release()
			s.deliver(f, f.lane.def.After(s.moment(), *f.job, next, err))
		}
	}()
	if f.lane.def.CheckTx != nil {
		next, err = s.checkTx(ctx, f)
	} else {
		next, err = f.lane.def.Check(ctx, *f.job)
	}
}

// admit waits for the tokens that a check needs: its job's, a worker's, and a connection's. It returns false when
// the run was stopped or the lease lost meanwhile.
func (s *scan) admit(f *flight) (release func(), ok bool) {
	pools := []chan struct{}{s.workers}
	if f.lane.tokens != nil {
		pools = []chan struct{}{f.lane.tokens, s.workers}
	}
	if f.lane.def.CheckTx != nil {
		pools = append(pools, s.connections)
	}
	held := 0
	release = func() {
		for _, pool := range pools[:held] {
			<-pool
		}
	}
	for _, pool := range pools {
		select {
		case pool <- struct{}{}:
			held++
		case <-f.shard.ctx.Done():
			release()
			return nil, false
		}
	}
	if s.isStopped() || f.shard.ctx.Err() != nil {
		release()
		return nil, false
	}
	return release, true
}

// settle tells whether the caller is the first to know the outcome of a row.
func (s *scan) settle(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !f.settled
	f.settled = true
	return first
}

// abandon gives up on a check that ignored its timeout: its tokens go to other checks, and its row counts as failed.
// When as many are abandoned as there are workers, the run ends.
func (s *scan) abandon(f *flight, release func()) {
	if !s.settle(f) {
		return
	}
	release()
	s.mu.Lock()
	s.result.Abandoned++
	many := s.result.Abandoned >= s.cfg.Workers
	s.mu.Unlock()
	err := fmt.Errorf("%w after %s: %w", errTimeout, f.lane.def.Timeout, errIgnored)
	s.cfg.Logger.ErrorContext(s.work, "check abandoned", "check", f.job.Key().String(), "timeout", f.lane.def.Timeout, "grace", s.cfg.Grace)
	s.deliver(f, f.lane.def.After(s.moment(), *f.job, nil, err))
	if many {
		s.fail(fmt.Errorf("%w: %d of them, as many as there are workers", ErrAbandoned, s.cfg.Workers))
	}
}

// forget lets a row go without an outcome: it was not checked, is recorded already, or is not this runner's any more.
func (s *scan) forget(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out--
	s.land(f.shard, f.lane, f.job.ID)
}

// checkTx runs a check and records its outcome in one transaction, anew when the server ended it for another one.
func (s *scan) checkTx(ctx context.Context, f *flight) (next *time.Time, err error) {
	for range txAttempts {
		next, err = s.tryTx(ctx, f)
		if !pgsql.IsRetryable(err) {
			break
		}
	}
	return next, err
}

func (s *scan) tryTx(ctx context.Context, f *flight) (*time.Time, error) {
	tx, err := s.cfg.DB.BeginTxx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := limits(ctx, tx, 0, f.lane.def.Timeout+s.cfg.Grace); err != nil {
		return nil, err
	}
	var id int64
	err = tx.QueryRowContext(ctx, pgsql.RowLock.In(s.schema), s.ledger.slot, f.shard.shard, f.job.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		f.recorded = true
		s.count(tally{yielded: 1})
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the row: %w", err)
	}
	next, err := f.lane.def.CheckTx(ctx, tx, *f.job)
	if err != nil {
		return nil, err
	}
	if !f.mine && !s.settle(f) {
		return nil, errIgnored
	}
	f.mine = true
	return next, s.commit(ctx, tx, f, next)
}

// commit records the outcome of a check in its own transaction.
func (s *scan) commit(ctx context.Context, tx *sqlx.Tx, f *flight, next *time.Time) error {
	verdict := f.lane.def.After(s.moment(), *f.job, next, nil)
	n, err := s.record(ctx, tx, f.shard, []outcome{s.outcome(f, verdict)})
	switch {
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return errEndedTx
	case errors.Is(err, ErrLeaseLost):
		s.lose(f.shard)
		f.recorded = true
		return nil
	case err != nil:
		return fmt.Errorf("record the outcome: %w", err)
	}
	err = tx.Commit()
	switch {
	case err == nil:
		s.count(n)
		f.recorded = true
	case ctx.Err() != nil || pq.As(err) != nil:
		return fmt.Errorf("commit: %w", err)
	default:
		// The reply was lost. If the commit was too, the row is still in the slot and the next pass finds it.
		s.cfg.Logger.WarnContext(ctx, "commit without a reply", "check", f.job.Key().String(), "error", err)
		f.recorded = true
	}
	return nil
}
