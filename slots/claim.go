package slots

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// claim is a right to rows of the slot, and what one goroutine makes of it.
type claim struct {
	token       int64
	jobs        pq.Int64Array
	first, last int64
	lane        *lane

	ctx    context.Context // of its checks: ends when the lease is lost
	cancel context.CancelCauseFunc
	end    func(err error, attrs ...slog.Attr) // of its span

	closes bool // it is the last of the slot, as far as can be seen
	done   bool // its last row is recorded
	leaves bool // rows were left in the slot by decision
	undone bool // rows were not checked, and are others' to check
	kept   int64
	bytes  int64           // of them
	left   map[int64]bool  // rows that stay in the slot for the time being though they were read
	locked []outcome       // of rows that somebody else has locked
	again  []*unit         // to be checked when somebody else's lock is gone, or a place is free
	shares map[*share]bool // that it uses
	waits  time.Duration   // for locks, the last time

	queued   atomic.Int64 // rows that are not started
	troubled atomic.Pointer[time.Time]
	ending   atomic.Bool           // its last record is on its way
	round    atomic.Pointer[round] // the checks that are under way
	until    time.Time             // local monotonic instant before which the lease does not end; guarded by leases.mu
}

// newToken makes a token that nobody else has: a runner that gets no reply asks for the same claim again.
func newToken() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

// open lets the run into the slot, and opens it where nobody has.
func (r *run) open() (end string, err error) {
	for try := 0; ; try++ {
		var settled bool
		end, settled, err = r.openOnce()
		if err != nil || end != "open" || settled || try == settleTries || r.result.Planned <= int64(r.cfg.Page) {
			return end, err
		}
		if !sleep(r.stop, settleEvery) {
			return end, nil
		}
	}
}

func (r *run) openOnce() (end string, settled bool, err error) {
	var planned, taken sql.NullInt64
	var ahead int64
	var all sql.NullBool
	var m pgsql.Message
	args := []any{r.slot, string(r.kind), r.token, r.cfg.Name, r.cfg.Lease.Microseconds(), r.clock(), r.cfg.Workers}
	err = m.Add(pgsql.SlotOpen.In(r.schema), args, func(row *sql.Rows) error {
		return row.Scan(&end, &planned, &all, &ahead, &taken, &r.place)
	})
	if err == nil {
		err = r.addLook(&m)
	}
	if err == nil {
		err = r.retry(r.stop, passes, func() error {
			r.forgetJobs()
			return r.commit(r.work, &m)
		})
	}
	if err != nil {
		return "", false, fmt.Errorf("open: %w", pgsql.ExplainMissing(err))
	}
	r.result.Planned = planned.Int64
	r.result.TakenOver += int(taken.Int64)
	switch {
	case end == "early" && ahead > 0:
		return end, false, errEarly
	case end == "early":
		return end, false, errOffGrid
	}
	return end, all.Bool, nil
}

// close closes the slot if nothing of it is left; see prescient.close_slot.
func (r *run) close() (end string, err error) {
	err = r.ask(r.work, pgsql.SlotClose, []any{r.slot, r.sel.leave, nil}, func(row *sql.Rows) error { return row.Scan(&end) })
	return end, err
}

// claim claims rows of a lane, and has them worked on. It returns false where there were none.
func (r *run) claim(l *lane) (bool, error) {
	if r.cfg.ClaimDelay > 0 {
		delay := time.Duration(r.cfg.Load() * float64(r.cfg.ClaimDelay))
		if !sleep(r.stop, min(delay, maxDelay)) {
			return false, nil
		}
	}
	var rows int64
	var rest pq.Int64Array
	c := &claim{token: newToken(), lane: l, shares: map[*share]bool{}}
	if ok, err := r.makeRoom(c); !ok {
		return false, err
	}
	numbers, lower := r.first(l)
	args := append(r.claimArgs(c), pq.Int64Array(numbers), r.want(l))
	err := r.obtain(c, pgsql.ClaimRows, args, func(row *sql.Rows) error {
		return row.Scan(&c.jobs, &c.first, &c.last, &rows, &rest)
	})
	if err != nil || len(c.jobs) == 0 {
		r.giveUp(c)
	}
	if err != nil {
		return false, err
	}
	numbers = slices.DeleteFunc(numbers, func(number int64) bool { return !slices.Contains(rest, number) })
	if n := len(numbers); n > 1 { // another job has its turn
		numbers = append(numbers[1:n:n], numbers[0])
	}
	l.jobs = append(numbers, lower...)
	if len(c.jobs) == 0 {
		return false, nil
	}
	c.closes = r.going.Load() == 0 && !r.waits() && !r.sel.leave && r.sel.limit == 0
	r.begin(c, rows)
	return true, nil
}

