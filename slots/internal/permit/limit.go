package permit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"maps"
	"slices"
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

// Limit applies the Rule of a job to this run; see jobs.AtMost and jobs.PerSecond. Its permits go back to the other
// runs when no claim uses them.
type Limit struct {
	run  Run
	rule Rule

	holding Semaphore  // checks that hold a worker while they wait for their instant
	replies replies    // with instants
	asking  sync.Mutex // held by Obtain and Leave, also while the database is asked

	mu     sync.Mutex
	shares map[string]*Share // by key; without jobs.LimitBy only that of the empty key
	until  time.Time         // local monotonic instant until which all permits last; zero: it has none
}

// Share holds the permits that the run has for a key.
type Share struct {
	limit   *Limit
	key     string
	stop    context.Context // of the run
	pace    *pace           // nil: a check may begin at any instant
	next    Semaphore       // checks that wait for an instant and then a worker: half as many as can run
	holding Semaphore       // of the limit
	free    chan struct{}   // holds a value for each free permit; nil: any number of checks may run

	// limit.mu guards these fields.
	has   int               // permits; 0 while claims use the share: the permits are lost
	users map[*Holding]bool // claims
	until time.Time         // local monotonic instant until which the permits last
	asked time.Time
}

// Holding has the shares that a claim uses. The goroutine that works on the claim changes it.
type Holding struct {
	shares map[*Share]bool
	lost   atomic.Bool // permits of one of them were lost
}

// NewHolding returns a Holding without shares.
func NewHolding() *Holding { return &Holding{shares: map[*Share]bool{}} }

// EndsBefore reports whether permits that the claim needs are lost, whatever the instant. It implements lease.Right.
func (h *Holding) EndsBefore(time.Time) bool { return h.lost.Load() }

// perHolder divides PerSecond into the number of checks that may hold a worker while they wait for
// their instant. So such a check waits for 20 ms, and longer only if fewer than 50 a second are allowed.
const perHolder = 50

// leaveTime bounds the time of the statement that gives permits back.
const leaveTime = 5 * time.Second

// askAgain is how soon a run asks again for permits that it did not get.
const askAgain = 100 * time.Millisecond

