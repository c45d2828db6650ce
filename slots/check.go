package slots

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// linger is how long an outcome may wait to be recorded together with others.
const linger = 50 * time.Millisecond

// unit is the rows of one call: a row, the rows of a batch, or those of a group.
type unit struct {
	def        *engine.Definition
	number     int64 // of the job; for a group the job of its first row
	rows       []jobs.FutureJob
	numbers    []int64 // the job of each row, if they differ
	one        [1]jobs.FutureJob
	group      groupKey
	members    []int64        // of a group: its rows that are in the claim
	unreadable []int64        // of a group: rows of other claims that cannot be read
	rest       []int64        // members that are not in this call, because it has no room for them
	verdict    *guard.Verdict // set if no call is needed

	queue    *queue
	at       time.Time // the instant at which its rate lets it begin; zero: any
	since    time.Time // when its goroutine began with the checks of its place
	next     *unit     // the next check in its place
	waited   bool      // for a lock of another transaction
	split    bool      // its call failed as a whole and is to be divided
	division *division // of the call that it is a part of; nil: it is no part of a call that timed out
	own      bool      // the function itself returned the error, for each of its rows

	attempt

	stale bool      // its rows were read long ago and may be gone
	began time.Time // local monotonic instant; guarded by round.mu, as is the next
	safe  bool      // it runs statements of the run and must not be abandoned
}

// String names the rows in the log.
func (u *unit) String() string {
	if len(u.rows) == 1 {
		return u.rows[0].Key().String()
	}
	return fmt.Sprintf("%d rows of %s", len(u.rows), u.def.Name)
}

// size returns the number of rows of the claim in the unit.
func (u *unit) size() int64 {
	if u.isGroup() {
		return int64(len(u.members))
	}
	return int64(len(u.rows))
}

// bytes returns about how many bytes the unit takes while it waits.
func (u *unit) bytes() int64 {
	bytes := int64(unitSize + 8*len(u.members))
	for i := range u.rows {
		bytes += sizeOf(&u.rows[i])
	}
	return bytes
}

// unitSize is about how many bytes a unit takes without its rows.
const unitSize = 1000

// isGroup reports whether the unit is a group to check.
func (u *unit) isGroup() bool { return u.group != groupKey{} }

// ids returns the sorted ids of the rows.
func (u *unit) ids() []int64 {
	ids := make([]int64, len(u.rows))
	for i := range u.rows {
		ids[i] = u.rows[i].ID
	}
	slices.Sort(ids)
	return ids
}

// round does the checks of units of one claim, each once.
type round struct {
	run   *run
	claim *claim
	begun time.Time
	read  time.Time     // when the rows were
	ready chan struct{} // signals that take has something to return

	mu      sync.Mutex
	waiting int            // units that are not started
	running map[*unit]bool // neither settled nor abandoned
	done    []row.Outcome  // outcomes to record
	again   []*unit        // units to check again, because another transaction has a lock
	settled int64          // rows that need no record, or none by this round
	oldest  time.Time      // when the first of done was added
	over    bool           // no more outcomes are taken
	cut     bool           // some units were not settled
}

func newRound(r *run, c *claim, queues []*queue) *round {
	rd := &round{run: r, claim: c, begun: elapsed.Now(), read: c.read, ready: make(chan struct{}, 1), running: map[*unit]bool{}}
	for _, q := range queues {
		rd.waiting += len(q.units)
		for _, u := range q.units {
			u.queue = q
		}
	}
	return rd
}

// start starts the checks, each as soon as there is room for it.
func (rd *round) start(queues []*queue) {
	for _, q := range queues {
		for range min(q.lane.spec.Places, len(q.units)) {
			go rd.checkMany(q)
		}
	}
}

// checkMany does checks on its goroutine until none is left. A check that never returns keeps the goroutine.
func (rd *round) checkMany(q *queue) {
	for rd.isNeeded(q) {
		at, ok := q.door.Enter(rd.claim.ctx)
		if !ok {
			return
		}
		u := rd.begin(q, at, nil)
		if u == nil {
			q.door.Leave()
			return
		}
		for ; u != nil; u = u.next {
			if !rd.check(u) {
				return
			}
		}
		q.door.Leave()
	}
}