// takeOver takes over a claim whose runner has not been heard of for too long.
func (r *run) takeOver() (bool, error) {
	if r.limitReached() || len(r.known) == 0 {
		return false, nil
	}
	c := &claim{token: newToken(), shares: map[*share]bool{}}
	var numbers pq.Int64Array
	for number := range r.known {
		numbers = append(numbers, number)
	}
	err := r.obtain(c, pgsql.ClaimTakeOver, append(r.claimArgs(c), numbers), func(row *sql.Rows) error {
		return row.Scan(&c.jobs, &c.first, &c.last)
	})
	if err != nil || len(c.jobs) == 0 {
		return false, err
	}
	c.lane = r.known[c.jobs[0]].lane
	r.mu.Lock()
	r.result.TakenOver++
	r.mu.Unlock()
	r.begin(c, 0)
	return true, nil
}

func (r *run) claimArgs(c *claim) []any {
	return []any{r.slot, string(r.kind), c.token, r.cfg.Name, r.cfg.Lease.Microseconds()}
}

// obtain gets a claim. Where the reply is lost the same one is asked for again.
func (r *run) obtain(c *claim, stmt pgsql.Statement, args []any, scan func(row *sql.Rows) error) error {
	var m pgsql.Message
	if err := m.Add(stmt.In(r.schema), args, scan); err != nil {
		return err
	}
	return r.retry(r.stop, passes, func() error {
		r.readers <- struct{}{}
		defer r.readers.leave()
		c.until = monotonic().Add(r.cfg.Lease) // before the statement: the lease cannot end earlier
		return r.commit(r.work, &m)
	})
}

// begin has a claim worked on.
func (r *run) begin(c *claim, rows int64) {
	ctx, end := r.cfg.Registry.StartSpan(r.checks, "claim",
		slog.Time("slot", r.slot), slog.Int64("claim", c.token), slog.Any("jobs", r.names(c.jobs)), slog.Int64("rows", rows))
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.end = end
	r.enqueue(c, rows)
	r.leases.add(c)
	r.going.Add(1)
	go func() {
		defer r.changed()
		defer r.going.Add(-1)
		r.workOn(c)
	}()
}

// enqueue counts rows that wait to be started.
func (r *run) enqueue(c *claim, rows int64) {
	c.queued.Add(rows)
	n, half := c.lane.queue.Add(rows), c.lane.size.Load()/2
	if n <= half && n-rows > half {
		r.changed()
	}
}

// read reads rows of a claim that are still in the slot, as units of work; more tells that there are others.
func (r *run) read(c *claim) (units []*unit, more bool, err error) {
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	var rows []jobs.FutureJob
	var numbers []int64
	var bytes int64
	scan := r.scanRow(func(number int64, job jobs.FutureJob) error {
		switch {
		case c.left[job.ID]:
			return nil
		case bytes > readAtOnce:
			more = true
			return pgsql.ErrEnough
		case r.sel.limit > 0 && r.taken.Load()+int64(len(rows)) >= r.sel.limit:
			c.undone = true
			return pgsql.ErrEnough
		}
		rows, numbers = append(rows, job), append(numbers, number)
		bytes += sizeOf(&job)
		return nil
	})
	err = m.Add(pgsql.PageRead.In(r.schema), []any{r.slot, c.jobs, c.first, c.last}, scan)
	if err == nil {
		err = r.retry(c.ctx, passes, func() error {
			r.readers <- struct{}{}
			defer r.readers.leave()
			rows, numbers, bytes, more = nil, nil, 0, false
			return r.commit(r.work, &m)
		})
	}
	if len(rows) > 0 {
		c.lane.fits.Store(max(1, readAtOnce*int64(len(rows))/bytes))
	}
	r.keep(c, int64(len(rows)), bytes)
	r.enqueue(c, int64(len(rows))-c.queued.Load())
	if err != nil {
		return nil, more, err
	}
	wait, err := r.othersWait(c, rows, numbers)
	return r.units(c, rows, numbers, wait), more, err
}

