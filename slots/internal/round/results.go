package round

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// Batch has the outcomes of some units, which are recorded together, and the units to check again.
type Batch struct {
	Outcomes []row.Outcome
	Done     int64        // rows that leave the memory now
	Again    []*unit.Unit // each has a Wait
	Last     bool         // there will be no more
	Cut      bool         // the last batch comes without the outcomes of some units
}

// results collects what becomes of the units, until await returns it. It is safe for concurrent use.
type results struct {
	contexts *phase.Contexts // of the run
	ctx      context.Context // of the claim
	rows     int             // of a batch
	ready    chan struct{}   // signals that there is a batch

	mu      sync.Mutex
	waiting int                   // units that are not started
	running map[*unit.Unit]*queue // neither settled nor abandoned
	next    Batch
	oldest  time.Time // when the first outcome of next was added
	over    bool      // no more outcomes are taken
	cut     bool      // some units were not settled
}

func newResults(rd *Round) *results {
	r := &results{
		contexts: rd.Contexts, ctx: rd.Lease.Ctx, rows: rd.Rows,
		ready: make(chan struct{}, 1), running: map[*unit.Unit]*queue{},
	}
	for _, q := range rd.Queues {
		r.waiting += len(q.Units)
	}
	return r
}

// isEnded reports whether nothing more may be started.
func (r *results) isEnded() bool { return r.contexts.Stop.Err() != nil || r.ctx.Err() != nil }

// open begins the call of a unit. It returns false if no more calls may begin.
func (r *results) open(u *unit.Unit, q *queue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.isEnded() {
		return false
	}
	r.waiting--
	r.running[u] = q
	u.Watch.Begin()
	return true
}

// settle adds the outcomes of a unit. Like yield and forget, it returns false if the unit was abandoned.
func (r *results) settle(u *unit.Unit, outcomes []row.Outcome) bool {
	return r.close(u, func() {
		rest := u.Rest()
		if rest != nil {
			r.next.Again = append(r.next.Again, rest)
		}
		if len(outcomes) == 0 {
			r.next.Done += u.Size()
			if rest != nil {
				r.next.Done -= rest.Size()
			}
		}
		r.add(outcomes)
	})
}

// yield makes a unit wait.
func (r *results) yield(u *unit.Unit, wait unit.Wait) bool {
	return r.close(u, func() {
		u.Wait = wait
		r.next.Done += u.Size()
		r.next.Again = append(r.next.Again, u.Parts()...)
	})
}

// forget drops a unit without an outcome. The runner that has the claim then checks it again.
func (r *results) forget(u *unit.Unit) bool {
	return r.close(u, func() { r.cut = true })
}

// abandon adds the outcomes of a unit whose call was abandoned, and returns the queue of the unit. The rows of its
// group that the call did not get follow in another.
func (r *results) abandon(u *unit.Unit, outcomes []row.Outcome) (q *queue) {
	r.end(u, func() {
		q = r.running[u]
		if rest := u.Rest(); rest != nil {
			r.next.Again = append(r.next.Again, rest)
		}
		r.add(outcomes)
	})
	return q
}

// add adds outcomes. The caller holds mu.
func (r *results) add(outcomes []row.Outcome) {
	if len(r.next.Outcomes) == 0 {
		r.oldest = elapsed.Now()
	}
	r.next.Outcomes = append(r.next.Outcomes, outcomes...)
}

// close ends the call of a unit, and notes what came of it. It returns false if the call was abandoned before.
func (r *results) close(u *unit.Unit, note func()) bool {
	if !u.Watch.End() {
		return false
	}
	r.end(u, note)
	return true
}

// end counts a unit as no longer running.
func (r *results) end(u *unit.Unit, note func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note()
	delete(r.running, u)
	if n := len(r.next.Outcomes); r.isOver() || n == 1 || n == r.rows {
		select {
		case r.ready <- struct{}{}:
		default:
		}
	}
}

// later adds a unit that waits: rows of a unit that goes on without them.
func (r *results) later(u *unit.Unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next.Again = append(r.next.Again, u)
}

// calls returns the units that are running.
func (r *results) calls() []*unit.Unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.running))
}

// isBusy reports whether a check runs that was not abandoned.
func (r *results) isBusy() bool { return len(r.calls()) > 0 }

// isOver reports whether no check runs and none will start. The caller holds mu.
func (r *results) isOver() bool {
	return len(r.running) == 0 && (r.waiting == 0 || r.isEnded())
}

// linger is how long an outcome may wait to be recorded together with others.
const linger = 50 * time.Millisecond

// await waits for a batch: a full one, or outcomes that have waited for linger, or the last one.
func (r *results) await() Batch {
	var timer <-chan time.Time
	stop, lost := r.contexts.Stop.Done(), r.ctx.Done()
	for {
		b, ok, waits := r.poll()
		if ok {
			return b
		}
		if waits && timer == nil {
			timer = time.After(linger)
		}
		select {
		case <-r.ready:
		case <-timer:
			timer = nil
		case <-stop:
			stop = nil
		case <-lost:
			lost = nil
		case <-r.contexts.Checks.Done():
		}
	}
}

// poll returns a batch if there is one. waits reports whether there are outcomes that wait for more.
func (r *results) poll() (b Batch, ok, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, last := len(r.next.Outcomes), r.contexts.Checks.Err() != nil || r.isOver()
	if !last && n < r.rows && (n == 0 || time.Since(r.oldest) < linger) {
		return b, false, n > 0
	}
	b, r.next = r.next, Batch{}
	b.Done += int64(n)
	if last {
		r.over = true
		b.Last, b.Cut = true, r.cut || len(r.running) > 0 || r.waiting > 0
	}
	return b, true, false
}

// queue hands out the units of a lane.Queue.
type queue struct {
	lane.Queue

	mu       sync.Mutex
	entering int // goroutines that wait for room for one of the units
}

// isNeeded reports whether there are more units than goroutines that wait for room, and counts another goroutine. A
// goroutine that waits for an instant of a rate keeps that instant from other checks.
func (q *queue) isNeeded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entering >= len(q.Units) {
		return false
	}
	q.entering++
	return true
}

// take takes the first unit for a goroutine that has room now, or that has done the check before in its chain. It
// returns nil if there is none, or if the unit may not follow the check before.
func (q *queue) take(before *unit.Unit) *unit.Unit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if before == nil {
		q.entering--
	}
	if len(q.Units) == 0 || before != nil && !q.Units[0].Follows(before) {
		return nil
	}
	u := q.Units[0]
	q.Units = q.Units[1:]
	return u
}
