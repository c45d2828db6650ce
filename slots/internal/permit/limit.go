package permit

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

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Run is the run that permits are for.
type Run struct {
	*server.Server
	Token int64                   // by which the run holds permits
	Stop  context.Context         // ends when nothing more is to be started
	Halt  context.CancelCauseFunc // ends Stop, for an error of the database
	Work  context.Context         // of statements
	// Tried is told whether the run got the lock of the places of a job, by the lock's name, or another session has it.
	// Optional.
	Tried func(lock string, got bool)
}

// Rule bounds the checks of a job in all runs together.
type Rule struct {
	Job       int64  // its number
	Name      string // of the job, for the log
	AtMost    int    // so many checks at once; 0: any
	PerSecond int    // so many checks a second; 0: any
	Places    int    // how many checks of the job this run can do at once
}

// Limit is the part of this run in the Rule of a job; see jobs.AtMost and jobs.PerSecond.
// Its places are good for as long as its leases are, and are given back when no claim uses them any more.
type Limit struct {
	run  Run
	rule Rule

	holding Semaphore // checks that wait for their instant with a worker in hand
	replies replies   // with instants

	mu     sync.Mutex
	shares map[string]*Share         // by key; without jobs.LimitBy there is one, of the empty key
	owed   map[string]bool           // keys of which there are places to be given back
	until  atomic.Pointer[time.Time] // local monotonic instant before which no place ends; nil: there are none
}

// Share holds the permits that the run has for a key.
type Share struct {
	limit   *Limit
	key     string
	stop    context.Context // of the run
	pace    *pace           // nil: a check may begin at any instant
	next    Semaphore       // checks that wait for a worker with their instant, or for that: half as many as can run
	holding Semaphore       // of the limit
	free    chan struct{}   // has something in it for each place that is free; nil: any number of checks may run
	has     int             // places; guarded by limit.mu, as are those below
	users   int             // claims
	asked   time.Time
}

// Holding is the shares that a claim uses.
type Holding map[*Share]bool

// perHolder is how many of the checks of a second one has that waits for its instant with a worker in hand: so it waits
// for 20 ms, but where fewer than 50 are allowed.
const perHolder = 50

// leaveTime bounds the statement that gives places back.
const leaveTime = 5 * time.Second

// askAgain is how soon a run asks again for places that it did not get.
const askAgain = 100 * time.Millisecond

// NewLimit returns a limit of a run, which has no places yet.
func NewLimit(run Run, rule Rule) *Limit {
	return &Limit{
		run: run, rule: rule, shares: map[string]*Share{}, owed: map[string]bool{},
		holding: make(Semaphore, max(1, rule.PerSecond/perHolder)),
	}
}

// maxKey is how long a key may be as it is, in bytes: it is in an index.
const maxKey = 500

// Key returns the key that the database knows a limit's key by. One that the database cannot store, such as a text that
// was cut within a character, is known by its hash.
func Key(key string) string {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	}
	return key
}

// Obtain returns the shares of keys for a claim, which uses them until Leave: with places for so many checks of each
// key, as far as the run can use them and there are any. A key without a place is not among them.
func (l *Limit) Obtain(ctx context.Context, of Holding, checks map[string]int) (map[string]*Share, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys pq.StringArray
	var wanted pq.Int64Array
	for key, n := range checks {
		if l.shares[key] == nil {
			l.shares[key] = l.share(key)
		}
		s := l.shares[key]
		if want := min(n, l.rule.Places, l.rule.AtMost); s.has < want && time.Since(s.asked) > askAgain {
			keys, wanted = append(keys, key), append(wanted, int64(want))
			s.asked = elapsed.Now()
		}
	}
	if len(keys) > 0 {
		if err := l.take(ctx, keys, wanted); err != nil {
			return nil, err
		}
	}
	shares := map[string]*Share{}
	for key := range checks {
		s := l.shares[key]
		if s.has == 0 && l.rule.AtMost > 0 {
			continue
		}
		shares[key] = s
		if !of[s] {
			s.users++
			of[s] = true
		}
	}
	return shares, nil
}

