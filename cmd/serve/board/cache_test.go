package board

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prescient-go/prescient/internal/web"
)

// counting is a read that takes some time and statements, and returns how often it was called.
type counting struct {
	calls      atomic.Int64
	statements int
	takes      time.Duration
	err        error
}

func (c *counting) read(ctx context.Context) (any, int, error) {
	n := c.calls.Add(1)
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return nil, c.statements, context.Cause(ctx)
	}
	return n, c.statements, c.err
}

func TestManyWhoLookAtOnceCostOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 5, takes: time.Second}
		var work sync.WaitGroup
		for range 1000 {
			work.Go(func() {
				if v, _, err := s.get(t.Context(), "page", 0, time.Minute, c.read); v != int64(1) || err != nil {
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

func TestWhatIsKeptIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCache()
		s.rate = 1000
		page := func(context.Context) (any, int, error) { return strings.Repeat("x", maxBytes/8), 1, nil }
		look := func(key string, read load) {
			if _, _, err := s.get(t.Context(), key, 0, time.Hour, read); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		look(first, page)
		for i := range 20 {
			look(fmt.Sprint(i), page)
		}
		s.work.Wait()
		all := 0
		for _, e := range s.entries {
			all += e.size
		}
		if all > maxBytes || all < maxBytes/2 || s.entries[first] == nil ||
			s.entries["19"] == nil || s.entries["0"] != nil {
			t.Errorf("%d bytes are kept, in %d entries", all, len(s.entries))
		}
	})
}

// The first look at each of ten pages is of unknown cost.
// Browsers that look at different pages, and each page again and again, for ten minutes.
func TestAllReadsTogetherKeepTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 9, takes: 20 * time.Millisecond}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var work sync.WaitGroup
		var answers, busy, old atomic.Int64
		for range 200 {
			work.Go(func() {
				for ctx.Err() == nil {
					_, age, err := s.get(ctx, fmt.Sprintf("page %d", rand.IntN(10)), 0, 5*time.Second, c.read)
					switch {
					case errors.Is(err, ErrBusy):
						busy.Add(1)
					case err == nil:
						answers.Add(1)
					}
					if age > 2*time.Minute {
						old.Add(1)
					}
					_ = sleep(ctx, time.Second)
				}
			})
		}
		work.Wait()
		s.work.Wait()
		if most := int64(burst + rate*600 + 10*9); c.calls.Load()*9 > most || c.calls.Load()*9 < rate*600 {
			t.Errorf("%d statements in ten minutes, want at the most %d, and use of nearly all", c.calls.Load()*9, most)
		}
		if answers.Load() < 100_000 || busy.Load() > 2000 || old.Load() > 0 {
			t.Errorf("%d answers, %d were told that the server is busy, %d too old", answers.Load(),
				busy.Load(), old.Load())
		}
	})
}

// One token asks for a new page from 50 places at once, all the time; the other one looks at one
// page after the other.
func TestATokenThatAsksForMuchDoesNotStarveAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 4, takes: 20 * time.Millisecond}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var work sync.WaitGroup
		var pages, greedy, modest, busy atomic.Int64
		ask := func(token int) error {
			_, _, err := s.get(web.WithToken(ctx, token), fmt.Sprint("page ", pages.Add(1)), 0, time.Minute, c.read)
			return err
		}
		for range 50 {
			work.Go(func() {
				for ctx.Err() == nil {
					if ask(1) == nil {
						greedy.Add(1)
					} else {
						_ = sleep(ctx, 10*time.Millisecond)
					}
				}
			})
		}
		work.Go(func() {
			for ctx.Err() == nil {
				if err := ask(2); errors.Is(err, ErrBusy) {
					busy.Add(1)
				} else if err == nil {
					modest.Add(1)
				}
				_ = sleep(ctx, time.Second)
			}
		})
		work.Wait()
		s.work.Wait()
		if modest.Load() < greedy.Load()/2 || busy.Load() > modest.Load()/10 {
			t.Errorf("%d reads of the one, %d of the other, which was told %d times that the server is busy",
				greedy.Load(), modest.Load(), busy.Load())
		}
	})
}

func TestABurstOfReadsOfUnknownCostLeavesABoundedDebt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 1000, takes: time.Second}
		var work sync.WaitGroup
		for i := range 50 {
			work.Go(func() { _, _, _ = s.get(t.Context(), fmt.Sprint(i), 0, time.Minute, c.read) })
		}
		work.Wait()
		s.work.Wait()
		if n := c.calls.Load(); n > (burst+10*rate)/assumed {
			t.Errorf("%d reads of unknown cost began", n)
		}
		time.Sleep((debt + 1) / rate * time.Second)
		if _, _, err := s.get(t.Context(), "later", 0, time.Minute, c.read); err != nil {
			t.Error(err)
		}
		s.work.Wait()
	})
}

