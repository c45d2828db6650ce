package permit

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// limitOf returns the limit of a run for job 1, of which at most 3 checks may run at once.
func limitOf(t *testing.T, pool *sqlx.DB, token int64) *Limit {
	t.Helper()
	contexts := phase.New(t.Context(), 0)
	t.Cleanup(contexts.End)
	s := &db.Server{DB: pool, Schema: "prescient", Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	o := Options{Server: s, Contexts: contexts, Token: token, Locks: db.NewAdvisory(s, time.Time{}), Inside: new(Inside)}
	return NewLimit(o, Rule{Job: 1, Name: "job", AtMost: 3, AtOnce: 8})
}

// A check of such a run occupies a worker until its instant, which the other runs could use.
func TestRunsWithTheSameWorkersLetNoMoreChecksWaitInsideThanOneRun(t *testing.T) {
	t.Parallel()
	shared := Options{Inside: new(Inside)}
	one, other := NewLimit(shared, Rule{Job: 1, PerSecond: 100}), NewLimit(shared, Rule{Job: 1, PerSecond: 100})
	if one.inside != other.inside || cap(one.inside) != 2 {
		t.Errorf("%d and %d checks may wait inside", cap(one.inside), cap(other.inside))
	}
	if job := NewLimit(shared, Rule{Job: 2, PerSecond: 1}); job.inside == one.inside || cap(job.inside) != 1 {
		t.Errorf("%d checks of another job may wait inside", cap(job.inside))
	}
}

// obtain asks for permits of the empty key, and returns how many the run has then.
func obtain(t *testing.T, l *Limit, set *Set, n int) (has int) {
	t.Helper()
	if b := l.buckets[""]; b != nil {
		b.asked = time.Time{} // it may ask again at once
	}
	buckets, err := l.Obtain(t.Context(), set, map[string]int{"": n})
	if err != nil {
		t.Fatal(err)
	}
	if b := buckets[""]; b != nil {
		return b.has
	}
	return 0
}

// beat sends a heartbeat.
func beat(t *testing.T, l *Limit) {
	t.Helper()
	var m pg.Message
	asked, renewed := time.Now(), l.Renew(&m)
	if err := l.opts.Commit(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	renewed(asked)
}

func TestAClaimEndsWithThePermitsThatItNeedsAndWithNoOthers(t *testing.T) {
	t.Parallel()
	isLost := func(s *Set) bool { return s.EndsBefore(time.Time{}) }
	for name, test := range map[string]struct {
		gone  bool // the row of the run
		taken int  // by another run
		find  func(t *testing.T, l *Limit, set *Set)
		lost  bool
	}{
		"a heartbeat finds them": {false, 1, func(t *testing.T, l *Limit, _ *Set) { beat(t, l) }, false},
		"a heartbeat does not":   {true, 2, func(t *testing.T, l *Limit, _ *Set) { beat(t, l) }, true},
		"asking for more brings more": {
			false, 0, func(t *testing.T, l *Limit, set *Set) { obtain(t, l, set, 3) }, false,
		},
		"asking for more brings as many": {
			false, 1, func(t *testing.T, l *Limit, set *Set) { obtain(t, l, set, 3) }, false,
		},
		"asking for more brings fewer": {
			true, 2, func(t *testing.T, l *Limit, set *Set) { obtain(t, l, set, 3) }, true,
		},
		"asking for more brings none": {
			true, 3, func(t *testing.T, l *Limit, set *Set) { obtain(t, l, set, 3) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			pool, err := pgsql.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pool.Close() })
			l, claim, next := limitOf(t, pool, 1), NewSet(), NewSet()
			if n := obtain(t, l, claim, 2); n != 2 || isLost(claim) {
				t.Fatalf("the run has %d permits, want 2", n)
			}
			if test.gone {
				pool.MustExec(`delete from prescient.job_permit`)
			}
			if n := obtain(t, limitOf(t, pool, 2), NewSet(), test.taken); n != test.taken {
				t.Fatalf("the other run has %d permits, want %d", n, test.taken)
			}
			test.find(t, l, claim)
			if isLost(claim) != test.lost {
				t.Errorf("the claim has lost its permits: %t", !test.lost)
			}
			if n := obtain(t, l, next, 3); test.lost && n != 0 {
				t.Errorf("the next claim has %d permits while checks go on that have lost theirs", n)
			}
			l.Release(next)
			l.Release(claim)
			if n, want := obtain(t, l, next, 3), 3-test.taken; n != want {
				t.Errorf("the next claim has %d permits, want %d", n, want)
			}
			if isLost(next) {
				t.Error("the next claim has lost its permits")
			}
		})
	}
}