// begin returns the next unit of a queue. It returns nil if there is none, if the run is stopped, or if the unit may not
// follow the check before it in the same place.
func (rd *round) begin(q *queue, at time.Time, before *unit) *unit {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if before == nil {
		q.entering--
	}
	if len(q.units) == 0 || rd.over || rd.run.stop.Err() != nil || rd.claim.ctx.Err() != nil || rd.run.leases.Expired(rd.claim.Lease) {
		return nil
	}
	u := q.units[0]
	if before != nil && !u.follows(before) {
		return nil
	}
	q.units = q.units[1:]
	rd.waiting--
	rd.running[u] = true
	u.began, u.at = elapsed.Now(), at
	u.stale = !u.def.InTx() && u.verdict == nil && time.Since(rd.read) >= fresh
	u.safe = u.def.InTx() || u.stale // until its transaction has begun, or its rows were found
	u.since, u.next, u.begun = u.began, nil, nil
	if before != nil {
		u.since = before.since
	}
	rd.run.enqueue(rd.claim, -min(u.size(), rd.claim.queued.Load()))
	rd.run.brief(u)
	return u
}

// check does one check. It returns false if its goroutine must end: the check was abandoned, or has ended the goroutine.
func (rd *round) check(u *unit) (goOn bool) {
	switch {
	case u.verdict != nil:
		return rd.settle(u, rd.unchecked(u, *u.verdict))
	case u.stale && rd.isGone(u):
		u.queue.door.Spare(u.at)
		return rd.settle(u, nil)
	case u.stale && !rd.mayBegin(u):
		return rd.yield(u)
	case !u.def.InTx() && rd.isTooLate(u):
		u.queue.door.Spare(u.at)
		return rd.settle(u, rd.unchecked(u, guard.Verdict{Outcome: jobs.DeadlinePassed}))
	}
	ctx := call.NewContext(rd.claim.ctx, u.began.Add(u.def.Timeout)) // the same instant for abandonOverdue
	defer ctx.End()
	var results []jobs.Result
	err := call.ErrGoexit // unless the function returns or panics
	defer func() {
		took := time.Since(u.began)
		if p := recover(); p != nil {
			rd.run.report.logPanic(ctx, u.def, u.String(), p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
		goOn = rd.conclude(ctx, u, results, err, took)
		if err == call.ErrGoexit && goOn { //nolint:errorlint // this goroutine is about to end
			u.queue.door.Leave()
			go rd.checkMany(u.queue)
		}
	}()
	switch {
	case u.def.InTx():
		results, err = rd.checkTx(ctx, u)
	case u.def.Batched():
		results, err = u.def.Call(ctx, nil, slices.Clone(u.rows)) // a clone, because the function may change it
		u.own = err != nil && ctx.Err() == nil
	default:
		results, err = u.def.Call(ctx, nil, u.rows)
	}
	return true
}

// isTooLate reports whether the deadline of a unit has passed since its rows were read.
func (rd *round) isTooLate(u *unit) bool { return guard.PastDeadline(u.def, rd.run.moment()) }

// brief fills in what the rows tell the function about their check.
func (r *run) brief(u *unit) {
	moment := r.moment()
	for i := range u.rows {
		u.rows[i].Slot, u.rows[i].CaughtUp = moment.Slot, moment.CaughtUp
		u.rows[i].Lateness = max(0, moment.Now.Sub(moment.Slot))
	}
}

// conclude processes the return of a check.
func (rd *round) conclude(ctx context.Context, u *unit, results []jobs.Result, err error, took time.Duration) bool {
	switch {
	case errors.Is(err, errRecorded):
		return rd.settle(u, nil)
	case errors.Is(err, errAgain):
		return rd.yield(u)
	case rd.claim.ctx.Err() != nil: // the check was cut short, or its claim belongs to another runner
		return rd.forget(u)
	case u.failedAsAWhole(err) && (!errors.Is(context.Cause(ctx), call.ErrTimeout) || !u.hangs()):
		rd.run.cfg.Logger.DebugContext(ctx, "call is divided", "check", u.String(), "error", err)
		u.split = true
		return rd.yield(u)
	}
	return rd.settle(u, rd.outcomes(u, rd.verdicts(ctx, u, results, err), true, took))
}

// verdicts returns the verdict of each row from the results of a check; err is the error of every row.
func (rd *round) verdicts(ctx context.Context, u *unit, results []jobs.Result, err error) []guard.Verdict {
	moment := rd.run.moment()
	list := make([]guard.Verdict, len(u.rows))
	for i := range u.rows {
		result := jobs.Result{Err: err}
		if err == nil {
			result = results[i]
		}
		if result.Err != nil && errors.Is(context.Cause(ctx), call.ErrTimeout) {
			result.Err = fmt.Errorf("%w after %s: %w", call.ErrTimeout, u.def.Timeout, result.Err)
		}
		if p, ok := errors.AsType[*jobs.PanicError](result.Err); ok {
			rd.run.report.logPanic(ctx, u.def, u.rows[i].Key().String(), p.Value, p.Stack)
		}
		list[i] = guard.After(u.def, moment, &u.rows[i], result.Next, result.Err)
		list[i].Payload = result.Payload
		if result.Err == nil {
			list[i].Enqueue = result.Enqueue
		}
	}
	return list
}

// settle adds the outcomes of a unit, unless it was abandoned.
func (rd *round) settle(u *unit, outcomes []row.Outcome) bool {
	return rd.end(u, func() {
		if len(outcomes) == 0 {
			rd.settled += u.size() - int64(len(u.rest))
		} else if len(rd.done) == 0 {
			rd.oldest = elapsed.Now()
		}
		rd.done = append(rd.done, outcomes...)
		if len(u.rest) > 0 {
			rd.again = append(rd.again, restOf(u))
		}
	})
}

// yield makes a unit wait for a lock of another transaction.
func (rd *round) yield(u *unit) bool {
	return rd.end(u, func() {
		u.waited = true
		rd.settled += u.size()
		rd.again = append(rd.again, u.parts()...)
	})
}

// divisible reports whether the function may be called with each half of the rows instead.
func (u *unit) divisible() bool { return u.def.Batched() && !u.def.Grouped() && len(u.rows) > 1 }

// failedAsAWhole reports whether a call of several rows failed for a reason that one row may have caused: a timeout, a
// panic, the commit. An error that the function returned for all rows is not divided, because a service that is down
// would be called once for each row.
func (u *unit) failedAsAWhole(err error) bool {
	return err != nil && u.divisible() && (!u.own || errors.Is(err, jobs.ErrDivide))
}

// division counts the timeouts of the parts of one call.
type division struct {
	timeouts atomic.Int64
	most     int64 // timeouts after which a call that times out is not divided
}

// slowRows is how many rows that time out a division can find in a call. If more rows time out, the service itself
// hangs, and dividing would wait for it once for each row.
const slowRows = 3

// hangs counts a timeout of a call, and reports whether there were too many to divide it.
func (u *unit) hangs() bool {
	if u.division == nil {
		u.division = &division{most: slowRows * int64(bits.Len(uint(len(u.rows))))}
	}
	return u.division.timeouts.Add(1) > u.division.most
}

// parts divides a batch whose call failed as a whole, or that could not be recorded because of a lock. A key that one of
// its rows enqueues may belong to an open transaction, and the other rows need not wait for it.
func (u *unit) parts() []*unit {
	if u.isGroup() { // without the rows that its call read
		u.rows, u.numbers, u.rest = u.one[:], nil, nil
	}
	if !u.crowded && !u.split || !u.divisible() {
		return []*unit{u}
	}
	var list []*unit
	for rows := range slices.Chunk(u.rows, (len(u.rows)+1)/2) {
		list = append(list, &unit{def: u.def, number: u.number, rows: rows, waited: true, division: u.division})
	}
	return list
}

// forget drops a unit without an outcome. The runner that has the claim then checks it again.
func (rd *round) forget(u *unit) bool { return rd.end(u, func() { rd.cut = true }) }

// end counts a unit as no longer running, and adds its outcomes. It returns false if the unit was abandoned before.
func (rd *round) end(u *unit, note func()) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if !rd.running[u] {
		return false
	}
	delete(rd.running, u)
	note()
	rd.poke()
	return true
}

// later adds a unit that waits for a lock of another transaction: rows of a unit that goes on without them.
func (rd *round) later(u *unit) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.again = append(rd.again, u)
}

