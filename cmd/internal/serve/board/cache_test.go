package board

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

const page = 4 * time.Second

// counting is a read that takes some time and statements, and returns how often it was called.
type counting struct {
	calls      atomic.Int64
	statements int
	takes      time.Duration
	err        error
	limit      *rate.Limiter
}

func (c *counting) read(ctx context.Context) (any, error) {
	n := c.calls.Add(1)
	for range c.statements {
		c.limit.Reserve()
	}
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return n, c.err
}

// get returns the value of a key.
func (c *cache) value(ctx context.Context, key string, acted int64, fresh time.Duration, read load) (any, error) {
	e, err := c.get(ctx, key, acted, fresh, read)
	return e.value, err
}

// setupCache returns a cache, and a read that spends its limit.
func setupCache(c *counting) (*cache, *counting) {
	s := newCache()
	c.limit = s.limit
	return s, c
}

func TestConcurrentReadersShareOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 5, takes: time.Second})
		var work sync.WaitGroup
		for range 1000 {
			work.Go(func() {
				if v, err := s.value(t.Context(), "page", 0, time.Minute, c.read); v != int64(1) || err != nil {
					t.Errorf("%v, %v", v, err)
				}
			})
		}
		work.Wait()
		if n := c.calls.Load(); n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestValuesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCache()
		large := func(context.Context) (any, error) { return strings.Repeat("x", maxBytes/8), nil }
		for i := range 20 {
			for _, key := range []string{first, fmt.Sprint(i)} {
				if _, err := s.get(t.Context(), key, 0, time.Hour, large); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		all := 0
		for _, item := range s.values.Items() {
			all += item.Value().size
		}
		if all > maxBytes || all < maxBytes/2 || s.entry(first).value == nil ||
			s.entry("19").value == nil || s.entry("0").value != nil {
			t.Errorf("%d bytes are kept, in %d entries", all, s.values.Len())
		}
	})
}

// Each of 200 browsers opens a page of its own. All look at their pages, and at ten common ones, for
// ten minutes.
func TestTwoHundredBrowsersGetEachPageAndKeepTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 5, takes: 20 * time.Millisecond})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var work sync.WaitGroup
		for browser := range 200 {
			work.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					key := fmt.Sprint("own page ", browser)
					if i%2 == 1 {
						key = fmt.Sprint("page ", rand.IntN(10))
					}
					e, err := s.get(ctx, key, 0, page, c.read)
					if ctx.Err() == nil && (err != nil || e.age() > 2*tooOld) {
						t.Errorf("%s: %v old, %v", key, e.age(), err)
					}
					_ = sleep(ctx, time.Second)
				}
			})
		}
		work.Wait()
		s.work.Wait()
		if n, most := c.calls.Load()*5, int64(statementsAtOnce+statementsPerSecond*610); n > most {
			t.Errorf("%d statements in ten minutes, want at most %d", n, most)
		}
	})
}

// One token asks for a new page from 50 connections at once, all the time. The other one asks for one
// page after the other.
func TestATokenThatAsksForMuchDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 4, takes: 20 * time.Millisecond})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var work sync.WaitGroup
		var pages, modest atomic.Int64
		ask := func() error {
			_, err := s.get(ctx, fmt.Sprint("page ", pages.Add(1)), 0, time.Minute, c.read)
			return err
		}
		for range 50 {
			work.Go(func() {
				for ctx.Err() == nil {
					if ask() != nil {
						_ = sleep(ctx, 10*time.Millisecond)
					}
				}
			})
		}
		work.Go(func() {
			for ctx.Err() == nil {
				if err := ask(); err == nil {
					modest.Add(1)
				} else if ctx.Err() == nil {
					t.Error(err)
				}
				_ = sleep(ctx, time.Second)
			}
		})
		work.Wait()
		s.work.Wait()
		if modest.Load() < 100 {
			t.Errorf("%d pages in ten minutes", modest.Load())
		}
	})
}