// NewLimit returns a limit of a run, which has no permits yet.
func NewLimit(run Run, rule Rule) *Limit {
	return &Limit{
		run: run, rule: rule, shares: map[string]*Share{}, holding: make(Semaphore, max(1, rule.PerSecond/perHolder)),
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
// each key. A share has permits for them, as far as the run can use them and the database has free ones.
// A key without a permit has no share.
func (l *Limit) Obtain(ctx context.Context, of *Holding, checks map[string]int) (map[string]*Share, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if wanted := l.missing(checks); len(wanted) > 0 {
		if err := l.take(ctx, wanted); err != nil {
			return nil, err
		}
	}
	return l.use(of, checks), nil
}

// missing returns how many permits to ask for, for which shares. A share whose permits were lost gets no others before
// the claims that use it have ended.
func (l *Limit) missing(checks map[string]int) map[*Share]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := map[*Share]int{}
	for key, n := range checks {
		if l.shares[key] == nil {
			l.shares[key] = l.share(key)
		}
		s, want := l.shares[key], min(n, l.rule.Places, l.rule.AtMost)
		if isLost := s.has == 0 && len(s.users) > 0; s.has < want && !isLost && time.Since(s.asked) > askAgain {
			s.asked = elapsed.Now()
			wanted[s] = want
		}
	}
	return wanted
}

// use returns the shares of keys that the claim can use, and notes that it uses them.
func (l *Limit) use(of *Holding, checks map[string]int) map[string]*Share {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := map[string]*Share{}
	for key := range checks {
		if s := l.shares[key]; s.has > 0 || l.rule.AtMost == 0 {
			shares[key] = s
			s.users[of], of.shares[s] = true, true
		}
	}
	return shares
}

// share returns a new share without permits.
func (l *Limit) share(key string) *Share {
	s := &Share{
		limit: l, key: key, stop: l.run.Stop, next: make(Semaphore, (l.rule.Places+1)/2), holding: l.holding,
		users: map[*Holding]bool{},
	}
	if l.rule.AtMost > 0 {
		s.free = make(chan struct{}, l.rule.AtMost)
	}
	if l.rule.PerSecond > 0 {
		s.pace = newPace(l.run, l.rule, key, &l.replies)
	}
	return s
}

// take asks for permits. It gets none while another session has their lock. Call it with asking held.
func (l *Limit) take(ctx context.Context, wanted map[*Share]int) error {
	var m pgsql.Message
	var asked time.Time
	var keys pq.StringArray
	var numbers pq.Int64Array
	for s, n := range wanted {
		keys, numbers = append(keys, s.key), append(numbers, int64(n))
	}
	got := map[string]int{}
	m.Do(l.run.WaitForLocks(server.LockTimeout)) // the jobs of other lanes do not wait for this one
	args := []any{l.rule.Job, keys, numbers, l.rule.AtMost, l.run.Token, l.run.Lease.Microseconds()}
	m.Add(pgsql.LimitTake.In(l.run.Schema), args, func(row *sql.Rows) error {
		var key string
		var n int
		err := row.Scan(&key, &n)
		got[key] = n
		return err
	})
	passes := func(err error) bool { return server.Passes(err) && !pgsql.IsLockTimeout(err) }
	err := l.run.Retry(ctx, passes, func() error {
		clear(got)
		asked = elapsed.Now() // before the statement: the permits cannot end earlier
		return l.run.Commit(l.run.Work, &m)
	})
	locked := pgsql.IsLockTimeout(err)
	if l.run.Tried != nil && (err == nil || locked) {
		l.run.Tried(fmt.Sprint("prescient.places ", l.rule.Job), !locked)
	}
	switch {
	case locked:
		return nil
	case err != nil:
		return fmt.Errorf("take permits of job %s, see AtMost: %w", l.rule.Name, err)
	}
	l.took(asked, wanted, got)
	return nil
}

// Renew renews the permits with a heartbeat. It implements lease.Companion.
func (l *Limit) Renew(m *pgsql.Message) (renewed func(asked time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares, kept := maps.Clone(l.shares), map[string]bool{}
	maps.DeleteFunc(shares, func(_ string, s *Share) bool { return s.has == 0 })
	if len(shares) > 0 {
		args := []any{l.run.Token, l.rule.Job, pq.StringArray(slices.Collect(maps.Keys(shares))), l.run.Lease.Microseconds()}
		m.Add(pgsql.LimitRenew.In(l.run.Schema), args, func(row *sql.Rows) error {
			var key string
			err := row.Scan(&key)
			kept[key] = true
			return err
		})
	}
	return func(asked time.Time) { l.renewed(asked, shares, kept) }
}

// renewed notes which shares still had their permits in a heartbeat that was sent at an instant.
func (l *Limit) renewed(asked time.Time, shares map[string]*Share, kept map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []*Share
	for key, s := range shares {
		switch {
		case kept[key]:
			s.until = asked.Add(l.run.Lease)
		case l.shares[key] == s: // otherwise it was given back meanwhile
			lost = append(lost, s)
		}
	}
	l.lose(lost)
}

// took notes what came of asking for permits at an instant. Fewer than a share had mean that those were lost.
func (l *Limit) took(asked time.Time, wanted map[*Share]int, got map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []*Share
	for s := range wanted {
		switch n := got[s.key]; {
		case n < s.has:
			lost = append(lost, s)
		case n > 0:
			s.until = asked.Add(l.run.Lease)
			for ; s.has < n; s.has++ {
				s.free <- struct{}{}
			}
		}
	}
	l.lose(lost)
}

// lose ends the claims that use shares whose permits are lost. Call it with mu held.
func (l *Limit) lose(shares []*Share) {
	for _, s := range shares {
		s.has = 0
		for of := range s.users {
			of.lost.Store(true)
		}
	}
	if len(shares) > 0 {
		l.run.Logger.WarnContext(l.run.Work, "permits are lost: other runs may have them, so the checks that need them end",
			"job", l.rule.Name, "keys", len(shares))
	}
	l.findUntil()
}

// findUntil finds the instant until which all permits last. Call it with mu held, after any change.
func (l *Limit) findUntil() {
	l.until = time.Time{}
	for _, s := range l.shares {
		if s.has > 0 && (l.until.IsZero() || s.until.Before(l.until)) {
			l.until = s.until
		}
	}
}

// EndsBefore reports whether permits may end before an instant.
func (l *Limit) EndsBefore(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.until.IsZero() && l.until.Before(at)
}

// Leave gives back the permits that only this claim uses. Heartbeats no longer renew them.
func (l *Limit) Leave(of *Holding) {
	if len(of.shares) == 0 {
		return
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	keys := l.release(of)
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.run.Work, leaveTime)
	defer cancel()
	var m pgsql.Message
	m.Add(pgsql.LimitLeave.In(l.run.Schema), []any{l.run.Token, l.rule.Job, keys}, server.Nothing)
	if err := l.run.Commit(ctx, &m); err != nil {
		l.run.Logger.WarnContext(ctx, "permits were not given back; other runs get them when they expire",
			"job", l.rule.Name, "error", err)
	}
}

// release ends the use of shares by a claim, and returns the keys whose permits no claim uses.
func (l *Limit) release(of *Holding) (keys pq.StringArray) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range of.shares {
		if s.limit != l {
			continue
		}
		delete(of.shares, s)
		delete(s.users, of)
		if len(s.users) > 0 {
			continue
		}
		delete(l.shares, s.key)
		if s.has > 0 {
			keys = append(keys, s.key)
		}
	}
	l.findUntil()
	return keys
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