// share returns a share that has no places yet.
func (l *Limit) share(key string) *Share {
	s := &Share{limit: l, key: key, stop: l.run.Stop, next: make(Semaphore, (l.rule.Places+1)/2), holding: l.holding}
	if l.rule.AtMost > 0 {
		s.free = make(chan struct{}, l.rule.AtMost)
	}
	if l.rule.PerSecond > 0 {
		s.pace = newPace(l.run, l.rule, key, &l.replies)
	}
	return s
}

// take asks for places. While another session has the lock of them, there are none. Call it with mu held.
func (l *Limit) take(ctx context.Context, keys pq.StringArray, wanted pq.Int64Array) error {
	var m pgsql.Message
	var asked time.Time
	got := map[string]int{}
	m.Do(l.run.WaitForLocks(server.LockTimeout)) // the jobs of other lanes do not wait for this one
	args := []any{l.rule.Job, keys, wanted, l.rule.AtMost, l.run.Token, l.run.Lease.Microseconds()}
	m.Add(pgsql.LimitTake.In(l.run.Schema), args, func(row *sql.Rows) error {
		var key string
		var places int
		err := row.Scan(&key, &places)
		got[key] = places
		return err
	})
	passes := func(err error) bool { return server.Passes(err) && !pgsql.IsLockTimeout(err) }
	err := l.run.Retry(ctx, passes, func() error {
		asked = elapsed.Now() // before the statement: the places cannot end earlier
		return l.run.Commit(l.run.Work, &m)
	})
	locked := pgsql.IsLockTimeout(err)
	if l.run.Tried != nil && (err == nil || locked) {
		l.run.Tried(fmt.Sprint("prescient.places ", l.rule.Job), !locked)
	}
	if locked {
		return nil
	}
	for key, places := range got {
		for s := l.shares[key]; s.has < places; s.has++ {
			s.free <- struct{}{}
		}
	}
	if len(got) > 0 {
		l.until.CompareAndSwap(nil, new(asked.Add(l.run.Lease)))
	}
	if err != nil {
		return fmt.Errorf("take places of job %s, see AtMost: %w", l.rule.Name, err)
	}
	return nil
}

// Renewed notes that the places were renewed by a heartbeat that was sent at an instant.
func (l *Limit) Renewed(asked time.Time) {
	if until := l.until.Load(); until != nil {
		l.until.CompareAndSwap(until, new(asked.Add(l.run.Lease)))
	}
}

// EndsBefore tells whether places may end before an instant.
func (l *Limit) EndsBefore(at time.Time) bool {
	until := l.until.Load()
	return until != nil && until.Before(at)
}

// Leave gives back the places that only this claim has used.
func (l *Limit) Leave(of Holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range of {
		if s.limit != l {
			continue
		}
		delete(of, s)
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
	ctx, cancel := context.WithTimeout(l.run.Work, leaveTime)
	defer cancel()
	l.giveBack(ctx)
}

// Tidy gives back what could not be given back before: a heartbeat renews the run's places of any key.
func (l *Limit) Tidy(ctx context.Context) {
	if l.mu.TryLock() { // it may be held for as long as the database does not answer
		defer l.mu.Unlock()
		l.giveBack(ctx)
	}
}

// giveBack gives back the places that no claim uses. Call it with mu held.
func (l *Limit) giveBack(ctx context.Context) {
	var keys pq.StringArray
	for key := range l.owed {
		if s := l.shares[key]; s == nil || s.has == 0 { // else they are used again
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		var m pgsql.Message
		m.Add(pgsql.LimitLeave.In(l.run.Schema), []any{l.run.Token, l.rule.Job, keys}, server.Nothing)
		if err := l.run.Commit(ctx, &m); err != nil {
			l.run.Logger.WarnContext(ctx, "places were not given back; others can have them after the next heartbeat, or when the lease ends", "job", l.rule.Name, "error", err)
			return
		}
	}
	clear(l.owed)
}

// enter waits for a place, where there are so many; leave gives it back.
func (s *Share) enter(ctx context.Context) bool {
	if s.free == nil {
		return true
	}
	select {
	case <-s.free:
		return true
	case <-s.stop.Done():
	case <-ctx.Done():
	}
	return false
}

func (s *Share) leave() {
	if s.free != nil {
		s.free <- struct{}{}
	}
}
