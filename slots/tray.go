package slots

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// linger is how long an outcome may wait to be recorded together with others.
const linger = 50 * time.Millisecond

// tray collects what becomes of the units of a round, until the goroutine of the claim takes it. It is safe for
// concurrent use.
type tray struct {
	page              int             // rows of a record
	stop, checks, ctx context.Context // ends of the run, of its time for checks, and of the claim
	ready             chan struct{}   // signals that take has something to return

	mu      sync.Mutex
	waiting int                   // units that are not started
	running map[*unit.Unit]*queue // neither settled nor abandoned
	done    batch                 // to record
	again   []*unit.Unit          // units to check again, because another transaction has a lock
	over    bool                  // no more outcomes are taken
	cut     bool                  // some units were not settled
}

// batch is outcomes to record together.
type batch struct {
	outcomes []row.Outcome
	settled  int64     // rows that need no record, or none by this round
	oldest   time.Time // when the first outcome was added
}

func newTray(p *phases, ctx context.Context, page int, queues []*queue) *tray {
	t := &tray{
		page: page, stop: p.stop, checks: p.checks, ctx: ctx,
		ready: make(chan struct{}, 1), running: map[*unit.Unit]*queue{},
	}
	for _, q := range queues {
		t.waiting += len(q.units)
	}
	return t
}

// isEnded reports whether nothing more may be started.
func (t *tray) isEnded() bool { return t.stop.Err() != nil || t.ctx.Err() != nil }

// start begins the call of a unit. It returns false if no more calls may begin.
func (t *tray) start(u *unit.Unit, q *queue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.isEnded() {
		return false
	}
	t.waiting--
	t.running[u] = q
	u.Watch.Begin()
	return true
}

// settle adds the outcomes of a unit. Like yield and forget, it returns false if the unit was abandoned.
func (t *tray) settle(u *unit.Unit, outcomes []row.Outcome) bool {
	return t.close(u, func() {
		rest := u.Rest()
		if rest != nil {
			t.again = append(t.again, rest)
		}
		if len(outcomes) == 0 {
			t.done.settled += u.Size()
			if rest != nil {
				t.done.settled -= rest.Size()
			}
		}
		t.add(outcomes)
	})
}

// yield makes a unit wait for a lock of another transaction.
func (t *tray) yield(u *unit.Unit) bool {
	return t.close(u, func() {
		u.Waited = true
		t.done.settled += u.Size()
		t.again = append(t.again, u.Parts()...)
	})
}

// forget drops a unit without an outcome. The runner that has the claim then checks it again.
func (t *tray) forget(u *unit.Unit) bool {
	return t.close(u, func() { t.cut = true })
}

// abandon adds the outcomes of a unit whose call was abandoned, and returns the queue of the unit.
func (t *tray) abandon(u *unit.Unit, outcomes []row.Outcome) (q *queue) {
	t.end(u, func() {
		q = t.running[u]
		t.add(outcomes)
	})
	return q
}

// add adds outcomes. The caller holds mu.
func (t *tray) add(outcomes []row.Outcome) {
	if len(t.done.outcomes) == 0 {
		t.done.oldest = elapsed.Now()
	}
	t.done.outcomes = append(t.done.outcomes, outcomes...)
}

// close ends the call of a unit, and notes what came of it. It returns false if the call was abandoned before.
func (t *tray) close(u *unit.Unit, note func()) bool {
	if !u.Watch.End() {
		return false
	}
	t.end(u, note)
	return true
}

// end counts a unit as no longer running.
func (t *tray) end(u *unit.Unit, note func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	note()
	delete(t.running, u)
	t.poke()
}

// later adds a unit that waits for a lock of another transaction: rows of a unit that goes on without them.
func (t *tray) later(u *unit.Unit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again = append(t.again, u)
}

// calls returns the units that are running.
func (t *tray) calls() []*unit.Unit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.running))
}

// poke wakes take if it has something to return. The caller holds mu.
func (t *tray) poke() {
	if n := len(t.done.outcomes); t.isOver() || n == 1 || n == t.page {
		select {
		case t.ready <- struct{}{}:
		default:
		}
	}
}

// isBusy reports whether a check runs that was not abandoned.
func (t *tray) isBusy() bool { return len(t.calls()) > 0 }

// isOver reports whether no check runs and none will start. The caller holds mu.
func (t *tray) isOver() bool {
	return len(t.running) == 0 && (t.waiting == 0 || t.isEnded())
}

// taken is the result of take.
type taken struct {
	batch

	again []*unit.Unit // units to check again
	last  bool         // there will be no more
}

// take waits for outcomes: all of them, or those that have waited long enough. The last have come when no check runs
// and none will start, or when the run's time for checks is over.
func (t *tray) take() taken {
	var timer <-chan time.Time
	stop, lost := t.stop.Done(), t.ctx.Done()
	for {
		got, waits := t.takeNow()
		if got != nil {
			return *got
		}
		if waits && timer == nil {
			timer = time.After(linger)
		}
		select {
		case <-t.ready:
		case <-timer:
			timer = nil
		case <-stop:
			stop = nil
		case <-lost:
			lost = nil
		case <-t.checks.Done():
		}
	}
}

// takeNow returns nil if take must wait. waits reports whether there are outcomes that wait for more.
func (t *tray) takeNow() (got *taken, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, last := len(t.done.outcomes), t.checks.Err() != nil || t.isOver()
	if !last && n < t.page && (n == 0 || time.Since(t.done.oldest) < linger) {
		return nil, n > 0
	}
	got = &taken{batch: t.done, again: t.again, last: last}
	got.settled += int64(n)
	t.done, t.again = batch{}, nil
	if last {
		t.over = true
		t.cut = t.cut || len(t.running) > 0 || t.waiting > 0
	}
	return got, false
}

// wasCut reports whether some units were not settled. A check that goes on without its claim may set this at any time.
func (t *tray) wasCut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut
}