// isRunning reserves the outcome of a unit for its check: the unit is not abandoned any more.
func (rd *round) isRunning(u *unit) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	u.safe = rd.running[u]
	return u.safe
}

// poke wakes take if it has something to return. The caller holds mu.
func (rd *round) poke() {
	if rd.isOver() || len(rd.done) == 1 || len(rd.done) == rd.run.cfg.Page {
		select {
		case rd.ready <- struct{}{}:
		default:
		}
	}
}

// isOver reports whether no check runs and none will start. The caller holds mu.
func (rd *round) isOver() bool {
	return len(rd.running) == 0 && (rd.waiting == 0 || rd.run.stop.Err() != nil || rd.claim.ctx.Err() != nil)
}

// take waits for outcomes: all of them, or those that have waited long enough. It also returns how many rows need no
// record, and whether these were the last.
func (rd *round) take() (batch []row.Outcome, settled int64, last bool) {
	var timer <-chan time.Time
	stop := rd.run.stop.Done()
	for {
		rd.mu.Lock()
		ended := rd.claim.ctx.Err() != nil
		if ended || rd.isOver() || len(rd.done) >= rd.run.cfg.Page || len(rd.done) > 0 && time.Since(rd.oldest) >= linger {
			defer rd.mu.Unlock()
			batch, settled, last = rd.done, rd.settled, ended || rd.isOver()
			rd.done, rd.settled = nil, 0
			settled += int64(len(batch))
			if last {
				rd.over = true
				rd.cut = rd.cut || len(rd.running) > 0 || rd.waiting > 0
			}
			return batch, settled, last
		}
		if len(rd.done) > 0 && timer == nil {
			timer = time.After(linger)
		}
		rd.mu.Unlock()
		select {
		case <-rd.ready:
		case <-timer:
			timer = nil
		case <-stop:
			stop = nil
		case <-rd.claim.ctx.Done():
		}
	}
}

