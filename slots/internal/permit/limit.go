package permit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
)

// Options describes the run that permits are for.
type Options struct {
	*db.Server
	*phase.Contexts
	Token  int64        // of the run, under which it holds permits
	Locks  *db.Advisory // for the locks of permits
	Inside *Inside
}

// Rule bounds the checks of a job in all runs together.
type Rule struct {
	Job       int64  // its number
	Name      string // of the job, for the log
	AtMost    int    // checks at once; 0: any number
	PerSecond int    // checks a second; 0: any number
	AtOnce    int    // checks of the job that this run can do at once
}

// Limit applies the Rule of a job to this run; see jobs.AtMost and jobs.PerSecond. Its permits go back to the other
// runs when no claim uses them.
type Limit struct {
	opts Options
	rule Rule

	inside  Semaphore  // checks that occupy a worker while they wait for their instant
	replies replies    // with instants
	asking  sync.Mutex // held by Obtain and Release, also while the database is asked

	mu      sync.Mutex
	buckets map[string]*Bucket // by key; without jobs.LimitBy only that of the empty key
	until   time.Time          // local monotonic instant until which all permits last; zero: it has none
}

// Bucket has the permits of a run for a key.
type Bucket struct {
	limit   *Limit
	key     string
	pace    *pace         // nil: a check may begin at any instant
	outside Semaphore     // checks that wait for an instant and then a worker: half as many as can run
	inside  Semaphore     // of the limit
	free    chan struct{} // holds a value for each free permit; nil: any number of checks may run

	// limit.mu guards these fields.
	has   int           // permits; 0 while claims use the bucket: the permits are lost
	users map[*Set]bool // claims
	until time.Time     // local monotonic instant until which the permits last
	asked time.Time
}

// Set has the buckets that a claim uses. The goroutine that works on the claim changes it.
type Set struct {
	buckets map[*Bucket]bool
	lost    atomic.Bool // permits of one of them were lost
}

// NewSet returns a Set without buckets.
func NewSet() *Set { return &Set{buckets: map[*Bucket]bool{}} }

// EndsBefore reports whether permits of the claim are lost, whatever the instant. It implements claim.Requirement.
func (s *Set) EndsBefore(time.Time) bool { return s.lost.Load() }

// perInside divides PerSecond into the number of checks that may occupy a worker while they wait for
// their instant. So such a check waits for 20 ms, and longer only if fewer than 50 a second are allowed.
const perInside = 50

// Inside bounds the checks of each job that occupy a worker while they wait for their instant. Runs that share workers
// share it. The zero value is ready to use, concurrently too.
type Inside struct{ ofJobs sync.Map } // Semaphore by number

// of returns the semaphore of a job.
func (i *Inside) of(rule Rule) Semaphore {
	s, _ := i.ofJobs.LoadOrStore(rule.Job, make(Semaphore, max(1, rule.PerSecond/perInside)))
	return s.(Semaphore)
}

// releaseTimeout bounds the time of the statement that gives permits back.
const releaseTimeout = 5 * time.Second

// askAgain is how soon a run asks again for permits that it did not get.
const askAgain = 100 * time.Millisecond

// NewLimit returns a limit of a run, which has no permits yet.
func NewLimit(o Options, rule Rule) *Limit {
	return &Limit{
		opts: o, rule: rule, buckets: map[string]*Bucket{}, inside: o.Inside.of(rule),
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

// Obtain returns the buckets of keys for a claim, which uses them until Release. checks are the checks of
// each key. A bucket has permits for them, as far as the run can use them and the database has free ones.
// A key without a permit has no bucket.
func (l *Limit) Obtain(ctx context.Context, set *Set, checks map[string]int) (map[string]*Bucket, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.forget()
	if wanted := l.missing(checks); len(wanted) > 0 {
		if err := l.acquire(ctx, wanted); err != nil {
			return nil, err
		}
	}
	return l.use(set, checks), nil
}

// forget drops the buckets of keys that had no permit when the run last asked: it may ask again by now.
func (l *Limit) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.buckets, func(_ string, b *Bucket) bool {
		return b.has == 0 && len(b.users) == 0 && time.Since(b.asked) > askAgain
	})
}

