package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/prescient-go/prescient/internal/elapsed"
)

const (
	// statementsPerSecond bounds the statements of all reads together, on average. statementsAtOnce is
	// how many more they may send after a pause: 200 browsers that open 200 different pages send 1,000.
	statementsPerSecond = 100
	statementsAtOnce    = 1000
	// maxEntries bounds the different values that are kept, and maxBytes their total size: a page of
	// checks with payloads has megabytes.
	maxEntries = 250
	maxBytes   = 64 << 20
	// keepUnused is how long a value is kept after its last request.
	keepUnused = 5 * time.Minute
	// staleWait bounds the wait for a newer value if the kept one is not too old.
	staleWait = 50 * time.Millisecond
	// tooOld is the age from which on a request always waits for a newer value.
	tooOld = time.Minute
	// readTimeout bounds a read.
	readTimeout = time.Minute
	// queueTimeout bounds the wait of a read until the limit of statements allows it.
	queueTimeout = 9 * time.Second
	// first is the key of the overview, which does not wait for the limit, so other requests never make
	// it stale.
	first = "overview"
)

// cache keeps values that were read. It runs one read of a value at a time, which all its readers
// share. All reads together keep a limit of statements. It is safe for concurrent use.
type cache struct {
	limit  *rate.Limiter
	reads  singleflight.Group // by key and action
	acted  atomic.Int64       // the number of the last action
	work   sync.WaitGroup     // readers that wait for reads
	mu     sync.Mutex         // held for each change of an entry
	values *ttlcache.Cache[string, entry]
}

// entry is the value of the last read that has succeeded, and the state of later ones.
type entry struct {
	value   any           // nil: there is none
	began   time.Time     // when reading it began
	acted   int64         // the last action before that
	size    int           // bytes of the value, about
	tried   time.Time     // when the last read began
	took    time.Duration // how long the last read took
	running int           // reads
	err     error         // of the last read that has ended
}

func newCache() *cache {
	return &cache{
		limit: rate.NewLimiter(statementsPerSecond, statementsAtOnce),
		values: ttlcache.New(
			ttlcache.WithTTL[string, entry](keepUnused), ttlcache.WithCapacity[string, entry](maxEntries),
			ttlcache.WithMaxCost(maxBytes, func(i ttlcache.CostItem[string, entry]) uint64 { return uint64(i.Value.size) }),
		),
	}
}

// load reads a value.
type load func(ctx context.Context) (any, error)

// get returns a value that was read less than fresh ago. It returns an older one if a newer one would
// take too long, or would exceed the limit of statements. It never returns a value from before the
// given action. Returns ErrBusy if there is no value, and the limit allows no read in time.
func (c *cache) get(ctx context.Context, key string, acted int64, fresh time.Duration, read load) (entry, error) {
	e := c.entry(key)
	usable := e.value != nil && e.acted >= min(acted, c.acted.Load())
	if usable && e.age() < fresh {
		return e, nil
	}
	var enough <-chan time.Time
	if usable && e.age() < tooOld {
		enough = time.After(staleWait)
	}
	select {
	case got := <-c.read(ctx, key, read):
		switch {
		case got.err == nil:
			return got.entry, nil
		case usable && errors.Is(got.err, ErrBusy):
			return e, nil
		}
		return entry{}, got.err
	case <-enough:
		return e, nil
	case <-ctx.Done():
		return entry{}, context.Cause(ctx)
	}
}

// latest returns the last value. It starts a read, and waits for it a moment, if the last one began fresh ago. A slow
// read is repeated more rarely: 100 times as long after it as it took, at most oldest.
func (c *cache) latest(ctx context.Context, key string, fresh, oldest time.Duration, read load) any {
	e := c.entry(key)
	if e.running > 0 || time.Since(e.tried) < min(oldest, max(fresh, 100*e.took)) {
		return e.value
	}
	select {
	case <-c.read(ctx, key, read):
	case <-time.After(staleWait):
	case <-ctx.Done():
	}
	return c.entry(key).value
}

// glance returns the last value, with the state of its reads. It starts a read if the last one began
// fresh ago, and waits for the read that runs until ctx ends.
func (c *cache) glance(ctx context.Context, key string, fresh time.Duration, read load) entry {
	e := c.entry(key)
	if e.running == 0 && time.Since(e.tried) < fresh {
		return e
	}
	select {
	case <-c.read(ctx, key, read):
	case <-ctx.Done():
	}
	return c.entry(key)
}

// result is the result of a read.
type result struct {
	entry entry
	err   error
}

// read begins a read, or joins one that began after the last action. It goes on after the request, for
// other readers. The caller counts as work at once, so that Close waits for a read that is about to begin.
func (c *cache) read(ctx context.Context, key string, read load) <-chan result {
	acted := c.acted.Load()
	done := make(chan result, 1)
	c.work.Go(func() {
		e, err, _ := c.reads.Do(fmt.Sprint(acted, " ", key), func() (any, error) {
			return c.readNow(context.WithoutCancel(ctx), key, acted, read)
		})
		r := result{err: err}
		r.entry, _ = e.(entry)
		done <- r
	})
	return done
}

// readNow reads a value once the limit of statements allows it, and keeps it.
func (c *cache) readNow(ctx context.Context, key string, acted int64, read load) (entry, error) {
	if key != first && !c.admit(ctx) {
		return entry{}, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := elapsed.Now()
	c.change(key, func(e *entry) { e.tried, e.running = began, e.running+1 })
	value, err := safely(ctx, read)
	text, _ := json.Marshal(value) // only its length matters
	return c.change(key, func(e *entry) {
		e.running, e.took = max(0, e.running-1), time.Since(began) // the entry may be a new one
		if e.err = err; err == nil && !began.Before(e.began) {
			e.value, e.began, e.acted, e.size = value, began, acted, len(text)
		}
	}), err
}

// admit waits until the limit of statements allows a read. It returns false if that would take too
// long.
func (c *cache) admit(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	return c.limit.Wait(ctx) == nil
}

// safely turns a panic into an error. Outside a request, a panic would end the process.
func safely(ctx context.Context, read load) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return read(ctx)
}

// entry returns the entry of a key. A key without an entry has the zero value.
func (c *cache) entry(key string) (e entry) {
	if item := c.values.Get(key); item != nil {
		e = item.Value()
	}
	return e
}

// change changes the entry of a key, and returns it.
func (c *cache) change(key string, fn func(e *entry)) entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values.DeleteExpired()
	e := c.entry(key)
	fn(&e)
	c.values.Set(key, e, ttlcache.DefaultTTL)
	return e
}

func (e entry) age() time.Duration { return time.Since(e.began) }

// act returns the number of an action that was done. A read with this number shows its effect.
func (c *cache) act() int64 { return c.acted.Add(1) }
