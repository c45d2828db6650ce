package board

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/web"
)

const (
	// rate is the default of the statements a second that all reads together send to the database.
	rate = 2
	// burst is how many more statements they may send at once after a pause, such as for pages that
	// were not read lately.
	burst = 40
	// assumed is the cost in statements of a read until it has ended the first time.
	assumed = 5
	// debt bounds how far the budget goes below zero, whatever reads have cost: 20 seconds of it.
	debt = 40
	// nap bounds the sleep of a reader between two checks for its turn.
	nap = 500 * time.Millisecond
	// maxEntries bounds the different reads that are kept.
	maxEntries = 100
	// maxBytes bounds their total size: one with the payloads of a page of checks has megabytes.
	maxBytes = 64 << 20
	// keepUnused is how long a value is kept after its last request.
	keepUnused = 5 * time.Minute
	// lookedAt is how long after its last request a value counts as in use.
	lookedAt = 15 * time.Second
	// staleWait bounds the wait for a newer value if the cached one is not too old.
	staleWait = 50 * time.Millisecond
	// tooOld is the age from which on a request always waits for a newer value.
	tooOld = time.Minute
	// readTimeout bounds a read.
	readTimeout = time.Minute
	// queueTimeout bounds the wait for permission to query the database.
	queueTimeout = 5 * time.Second
	// first is the key of the overview, which is read when it is due, ahead of the budget. So other
	// requests never make it stale.
	first = "overview"
)

// monotonic measures ages. It is never used as the time of day.
var monotonic = time.Now //nolint:forbidigo // measures

// cache keeps values that were read, and runs at most one read of each value at a time.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
	acted   int64   // the number of the last action
	rate    float64 // statements a second; default rate
	left    float64 // statements that may be sent now; below 0: a debt
	filled  time.Time
	turns   map[int]*turn // of tokens that wait or have waited
	served  int64         // how many reads have begun
	work    sync.WaitGroup
}

// turn is the place of a token among those whose readers wait for permission to query the database.
type turn struct {
	waiting int   // readers that wait
	served  int64 // the number of its last read; 0: none
}

// entry is the last value of a read.
type entry struct {
	value    any // nil: there is none
	err      error
	began    time.Time // when reading it began
	tried    time.Time // when it was last read, with or without success
	acted    int64     // the last action before that
	forced   int64     // the last action for which it was read despite the budget
	used     time.Time
	minAge   time.Duration
	cost     int           // statements that reading it took the last time
	size     int           // bytes of the value, about
	inflight chan struct{} // closed when the running read ends; nil: none runs
}

func newCache() *cache {
	return &cache{entries: map[string]*entry{}, turns: map[int]*turn{}, rate: rate, left: burst, filled: monotonic()}
}

// load reads a value, and returns the statements that it took.
type load func(ctx context.Context) (value any, statements int, err error)

// get returns a value that was read at most minAge ago. It returns an older one if the budget is
// spent, or if a newer one would take too long. It never returns a value from before the given
// action.
func (s *cache) get(
	ctx context.Context, key string, acted int64, minAge time.Duration, read load,
) (any, time.Duration, error) {
	deadline, token := monotonic().Add(queueTimeout), web.TokenOf(ctx)
	for {
		s.mu.Lock()
		e := s.entry(key)
		want := min(acted, s.acted)
		now := monotonic()
		value, age := e.value, now.Sub(e.began)
		have := value != nil && e.acted >= want
		e.minAge = minAge
		if have && age < minAge {
			s.mu.Unlock()
			return value, age, nil
		}
		if e.inflight == nil {
			forced := value != nil && max(e.acted, e.forced) < want // once for each action
			due := key == first && now.Sub(e.tried) >= minAge
			if left := s.budget(now); !forced && !due && (left <= 0 || !s.hasTurn(token) || left < burst/2 && have &&
				s.othersFirst(e, now)) {
				err := e.err
				wait := max(time.Duration((1-s.left)/s.rate*float64(time.Second)), nap/10)
				if err != nil || have {
					s.mu.Unlock()
					return value, age, err
				}
				if now.Add(wait).After(deadline) {
					s.mu.Unlock()
					return nil, 0, ErrBusy
				}
				if err := s.queue(ctx, token, min(wait, nap)); err != nil {
					return nil, 0, err
				}
				continue
			}
			if forced {
				e.forced = s.acted
			}
			s.served++
			s.turn(token).served = s.served
			s.begin(ctx, e, read)
		}
		inflight := e.inflight
		s.mu.Unlock()
		if have && age < tooOld {
			select {
			case <-inflight:
			case <-time.After(staleWait):
				return value, age, nil
			case <-ctx.Done():
				return nil, 0, context.Cause(ctx)
			}
		}
		select {
		case <-inflight:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
		s.mu.Lock()
		err := e.err
		fresh := err == nil && e.acted >= want
		value, age = e.value, monotonic().Sub(e.began)
		s.mu.Unlock()
		if err != nil {
			return nil, 0, err
		}
		if fresh {
			return value, age, nil
		}
	}
}

// hasTurn reports whether this token was served the longest ago of the tokens whose readers wait.
// Call it with mu held.
func (s *cache) hasTurn(token int) bool {
	own := s.turn(token).served
	for _, t := range s.turns {
		if t.waiting > 0 && t.served < own {
			return false
		}
	}
	return true
}

func (s *cache) turn(token int) *turn {
	if s.turns[token] == nil {
		s.turns[token] = &turn{}
	}
	return s.turns[token]
}

// queue sleeps while a reader waits for the turn of its token. Call it with mu held, which it
// releases.
func (s *cache) queue(ctx context.Context, token int, d time.Duration) error {
	t := s.turn(token)
	t.waiting++
	s.mu.Unlock()
	err := sleep(ctx, d)
	s.mu.Lock()
	t.waiting--
	s.mu.Unlock()
	return err
}

// getStale returns the last value without waiting, or nil if there is none. If that is older than
// minAge and the budget allows it, getStale starts a read.
func (s *cache) getStale(ctx context.Context, key string, minAge time.Duration, read load) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	now := monotonic()
	if e.inflight == nil && now.Sub(e.tried) >= minAge && s.budget(now) > 0 {
		s.begin(ctx, e, read)
	}
	return e.value
}