// missing returns how many permits to ask for, for which buckets. A bucket whose permits were lost
// gets no others before the claims that use it have ended.
func (l *Limit) missing(checks map[string]int) map[*Bucket]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := map[*Bucket]int{}
	for key, n := range checks {
		if l.buckets[key] == nil {
			l.buckets[key] = l.bucket(key)
		}
		b, want := l.buckets[key], min(n, l.rule.AtOnce, l.rule.AtMost)
		if b.has < want && !b.isLost() && time.Since(b.asked) > askAgain {
			b.asked = elapsed.Now()
			wanted[b] = want
		}
	}
	return wanted
}

// use returns the buckets of keys that the claim can use, and notes that it uses them.
func (l *Limit) use(set *Set, checks map[string]int) map[string]*Bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	buckets := map[string]*Bucket{}
	for key := range checks {
		if b := l.buckets[key]; b.has > 0 || l.rule.AtMost == 0 {
			buckets[key] = b
			b.users[set], set.buckets[b] = true, true
		}
	}
	return buckets
}

// bucket returns a new bucket without permits.
func (l *Limit) bucket(key string) *Bucket {
	b := &Bucket{
		limit: l, key: key, outside: make(Semaphore, (l.rule.AtOnce+1)/2), inside: l.inside,
		users: map[*Set]bool{},
	}
	if l.rule.AtMost > 0 {
		b.free = make(chan struct{}, l.rule.AtMost)
	}
	if l.rule.PerSecond > 0 {
		b.pace = newPace(l.opts, l.rule, key, &l.replies)
	}
	return b
}

// acquire asks for permits. It gets none while another session has their lock. Call it with asking held.
func (l *Limit) acquire(ctx context.Context, wanted map[*Bucket]int) error {
	var m pg.Message
	var asked time.Time
	var keys pq.StringArray
	var numbers pq.Int64Array
	for b, n := range wanted {
		keys, numbers = append(keys, b.key), append(numbers, int64(n))
	}
	got := map[string]int{}
	m.Do(l.opts.WaitForLocks(db.LockTimeout)) // the jobs of other lanes do not wait for this one
	args := []any{l.rule.Job, keys, numbers, l.rule.AtMost, l.opts.Token, l.opts.Lease.Microseconds()}
	m.Add(pg.LimitAcquire.In(l.opts.Schema), args, func(row *sql.Rows) error {
		var key string
		var n int
		err := row.Scan(&key, &n)
		got[key] = n
		return err
	})
	retryable := func(err error) bool { return db.Retryable(err) && !pg.IsLockTimeout(err) }
	err := l.opts.Retry(ctx, retryable, func() error {
		clear(got)
		asked = elapsed.Now() // before the statement: the permits cannot end earlier
		return l.opts.Commit(l.opts.Work, &m)
	})
	lock := fmt.Sprint(pg.Qualify(l.opts.Schema, "prescient.permits "), l.rule.Job) // as acquire_permits names it
	switch {
	case pg.IsLockTimeout(err):
		l.opts.Locks.Wait(l.opts.Work, lock, slog.String("permits_of", l.rule.Name))
		return nil
	case err != nil:
		return fmt.Errorf("acquire permits of job %s, see AtMost: %w", l.rule.Name, err)
	}
	l.opts.Locks.Got(lock)
	l.update(asked, wanted, got)
	return nil
}