// sizeOf is about how many bytes a row takes.
func sizeOf(j *jobs.FutureJob) int64 {
	return int64(500 + len(j.Payload) + len(j.EntityKey) + len(j.ItemKey) + len(j.GroupKey) + len(j.LastError) + len(j.TraceParent))
}

// seconds is a grid that every slot is on, of whatever width, and so leaves it as it is.
var seconds, _ = grid.New(time.Second)

// scanRow reads a row of page_read or group_read.
func (r *run) scanRow(take func(number int64, job jobs.FutureJob) error) func(row *sql.Rows) error {
	var number int64
	var item, group, lastError, trace sql.NullString
	var first sql.NullTime
	var spent sql.NullInt64
	var enqueued, id int64
	return func(row *sql.Rows) error {
		var j jobs.FutureJob
		err := row.Scan(&id, &number, &j.EntityName, &j.EntityKey, &item, &group, &first, &j.CheckCount, &j.ErrorCount,
			&lastError, &spent, (*[]byte)(&j.Payload), &enqueued, &j.EnqueuedBy, &trace)
		if err != nil {
			return fmt.Errorf("read future job: %w", err)
		}
		j.JobExec = r.known[number].def.Name
		j.ItemKey, j.Anonymous, j.GroupKey, j.LastError = item.String, !item.Valid, group.String, lastError.String
		j.TraceParent = trace.String
		j.EnqueuedAt, j.Spent = time.UnixMicro(enqueued).UTC(), time.Duration(spent.Int64)*time.Microsecond
		if first.Valid {
			j.SetCheckAt(seconds, first.Time)
		} else {
			j.SetCheckAt(seconds, r.slot)
		}
		j.ID = id
		j.SetCheckAt(seconds, r.slot)
		return take(number, j)
	}
}

// commit sends a message of the engine as one transaction.
func (r *run) commit(ctx context.Context, m *pgsql.Message) error {
	return m.Commit(ctx, r.cfg.DB, r.settings(r.cfg.Lease, ownTimeout))
}

// ask sends a statement that is a transaction of its own, and reads what it returns; again while the database cannot do it.
func (r *run) ask(ctx context.Context, stmt pgsql.Statement, args []any, scan func(row *sql.Rows) error) error {
	var m pgsql.Message
	if err := m.Add(stmt.In(r.schema), args, scan); err != nil {
		return err
	}
	return r.retry(ctx, passes, func() error { return r.commit(r.work, &m) })
}

// retry repeats what the database could not do just now: it restarts, is out of connections, somebody has a lock. For
// as long as a lease at the most, and until ctx ends.
func (r *Runner) retry(ctx context.Context, passes func(err error) bool, fn func() error) error {
	var since time.Time // of the first error: before that fn may have waited for its turn
	pause := 20 * time.Millisecond
	for {
		err := fn()
		if since.IsZero() {
			since = monotonic()
		}
		if err == nil || !passes(err) || time.Since(since) > r.cfg.Lease {
			return err
		}
		r.cfg.Logger.DebugContext(ctx, "the database cannot do it now; trying again", "error", err)
		if !sleep(ctx, pause) {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// sleep waits, and returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// impatient tells whether checks of a claim have met errors of the database for longer than a lease, without one that
// was recorded in between. A check that came to its place before the first of them may learn of that one late. Locks are
// waited for without end.
func (c *claim) impatient(err error, came time.Time, lease time.Duration) bool {
	if !pgsql.IsTransient(err) {
		return false
	}
	since := c.troubled.Load()
	if since == nil {
		c.troubled.CompareAndSwap(nil, new(monotonic()))
		return false
	}
	return time.Since(*since) > lease && came.After(*since)
}

// passes tells whether the same may succeed a little later.
func passes(err error) bool {
	return pgsql.IsTransient(err) || pgsql.IsRetryable(err) || pgsql.IsLockTimeout(err) || pgsql.HasState(err, pqerror.QueryCanceled)
}

// isLost tells whether a fence has found no lease.
func isLost(err error) bool {
	return pgsql.HasState(err, "PS001") || errors.Is(err, ErrLeaseLost)
}