// The database has given the run other permits by then. Checks go on that had the first ones.
func TestPermitsThatAHeartbeatFindsLostWhileTheRunAsksForMoreStayLost(t *testing.T) {
	t.Parallel()
	faults := pgtest.OpenFaults(t, pgtest.URL(t), pgtest.Unprepared)
	l, claim, next := limitOf(t, faults.DB, 1), NewSet(), NewSet()
	if n := obtain(t, l, claim, 2); n != 2 {
		t.Fatalf("the run has %d permits, want 2", n)
	}
	faults.Set(pgtest.Fault{
		At: 1, Of: func(text string) bool { return strings.Contains(text, "acquire_permits") }, Kind: pgtest.SomebodyFirst,
		First: func() {
			faults.DB.MustExec(`delete from prescient.job_permit`)
			beat(t, l)
		},
	})
	got := make(chan int, 1)
	go func() { got <- obtain(t, l, next, 3) }()
	select {
	case n := <-got:
		if n != 0 || !claim.EndsBefore(time.Time{}) || next.EndsBefore(time.Time{}) {
			t.Errorf("the next claim has %d permits, lost: %t, want those of the first lost: %t",
				n, next.EndsBefore(time.Time{}), claim.EndsBefore(time.Time{}))
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the run waits for ever")
	}
	l.Release(claim)
	if n := obtain(t, l, next, 3); n != 3 || len(l.buckets[""].free) != 3 {
		t.Errorf("the next claim has %d permits once the first has ended, want 3", n)
	}
}

// A binary with another AtMost may run at the same time.
func TestARunThatAsksForMoreKeepsItsPermitsThoughOtherRunsHaveMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	pool, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	l, larger := limitOf(t, pool, 1), limitOf(t, pool, 2)
	larger.rule.AtMost, larger.rule.AtOnce = 10, 10
	claim, next := NewSet(), NewSet()
	for _, ask := range []struct {
		limit     *Limit
		set       *Set
		asks, has int
	}{{l, claim, 1, 1}, {larger, NewSet(), 10, 9}, {l, next, 3, 1}} {
		if has := obtain(t, ask.limit, ask.set, ask.asks); has != ask.has {
			t.Errorf("%d permits for %d checks, want %d", has, ask.asks, ask.has)
		}
	}
	if claim.EndsBefore(time.Time{}) {
		t.Error("the run has lost the permit that it still has")
	}
	if n := obtain(t, limitOf(t, pool, 3), NewSet(), 1); n != 0 {
		t.Errorf("a run without permits gets %d beyond its limit", n)
	}
}

func TestKeysWithoutAPermitAreForgottenWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	pool, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	keys := map[string]int{}
	for n := range 100 {
		keys[fmt.Sprint("tenant ", n)] = 3
	}
	if _, err := limitOf(t, pool, 1).Obtain(t.Context(), NewSet(), keys); err != nil {
		t.Fatal(err)
	}
	l := limitOf(t, pool, 2)
	if got, err := l.Obtain(t.Context(), NewSet(), keys); err != nil || len(got) > 0 {
		t.Fatalf("%d keys have permits, which another run has: %v", len(got), err)
	}
	time.Sleep(askAgain)
	if n := obtain(t, l, NewSet(), 1); n != 1 || len(l.buckets) != 1 {
		t.Errorf("%d permits, and %d keys are kept", n, len(l.buckets))
	}
}