func TestAnActionIsSeenByWhoeverKnowsItsNumberAndCostsOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 1000}
		get := func(acted int64) any {
			v, _, err := s.get(t.Context(), "page", acted, time.Minute, c.read)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		for range 2 { // and the budget is spent
			if v := get(0); v != int64(1) {
				t.Errorf("it was read again: %v", v)
			}
		}
		n := s.act()
		if get(0) != int64(1) {
			t.Error("somebody else had it read again")
		}
		for _, acted := range []int64{n, n, 1 << 62} { // a number that no store has is the last
			if v := get(acted); v != int64(2) {
				t.Errorf("%v: want it read again, once", v)
			}
		}
		s.work.Wait()
	})
}

func TestAReadThatFailsAfterAnActionKeepsTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{statements: 4}
		_, _, _ = s.get(t.Context(), "page", 0, time.Second, c.read)
		n := s.act()
		c.err = errors.New("no database")
		for range 1000 {
			if _, _, err := s.get(t.Context(), "page", n, time.Second, c.read); !errors.Is(err, c.err) {
				t.Fatal(err)
			}
		}
		if n := c.calls.Load() * 4; n > burst+4 {
			t.Errorf("%d statements", n)
		}
	})
}

func TestTheOverviewIsReadHoweverManyAskForOtherThings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, others, overview := newCache(), &counting{statements: 4}, &counting{statements: 10}
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 2 * maxEntries {
			work.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = s.get(ctx, fmt.Sprint(rand.Int64()), 0, pageAge, others.read)
					_ = sleep(ctx, time.Second)
				}
			})
		}
		const turns = 60
		for range turns {
			if _, age, err := s.get(ctx, first, 0, overviewAge, overview.read); err != nil || age > overviewAge {
				t.Errorf("it is %s old, %v", age, err)
			}
			_ = sleep(ctx, 2*time.Second)
		}
		stop()
		work.Wait()
		if n := overview.calls.Load(); n > turns/4+1 || others.calls.Load() == 0 {
			t.Errorf("it was read %d times, and others %d", n, others.calls.Load())
		}
	})
}

func TestAnActionDuringAReadIsNotInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{takes: time.Second}
		go func() { _, _, _ = s.get(t.Context(), "page", 0, time.Minute, c.read) }()
		synctest.Wait()
		n := s.act()
		if v, _, err := s.get(t.Context(), "page", n, time.Minute, c.read); v != int64(2) || err != nil {
			t.Errorf("%v, %v: want the read that began after the action", v, err)
		}
	})
}

func TestAValueThatIsNotTooOldIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{takes: 3 * time.Second}
		get := func() (any, time.Duration) {
			before := time.Now()
			v, _, err := s.get(t.Context(), "page", 0, 5*time.Second, c.read)
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
			t.Errorf("%v after %s, want the one there is", v, took)
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

func TestWhatCannotBeReadIsToldAndTriedAgainWithinTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("no database")
		s, c := newCache(), &counting{err: down}
		for range 1000 {
			if _, _, err := s.get(t.Context(), "page", 0, time.Second, c.read); !errors.Is(err, down) {
				t.Fatal(err)
			}
		}
		if n := c.calls.Load(); n != burst {
			t.Errorf("%d reads, want %d", n, burst)
		}
		time.Sleep(time.Second)
		c.err = nil
		if v, _, err := s.get(t.Context(), "page", 0, time.Second, c.read); v == nil || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		s.work.Wait()
	})
}

func TestAReaderThatPanicsIsAnError(t *testing.T) {
	t.Parallel()
	s := newCache()
	_, _, err := s.get(t.Context(), "page", 0, time.Second, func(context.Context) (any, int, error) { panic("oh") })
	if err == nil || err.Error() != "panic: oh" {
		t.Error(err)
	}
}

func TestWhoGoesAwayStopsNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{takes: time.Second}
		first, stop := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, _, err := s.get(first, "page", 0, time.Minute, c.read)
			gone <- err
		}()
		synctest.Wait()
		stop()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if v, _, err := s.get(t.Context(), "page", 0, time.Minute, c.read); v != int64(1) || err != nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache(), &counting{}
		for i := range 10 * maxEntries {
			if _, _, err := s.get(t.Context(), fmt.Sprint(i), 0, time.Minute, c.read); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if len(s.entries) > maxEntries {
			t.Errorf("%d entries", len(s.entries))
		}
		time.Sleep(2 * keepUnused)
		_, _, _ = s.get(t.Context(), "new", 0, time.Minute, c.read)
		if len(s.entries) != 1 {
			t.Errorf("%d entries, want those of old to be gone", len(s.entries))
		}
	})
}

// Who is content with what is kept takes it while somebody who has acted has it read anew.
func TestAKeptValueIsTakenWhileItIsReadAnew(t *testing.T) {
	t.Parallel()
	s, c := newCache(), &counting{statements: 1}
	if _, _, err := s.get(t.Context(), "page", 0, time.Hour, c.read); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				if v, _, err := s.get(t.Context(), "page", 0, time.Hour, c.read); err != nil || v.(int64) < 1 {
					t.Errorf("%v, %v", v, err)
				}
			}
		})
	}
	for n := range int64(200) {
		if v, _, err := s.get(t.Context(), "page", s.act(), time.Hour, c.read); err != nil || v.(int64) < n+2 {
			t.Fatalf("%v, %v", v, err)
		}
	}
}