// wasCut reports whether some units were not settled. A check that goes on without its claim may set this at any time.
func (rd *round) wasCut() bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.cut
}

// yielded returns the units that wait for a lock of another transaction, and removes them.
func (rd *round) yielded() []*unit {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	list := rd.again
	rd.again = nil
	return list
}

// mostOf returns how long a check of a job may take before it is abandoned. Its timeout may be the longest duration.
func (r *run) mostOf(d *engine.Definition) time.Duration {
	return d.Timeout + min(r.cfg.Grace, math.MaxInt64-d.Timeout)
}

// abandonOverdue abandons checks that ignored their timeout and the grace period. Other checks get their places, and
// their rows count as failed. The run ends once as many checks are abandoned as there are workers.
func (rd *round) abandonOverdue() {
	r := rd.run
	rd.mu.Lock()
	overdue := map[*unit]*unit{} // copies, because an abandoned check may still change its rows
	for u := range rd.running {
		if !u.safe && u.verdict == nil && time.Since(u.began) > r.mostOf(u.def) {
			overdue[u] = &unit{def: u.def, number: u.number, rows: u.rows, numbers: u.numbers}
		}
	}
	rd.mu.Unlock()
	for u, was := range overdue {
		err := fmt.Errorf("%w after %s: %w", call.ErrTimeout, u.def.Timeout, call.ErrIgnored)
		if !rd.settle(u, rd.outcomes(was, rd.verdicts(r.work, was, nil, err), true, r.mostOf(u.def))) {
			continue
		}
		r.cfg.Logger.ErrorContext(r.work, "check abandoned", "check", was.String(), "timeout", u.def.Timeout, "grace", r.cfg.Grace)
		if r.report.abandon() >= r.cfg.Workers {
			r.halt(fmt.Errorf("%w: %d of them, as many as there are workers", ErrAbandoned, r.cfg.Workers))
		}
		u.queue.door.Leave()
		go rd.checkMany(u.queue)
	}
}