func TestAReadBeyondTheLimitIsRefusedAndLaterAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 3 * statementsAtOnce})
		if _, err := s.get(t.Context(), "large", 0, time.Minute, c.read); err != nil {
			t.Fatal(err)
		}
		if _, err := s.get(t.Context(), "later", 0, time.Minute, c.read); !errors.Is(err, ErrBusy) {
			t.Errorf("%v, want %v", err, ErrBusy)
		}
		time.Sleep(2 * statementsAtOnce / statementsPerSecond * time.Second)
		if _, err := s.get(t.Context(), "later", 0, time.Minute, c.read); err != nil {
			t.Error(err)
		}
	})
}

func TestAnActionIsSeenByReadersOfItsNumberAndCostsOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 5})
		get := func(acted int64) any {
			v, err := s.value(t.Context(), "page", acted, time.Minute, c.read)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for range 2 {
			if v := get(0); v != int64(1) {
				t.Errorf("it was read again: %v", v)
			}
		}
		n := s.act()
		if get(0) != int64(1) {
			t.Error("a reader without the number caused a read")
		}
		for _, acted := range []int64{n, n, 1 << 62} { // a number that does not exist yet is the last one
			if v := get(acted); v != int64(2) {
				t.Errorf("%v: want it read again, once", v)
			}
		}
	})
}

func TestFailingReadsKeepTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{statements: 4})
		_, _ = s.get(t.Context(), "page", 0, time.Second, c.read)
		n, begun := s.act(), time.Now()
		c.err = errors.New("no database")
		for range 1000 {
			if _, err := s.get(t.Context(), "page", n, time.Second, c.read); !errors.Is(err, c.err) {
				t.Fatal(err)
			}
		}
		most := int64(statementsAtOnce + statementsPerSecond*time.Since(begun).Seconds() + 5)
		if n := c.calls.Load() * 5; n > most { // its turn counts as a statement, too
			t.Errorf("%d statements, want at most %d", n, most)
		}
		c.err = nil
		if v, err := s.value(t.Context(), "page", n, time.Second, c.read); v == nil || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestTheOverviewStaysFreshUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, others := setupCache(&counting{statements: 4})
		overview := &counting{statements: 10, limit: s.limit}
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 2 * maxEntries {
			work.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.get(ctx, fmt.Sprint(rand.Int64()), 0, pageAge, others.read)
					_ = sleep(ctx, time.Second)
				}
			})
		}
		const turns = 60
		for range turns {
			if e, err := s.get(ctx, first, 0, overviewAge, overview.read); err != nil || e.age() > overviewAge {
				t.Errorf("it is %s old, %v", e.age(), err)
			}
			_ = sleep(ctx, 2*time.Second)
		}
		stop()
		work.Wait()
		s.work.Wait()
		if n := overview.calls.Load(); n > turns/4+1 || others.calls.Load() == 0 {
			t.Errorf("it was read %d times, and other pages %d times", n, others.calls.Load())
		}
	})
}

func TestAReadThatBeganBeforeAnActionIsNotUsedAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{takes: time.Second})
		go func() { _, _ = s.get(t.Context(), "page", 0, time.Minute, c.read) }()
		synctest.Wait()
		n := s.act()
		if v, err := s.value(t.Context(), "page", n, time.Minute, c.read); v != int64(2) || err != nil {
			t.Errorf("%v, %v: want the read that began after the action", v, err)
		}
	})
}

func TestASlowReadIsNotAwaitedWhileTheValueIsNotTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{takes: 3 * time.Second})
		get := func() (any, time.Duration) {
			before := time.Now()
			v, err := s.value(t.Context(), "page", 0, 5*time.Second, c.read)
			if err != nil {
				t.Fatal(err)
			}
			return v, time.Since(before)
		}
		if v, took := get(); v != int64(1) || took != 3*time.Second {
			t.Errorf("%v after %s", v, took)
		}
		time.Sleep(10 * time.Second)
		if v, took := get(); v != int64(1) || took != staleWait {
			t.Errorf("%v after %s, want the kept one", v, took)
		}
		time.Sleep(3 * time.Second)
		if v, took := get(); v != int64(2) || took != 0 {
			t.Errorf("%v after %s, want the one that was read in the background", v, took)
		}
		time.Sleep(2 * tooOld)
		if v, took := get(); v != int64(3) || took != 3*time.Second {
			t.Errorf("%v after %s, want a new one", v, took)
		}
	})
}

