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

// Run describes the run that permits are for.
type Run struct {
	*server.Server
	Token int64                   // of the run, under which it holds permits
	Stop  context.Context         // ends when nothing more may be started
	Halt  context.CancelCauseFunc // ends Stop, for an error of the database
	Work  context.Context         // of statements
	// Tried is called after an attempt to lock the places of a job, with the lock's name. got is false
	// if another session has the lock. Optional.
	Tried func(lock string, got bool)
}

// Rule bounds the checks of a job in all runs together.
type Rule struct {
	Job       int64  // its number
	Name      string // of the job, for the log
	AtMost    int    // checks at once; 0: any number
	PerSecond int    // checks a second; 0: any number
	Places    int    // checks of the job that this run can do at once
}

// Limit applies the Rule of a job to this run; see jobs.AtMost and jobs.PerSecond. Its places are good
// while its leases are, and go back to the other runs when no claim uses them.
type Limit struct {
	run  Run
	rule Rule

	holding Semaphore // checks that hold a worker while they wait for their instant
	replies replies   // with instants

	mu     sync.Mutex
	shares map[string]*Share         // by key; without jobs.LimitBy only that of the empty key
	owed   map[string]bool           // keys with places to give back
	until  atomic.Pointer[time.Time] // local monotonic instant until which all places last; nil: it has none
}

// Share holds the permits that the run has for a key.
type Share struct {
	limit   *Limit
	key     string
	stop    context.Context // of the run
	pace    *pace           // nil: a check may begin at any instant
	next    Semaphore       // checks that wait for an instant and then a worker: half as many as can run
	holding Semaphore       // of the limit
	free    chan struct{}   // holds a value for each free place; nil: any number of checks may run
	has     int             // places; limit.mu guards this field and those below
	users   int             // claims
	asked   time.Time
}

// Holding has the shares that a claim uses.
type Holding map[*Share]bool

// perHolder divides PerSecond into the number of checks that may hold a worker while they wait for
// their instant. So such a check waits for 20 ms, and longer only if fewer than 50 a second are allowed.
const perHolder = 50

// leaveTime bounds the time of the statement that gives places back.
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

// maxKey is the length in bytes up to which a key is used as it is, because an index has it.
const maxKey = 500

// Key returns the key by which the database knows a limit's key: its hash if the database cannot store
// it, for example a text that was cut within a character.
func Key(key string) string {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	}
	return key
}

// Obtain returns the shares of keys for a claim, which uses them until Leave. checks are the checks of
// each key. A share has places for them, as far as the run can use them and the database has free ones.
// A key without a place has no share.
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

// share returns a new share without places.
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

// take asks for places. It gets none while another session has their lock. Call it with mu held.
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

// Renewed notes that a heartbeat, which was sent at an instant, has renewed the places.
func (l *Limit) Renewed(asked time.Time) {
	if until := l.until.Load(); until != nil {
		l.until.CompareAndSwap(until, new(asked.Add(l.run.Lease)))
	}
}

// EndsBefore reports whether places may end before an instant.
func (l *Limit) EndsBefore(at time.Time) bool {
	until := l.until.Load()
	return until != nil && until.Before(at)
}

// Leave gives back the places that only this claim uses.
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

// Tidy gives back the places that Leave could not give back, because a heartbeat renews all places of
// the run.
func (l *Limit) Tidy(ctx context.Context) {
	if l.mu.TryLock() { // otherwise it may wait until the database answers
		defer l.mu.Unlock()
		l.giveBack(ctx)
	}
}

// giveBack gives back the places that no claim uses. Call it with mu held.
func (l *Limit) giveBack(ctx context.Context) {
	var keys pq.StringArray
	for key := range l.owed {
		if s := l.shares[key]; s == nil || s.has == 0 { // otherwise a claim uses them again
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		var m pgsql.Message
		m.Add(pgsql.LimitLeave.In(l.run.Schema), []any{l.run.Token, l.rule.Job, keys}, server.Nothing)
		if err := l.run.Commit(ctx, &m); err != nil {
			l.run.Logger.WarnContext(ctx,
				"places were not given back; other runs get them after the next heartbeat, or when the lease ends",
				"job", l.rule.Name, "error", err)
			return
		}
	}
	clear(l.owed)
}

// enter waits for a place, if their number is limited; leave gives it back.
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
