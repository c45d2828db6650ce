package permit

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
)

// The database gives out instants, one for each check that the runs may begin in a second. A check may
// begin up to maxLate after its instant. So the database spreads the instants of a second over
// paceSlack of a second more. Then no period of a second has too many checks.
const (
	paceSlack = 0.05
	maxLate   = 30 * time.Millisecond // the rest is for different delays on the way to the database
	// paceAhead is the time for which a run takes instants in advance.
	paceAhead = 50 * time.Millisecond
	// inHand divides PerSecond into the number of checks that wait with an instant in hand; at least two
	// do. If the run is stopped or dies, these instants are lost, and all runs wait until they have passed.
	inHand = 10
)

// pace has the instants that a run has got for a key.
type pace struct {
	opts    Options
	rule    Rule
	key     string
	replies *replies

	waiting atomic.Int64 // checks
	waits   Semaphore    // checks that may have an instant

	mu    sync.Mutex
	ahead []time.Time // local monotonic
	taken int64       // instants, the last time
	stale int64       // those of them that have passed unused
}

func newPace(o Options, rule Rule, key string, r *replies) *pace {
	return &pace{opts: o, rule: rule, key: key, replies: r, waits: make(Semaphore, max(2, rule.PerSecond/inHand))}
}

// await waits for the next instant at which a check may begin. It returns false if ctx ends or the run
// is stopped first. A nil pace returns a zero instant.
func (p *pace) await(ctx context.Context) (at time.Time, ok bool) {
	if p == nil {
		return at, true
	}
	p.waiting.Add(1)
	if !p.waits.Acquire(p.opts.Stop, ctx) {
		p.waiting.Add(-1)
		return at, false
	}
	defer p.waits.Release()
	at, err := p.next(ctx)
	p.waiting.Add(-1)
	if err != nil {
		if ctx.Err() == nil {
			p.opts.Halt(err)
		}
		return at, false
	}
	return at, sleep(p.opts.Stop, ctx, time.Until(at))
}

// next returns the next instant. An instant that has passed unused is lost, for the other runs too.
func (p *pace) next(ctx context.Context) (at time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.ahead) > 0 {
			at, p.ahead = p.ahead[0], p.ahead[1:]
			if !late(at) {
				return at, nil
			}
			p.stale++
		}
		if err := p.refill(ctx); err != nil {
			return at, err
		}
	}
}

// giveBack gives an unused instant to the next check.
func (p *pace) giveBack(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = append(p.ahead, at)
	slices.SortFunc(p.ahead, time.Time.Compare)
}

// refill gets instants from the database: as many as were used of the last ones, or a few more. Call it
// with mu held.
func (p *pace) refill(ctx context.Context) error {
	// the database's unit
	spacing := time.Duration(math.Ceil((1+paceSlack)*1e6/float64(p.rule.PerSecond))) * time.Microsecond
	n := p.taken - p.stale
	if p.stale == 0 {
		n += n/4 + 1
	}
	n = max(1, min(max(n, p.waiting.Load()), int64(paceAhead/spacing)))
	var ahead int64
	args := []any{p.rule.Job, p.key, n, spacing.Microseconds()}
	asked := elapsed.Now()
	err := p.opts.Ask(ctx, p.opts.Work, pg.LimitPace, args, func(row *sql.Rows) error { return row.Scan(&ahead) })
	if err != nil {
		return fmt.Errorf("take instants of job %s, see PerSecond: %w", p.rule.Name, err)
	}
	p.taken, p.stale = n, 0
	if p.replies.isSlow(time.Since(asked)) {
		p.stale = n
		return nil
	}
	first := elapsed.Now().Add(time.Duration(ahead) * time.Microsecond)
	for i := range n {
		p.ahead = append(p.ahead, first.Add(time.Duration(i)*spacing))
	}
	return nil
}

// replies measures how long the database takes to reply with instants.
type replies struct {
	took atomic.Int64 // nanoseconds of the last reply; 0: there was none
}

// isSlow reports whether a reply took so much longer than the reply before that its instants may have
// passed: the database measured at an unknown moment in between how far ahead they are. A way to the
// database that is always slow does not matter, because it shifts all instants alike.
func (r *replies) isSlow(took time.Duration) bool {
	before := time.Duration(r.took.Swap(int64(took)))
	return before > 0 && took > before+maxLate
}

// late reports whether it is too late for a check to begin at its instant. It never is for a zero one.
func late(at time.Time) bool { return !at.IsZero() && time.Since(at) > maxLate }

// sleep waits. It returns false if one of the contexts ends first.
func sleep(a, b context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-a.Done():
	case <-b.Done():
	}
	return false
}
