package slots

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// limit is what this run may do of a job of which all runs together may do only so much; see jobs.AtMost and jobs.PerSecond.
// Its places are good for as long as its leases are, and are given back when no claim uses them any more.
type limit struct {
	run    *run
	number int64
	def    *jobs.Definition
	places int // that it can use at once

	holding semaphore    // checks that wait for their instant with a worker in hand
	took    atomic.Int64 // nanoseconds of the last reply with instants; 0: there was none

	mu     sync.Mutex
	shares map[string]*share         // by key; without jobs.LimitBy there is one, of the empty key
	owed   map[string]bool           // keys of which there are places to be given back
	until  atomic.Pointer[time.Time] // local monotonic instant before which no place ends; nil: there are none
}

// share is the run's part in what is allowed for a key.
type share struct {
	limit *limit
	key   string
	pace  pace
	next  semaphore     // checks that wait for a worker with their instant, or for that: half as many as can run
	free  chan struct{} // has something in it for each place that is free
	has   int           // places; guarded by limit.mu, as are those below
	users int           // claims
	asked time.Time
}

// perHolder is how many of the checks of a second one has that waits for its instant with a worker in hand: so it waits for 20 ms,
// but where fewer than 50 are allowed.
const perHolder = 50

// askAgain is how soon a run asks again for places that it did not get.
const askAgain = 100 * time.Millisecond

func newLimit(r *run, number int64, def *jobs.Definition, places int) *limit {
	return &limit{
		run: r, number: number, def: def, places: places, shares: map[string]*share{}, owed: map[string]bool{},
		holding: make(semaphore, max(1, def.PerSecond/perHolder)),
	}
}

// maxLimitKey is how long a key may be as it is, in bytes: it is in an index.
const maxLimitKey = 500

// key returns what the limit of a row goes by: the empty key where there is none, or the job's function panics. One that the
// database cannot store, such as a text that was cut within a character, is known by its hash.
func (l *limit) key(row jobs.FutureJob) (key string) {
	if l == nil || l.def.LimitBy == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			l.run.cfg.Logger.Log(l.run.work, l.run.panicLevel("LimitBy of "+l.def.Name), "LimitBy panicked: the check counts to the empty key", "check", row.Key().String(), "panic", p)
		}
	}()
	key = l.def.LimitBy(row)
	if len(key) > maxLimitKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	}
	return key
}

// obtain returns the shares of keys for a claim, which uses them until leave: with places for so many units of each key, as far
// as the run can use them and there are any. A key without a place is not among them.
func (l *limit) obtain(ctx context.Context, c *claim, units map[string]int) (map[string]*share, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys pq.StringArray
	var wanted pq.Int64Array
	for key, n := range units {
		if l.shares[key] == nil {
			l.shares[key] = &share{
				limit: l, key: key, free: make(chan struct{}, l.def.AtMost), next: make(semaphore, (l.places+1)/2),
				pace: pace{hands: make(semaphore, max(2, l.def.PerSecond/inHand))},
			}
		}
		s := l.shares[key]
		if want := min(n, l.places, l.def.AtMost); s.has < want && time.Since(s.asked) > askAgain {
			keys, wanted = append(keys, key), append(wanted, int64(want))
			s.asked = elapsed.Now()
		}
	}
	if len(keys) > 0 {
		if err := l.take(ctx, keys, wanted); err != nil {
			return nil, err
		}
	}
	shares := map[string]*share{}
	for key := range units {
		s := l.shares[key]
		if s.has == 0 && l.def.AtMost > 0 {
			continue
		}
		shares[key] = s
		if !c.shares[s] {
			s.users++
			c.shares[s] = true
		}
	}
	return shares, nil
}

// take asks for places. Call it with mu held.
func (l *limit) take(ctx context.Context, keys pq.StringArray, wanted pq.Int64Array) error {
	var m pgsql.Message
	var asked time.Time
	got := map[string]int{}
	args := []any{l.number, keys, wanted, l.def.AtMost, l.run.token, l.run.cfg.Lease.Microseconds()}
	m.Add(pgsql.LimitTake.In(l.run.schema), args, func(row *sql.Rows) error {
		var key string
		var places int
		err := row.Scan(&key, &places)
		got[key] = places
		return err
	})
	err := l.run.server.Retry(ctx, server.Passes, func() error {
		asked = elapsed.Now() // before the statement: the places cannot end earlier
		return l.run.server.Commit(l.run.work, &m)
	})
	for key, places := range got {
		for s := l.shares[key]; s.has < places; s.has++ {
			s.free <- struct{}{}
		}
	}
	if len(got) > 0 {
		l.until.CompareAndSwap(nil, new(asked.Add(l.run.cfg.Lease)))
	}
	return err
}

// Renewed notes that the places were renewed by a heartbeat that was sent at an instant.
func (l *limit) Renewed(asked time.Time) {
	if until := l.until.Load(); until != nil {
		l.until.CompareAndSwap(until, new(asked.Add(l.run.cfg.Lease)))
	}
}