// glance returns the last value, nil if there is none, and its age. It reads a newer one if that is
// older than minAge, whatever the budget, and waits for it until ctx ends. silent is how long that read
// has waited by then; 0: it has ended. Returns the error of the last read that has ended.
func (s *cache) glance(
	ctx context.Context, key string, minAge time.Duration, read load,
) (value any, age, silent time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if now := monotonic(); e.inflight == nil && (e.value == nil || now.Sub(e.began) >= minAge) &&
		now.Sub(e.tried) >= minAge {
		s.begin(ctx, e, read)
	}
	if inflight := e.inflight; inflight != nil {
		s.mu.Unlock()
		select {
		case <-inflight:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	now := monotonic()
	if e.inflight != nil {
		silent = now.Sub(e.tried)
	}
	return e.value, now.Sub(e.began), silent, e.err
}

// begin reads in the background, so that the request may end earlier. Call it with mu held.
func (s *cache) begin(ctx context.Context, e *entry, read load) {
	inflight := make(chan struct{})
	cost := max(1, e.cost) // the last cost, as an estimate
	if e.tried.IsZero() {
		cost = assumed
	}
	e.inflight, e.tried = inflight, monotonic()
	began, acted := monotonic(), s.acted
	s.charge(cost)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	s.work.Go(func() {
		defer cancel()
		value, statements, err := safely(ctx, read)
		large := size(value)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.charge(max(1, statements) - cost)
		e.cost = statements
		if e.err = err; err == nil {
			e.value, e.began, e.acted, e.size = value, began, acted, large
		}
		e.inflight = nil
		s.evict(e)
		close(inflight)
	})
}

// safely turns a panic into an error. Outside a request, a panic would end the process.
func safely(ctx context.Context, read load) (value any, statements int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return read(ctx)
}

// evict removes the values with the oldest requests, but not a value that was just read, until at
// most maxBytes remain. Call it with mu held.
func (s *cache) evict(keep *entry) {
	all := 0
	for _, e := range s.entries {
		all += e.size
	}
	keys := slices.SortedFunc(maps.Keys(s.entries), func(a, b string) int {
		return s.entries[a].used.Compare(s.entries[b].used)
	})
	for _, key := range keys {
		if e := s.entries[key]; all > maxBytes && e != keep && e.inflight == nil && key != first {
			all -= e.size
			delete(s.entries, key)
		}
	}
}

// size returns the approximate bytes of a value, by its JSON.
func size(value any) int {
	var n counter
	_ = json.NewEncoder(&n).Encode(value) // after an error the bytes so far count
	return int(n)
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// entry returns the entry of a key, and removes entries without recent requests. Call it with mu
// held.
func (s *cache) entry(key string) *entry {
	now := monotonic()
	e := s.entries[key]
	if e == nil {
		var oldest string
		for key, e := range s.entries {
			switch {
			case e.inflight != nil || key == first: // the first would be due again at once
			case now.Sub(e.used) > keepUnused:
				delete(s.entries, key)
			case oldest == "" || e.used.Before(s.entries[oldest].used):
				oldest = key
			}
		}
		if len(s.entries) >= maxEntries {
			delete(s.entries, oldest)
		}
		e = &entry{}
		s.entries[key] = e
	}
	e.used = now
	return e
}

// othersFirst reports whether another value that is still requested has waited longer for its next
// read than e. Call it with mu held.
func (s *cache) othersFirst(e *entry, now time.Time) bool {
	for _, o := range s.entries {
		if o.value != nil && o.inflight == nil && o.began.Before(e.began) && now.Sub(o.began) > o.minAge &&
			now.Sub(o.used) < lookedAt {
			return true
		}
	}
	return false
}

// budget returns how many statements may be sent. Call it with mu held.
func (s *cache) budget(now time.Time) float64 {
	s.left = min(burst, s.left+s.rate*now.Sub(s.filled).Seconds())
	s.filled = now
	return s.left
}

// spend takes statements that were sent outside of get from the budget.
func (s *cache) spend(statements int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(statements)
}

// charge takes statements from the budget. Call it with mu held.
func (s *cache) charge(statements int) { s.left = max(s.left-float64(statements), -debt) }

// act returns the number of an action that was done. A read with this number shows its effect.
func (s *cache) act() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acted++
	return s.acted
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