// Renew renews the permits with a heartbeat. It implements claim.Renewer.
func (l *Limit) Renew(m *pg.Message) (renewed func(asked time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	buckets, kept := maps.Clone(l.buckets), map[string]bool{}
	maps.DeleteFunc(buckets, func(_ string, b *Bucket) bool { return b.has == 0 })
	if len(buckets) > 0 {
		keys := pq.StringArray(slices.Collect(maps.Keys(buckets)))
		args := []any{l.opts.Token, l.rule.Job, keys, l.opts.Lease.Microseconds()}
		m.Add(pg.LimitRenew.In(l.opts.Schema), args, func(row *sql.Rows) error {
			var key string
			err := row.Scan(&key)
			kept[key] = true
			return err
		})
	}
	return func(asked time.Time) { l.renewed(asked, buckets, kept) }
}

// renewed notes which buckets still had their permits in a heartbeat that was sent at an instant.
func (l *Limit) renewed(asked time.Time, buckets map[string]*Bucket, kept map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []*Bucket
	for key, b := range buckets {
		switch {
		case kept[key]:
			b.until = asked.Add(l.opts.Lease)
		case l.buckets[key] == b: // otherwise it was given back meanwhile
			lost = append(lost, b)
		}
	}
	l.lose(lost)
}

// update gives buckets the permits that the run has got, by asking for them at an instant. If a bucket gets fewer than
// it had, those are lost. A heartbeat may have found meanwhile that they are.
func (l *Limit) update(asked time.Time, wanted map[*Bucket]int, got map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []*Bucket
	for b := range wanted {
		switch n := got[b.key]; {
		case n < b.has, b.isLost():
			lost = append(lost, b)
		case n > 0:
			b.until = asked.Add(l.opts.Lease)
			for ; b.has < n; b.has++ {
				b.free <- struct{}{}
			}
		}
	}
	l.lose(lost)
}

// lose ends the claims that use buckets whose permits are lost. Call it with mu held.
func (l *Limit) lose(buckets []*Bucket) {
	for _, b := range buckets {
		b.has = 0
		for set := range b.users {
			set.lost.Store(true)
		}
	}
	if len(buckets) > 0 {
		l.opts.Logger.WarnContext(l.opts.Work, "permits are lost: other runs may have them, so the checks that need them end",
			"job", l.rule.Name, "keys", len(buckets))
	}
	l.findUntil()
}

// findUntil finds the instant until which all permits last. Call it with mu held, after any change.
func (l *Limit) findUntil() {
	l.until = time.Time{}
	for _, b := range l.buckets {
		if b.has > 0 && (l.until.IsZero() || b.until.Before(l.until)) {
			l.until = b.until
		}
	}
}

// EndsBefore reports whether permits may end before an instant.
func (l *Limit) EndsBefore(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.until.IsZero() && l.until.Before(at)
}

// Release gives back the permits that only this claim uses. Heartbeats no longer renew them.
func (l *Limit) Release(set *Set) {
	if len(set.buckets) == 0 {
		return
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	keys := l.release(set)
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.opts.Work, releaseTimeout)
	defer cancel()
	var m pg.Message
	m.Add(pg.LimitRelease.In(l.opts.Schema), []any{l.opts.Token, l.rule.Job, keys}, db.Nothing)
	if err := l.opts.Commit(ctx, &m); err != nil {
		l.opts.Logger.WarnContext(ctx, "permits were not given back; other runs get them when they expire",
			"job", l.rule.Name, "error", err)
	}
}

// release ends the use of buckets by a claim, and returns the keys whose permits no claim uses.
func (l *Limit) release(set *Set) (keys pq.StringArray) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range set.buckets {
		if b.limit != l {
			continue
		}
		delete(set.buckets, b)
		delete(b.users, set)
		if len(b.users) > 0 {
			continue
		}
		delete(l.buckets, b.key)
		if b.has > 0 {
			keys = append(keys, b.key)
		}
	}
	l.findUntil()
	return keys
}

// isLost reports whether claims use permits of the bucket that are lost. Call it with limit.mu held.
func (b *Bucket) isLost() bool { return b.has == 0 && len(b.users) > 0 }

// acquire waits for a permit, if their number is limited; release gives it back.
func (b *Bucket) acquire(ctx context.Context) bool {
	if b.free == nil {
		return true
	}
	select {
	case <-b.free:
		return true
	case <-b.limit.opts.Stop.Done():
	case <-ctx.Done():
	}
	return false
}

func (b *Bucket) release() {
	if b.free != nil {
		b.free <- struct{}{}
	}
}