// EndsBefore tells whether places may end before an instant.
func (l *limit) EndsBefore(at time.Time) bool {
	until := l.until.Load()
	return until != nil && until.Before(at)
}

// leave gives back the places that only this claim has used.
func (l *limit) leave(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range c.shares {
		if s.limit != l {
			continue
		}
		delete(c.shares, s)
		if s.users--; s.users == 0 {
			delete(l.shares, s.key)
			if s.has > 0 {
				l.owed[s.key] = true
			}
		}
	}
	if len(l.shares) == 0 {
		l.until.Store(nil)
	}
	ctx, cancel := context.WithTimeout(l.run.work, closingTime)
	defer cancel()
	l.giveBack(ctx)
}

// Tidy gives back what could not be given back before: a heartbeat renews the run's places of any key.
func (l *limit) Tidy(ctx context.Context) {
	if l.mu.TryLock() { // it may be held for as long as the database does not answer
		defer l.mu.Unlock()
		l.giveBack(ctx)
	}
}

// giveBack gives back the places that no claim uses. Call it with mu held.
func (l *limit) giveBack(ctx context.Context) {
	var keys pq.StringArray
	for key := range l.owed {
		if s := l.shares[key]; s == nil || s.has == 0 { // else they are used again
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		var m pgsql.Message
		m.Add(pgsql.LimitLeave.In(l.run.schema), []any{l.run.token, l.number, keys}, server.Nothing)
		if err := l.run.server.Commit(ctx, &m); err != nil {
			l.run.cfg.Logger.WarnContext(ctx, "places were not given back; others can have them after the next heartbeat, or when the lease ends", "job", l.def.Name, "error", err)
			return
		}
	}
	clear(l.owed)
}

// enter waits for a place, where there are so many; leave gives it back.
func (s *share) enter(c *claim) bool {
	if s.limit.def.AtMost == 0 {
		return true
	}
	select {
	case <-s.free:
		return true
	case <-s.limit.run.stop.Done():
	case <-c.ctx.Done():
	}
	return false
}

func (s *share) leave() {
	if s.limit.def.AtMost > 0 {
		s.free <- struct{}{}
	}
}

// admit divides units by what they are subject to. Those for which there is no place are to be taken up again.
func (r *run) admit(c *claim, units []*unit) (queues []*queue, err error) {
	if len(c.lanes) == 1 {
		return r.admitTo(c, c.lane, units)
	}
	byLane := map[*lane][]*unit{}
	for _, u := range units {
		l := r.known[u.number].lane
		byLane[l] = append(byLane[l], u)
	}
	for _, l := range c.lanes {
		more, err := r.admitTo(c, l, byLane[l])
		if err != nil {
			return nil, err
		}
		queues = append(queues, more...)
	}
	return queues, nil
}

func (r *run) admitTo(c *claim, of *lane, units []*unit) ([]*queue, error) {
	l := of.limit
	if l == nil {
		return []*queue{{lane: of, units: units}}, nil
	}
	free := &queue{lane: of} // what needs no call is subject to nothing
	byKey, wanted := map[string]*queue{}, map[string]int{}
	for _, u := range units {
		q := free
		if u.verdict == nil {
			key := l.key(u.rows[0])
			if byKey[key] == nil {
				byKey[key] = &queue{lane: of}
			}
			q = byKey[key]
			wanted[key]++
		}
		q.units = append(q.units, u)
	}
	shares, err := l.obtain(c.ctx, c, wanted)
	if err != nil {
		return nil, err
	}
	queues := []*queue{free}
	for key, q := range byKey {
		if q.share = shares[key]; q.share != nil {
			queues = append(queues, q)
			continue
		}
		for _, u := range q.units {
			c.postpone(u)
		}
	}
	return queues, nil
}

// makeRoom gets a place before anything is claimed, where all rows of the claim will need the same: what is claimed nobody else
// can check. Where there is none the lane rests for a while. Rows that are only moved or ended need none.
func (r *run) makeRoom(c *claim) (ok bool, err error) {
	l := c.lane.limit
	if l == nil || l.def.LimitBy != nil {
		return true, nil
	}
	if verdict, stays := r.sel.judge(l.def, new(jobs.FutureJob), r.moment()); verdict != nil || stays {
		return true, nil
	}
	shares, err := l.obtain(r.stop, c, map[string]int{"": l.places})
	if err == nil && len(shares) == 0 {
		c.lane.turn.Rest(elapsed.Now().Add(lookEvery))
	}
	return len(shares) > 0, err
}

// giveUp gives up what a claim has of a limit.
func (r *run) giveUp(c *claim) {
	for _, l := range c.lanes {
		if l.limit != nil && len(c.shares) > 0 {
			l.limit.leave(c)
		}
	}
}