func TestAPanicOfAReadIsAnError(t *testing.T) {
	t.Parallel()
	s := newCache()
	_, err := s.get(t.Context(), "page", 0, time.Second, func(context.Context) (any, error) { panic("oh") })
	if err == nil || err.Error() != "panic: oh" {
		t.Error(err)
	}
}

func TestAReaderThatLeavesStopsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{takes: time.Second})
		first, stop := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := s.get(first, "page", 0, time.Minute, c.read)
			gone <- err
		}()
		synctest.Wait()
		stop()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if v, err := s.value(t.Context(), "page", 0, time.Minute, c.read); v != int64(1) || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestTheNumberOfValuesIsBoundedAndUnusedOnesAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{})
		for i := range 10 * maxEntries {
			if _, err := s.get(t.Context(), fmt.Sprint(i), 0, time.Minute, c.read); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := s.values.Len(); n > maxEntries {
			t.Errorf("%d entries", n)
		}
		time.Sleep(2 * keepUnused)
		_, _ = s.get(t.Context(), "new", 0, time.Minute, c.read)
		if n := len(s.values.Items()); n != 1 {
			t.Errorf("%d entries, want the old ones removed", n)
		}
	})
}

func TestAGlanceTellsHowLongTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{takes: 15 * time.Second})
		look := func() entry {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return s.glance(ctx, first, 5*time.Second, c.read)
		}
		if e := look(); e.running != 1 || e.value != nil {
			t.Errorf("%+v", e)
		}
		time.Sleep(11 * time.Second)
		if e := look(); e.running != 1 || time.Since(e.tried) < 12*time.Second {
			t.Errorf("%+v", e)
		}
		time.Sleep(3 * time.Second)
		if e := look(); e.running != 1 || e.value != int64(1) || c.calls.Load() != 2 {
			t.Errorf("%+v: want the first value, and a second read", e)
		}
		s.work.Wait()
	})
}

// Readers without an action take the kept value while a reader with one has it read again.
func TestAKeptValueIsServedWhileItIsReadAgain(t *testing.T) {
	t.Parallel()
	s, c := setupCache(&counting{statements: 1})
	if _, err := s.get(t.Context(), "page", 0, time.Hour, c.read); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				if v, err := s.value(t.Context(), "page", 0, time.Hour, c.read); err != nil || v.(int64) < 1 {
					t.Errorf("%v, %v", v, err)
				}
			}
		})
	}
	for n := range int64(200) {
		v, err := s.value(t.Context(), "page", s.act(), time.Hour, c.read)
		if err != nil || v.(int64) < n+2 {
			t.Fatalf("%v, %v", v, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestAReadThatIsAboutToBeginIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := setupCache(&counting{takes: time.Second})
		s.latest(t.Context(), "page", time.Minute, time.Minute, c.read)
		s.work.Wait()
		if n := c.calls.Load(); n != 1 {
			t.Errorf("%d reads have ended, want 1", n)
		}
	})
}

func TestAValueThatIsReadFastIsNewAndOneThatIsReadSlowlyIsReadRarely(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		takes time.Duration
		want  map[time.Duration]any // after the first look
	}{
		{10 * time.Millisecond, map[time.Duration]any{0: int64(1), 7 * time.Second: int64(1), 8 * time.Second: int64(2)}},
		{time.Second, map[time.Duration]any{0: nil, 90 * time.Second: int64(1), 101 * time.Second: int64(1), 103 * time.Second: int64(2)}},
		{2 * time.Second, map[time.Duration]any{0: nil, 119 * time.Second: int64(1), 120 * time.Second: int64(1), 123 * time.Second: int64(2)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, c := setupCache(&counting{takes: test.takes})
			begin := time.Now()
			for _, after := range slices.Sorted(maps.Keys(test.want)) {
				time.Sleep(after - time.Since(begin))
				if got := s.latest(t.Context(), "page", 8*time.Second, 2*time.Minute, c.read); got != test.want[after] {
					t.Errorf("a read takes %s: %v after %s, want %v", test.takes, got, after, test.want[after])
				}
			}
			s.work.Wait()
		})
	}
}
