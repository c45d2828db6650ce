package slots_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// other is the token of another run.
const other = 99

// expirePermits makes the permits of a key expire, as a step of the database's clock does.
func (w *world) expirePermits(key string) {
	w.t.Helper()
	w.db.MustExec(`update prescient.job_permit set allocated_until = statement_timestamp() - interval '1 second' where key = $1`, key)
}

// takePermit asks for a permit as another run does, and reports whether it got one.
func (w *world) takePermit(job, key string) (got bool) {
	w.t.Helper()
	err := w.db.GetContext(w.t.Context(), &got,
		`select count(*) > 0 from prescient.acquire_permits(prescient.find_job($1), array[$2], array[1], 1, $3, '1 hour')`, job, key, other)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// leavePermits gives back what the other run has.
func (w *world) leavePermits() {
	w.db.MustExec(`delete from prescient.job_permit where token = $1`, other)
}

func TestAPermitThatIsLostEndsTheChecksThatNeedIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	causes, release := make(chan error, 1), make(chan struct{})
	var others, again atomic.Int64
	w.registry.Register("limited", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		switch {
		case tenant(job) == "b":
			others.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
				t.Errorf("a check has ended that still has its permit: %v", context.Cause(ctx))
			}
		case again.Add(1) == 1:
			w.expirePermits("a")
			if !w.takePermit("limited", "a") {
				t.Error("the other run got no permit")
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
		}
		return nil, nil
	}), jobs.AtMost(1), jobs.LimitBy(tenant))
	w.enqueueTenants("limited", 1, "a", "b")
	w.clock.Set(slot(1))
	running := w.background(slot(1), func(c *slots.Config) { c.Page, c.Lease = 1, time.Second })
	if cause := endOf(t, causes); !errors.Is(cause, slots.ErrLeaseLost) {
		t.Errorf("the context of the check ended with %v", cause)
	}
	w.eventually("the rows to be claimed again", func() bool {
		return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}' and allocated_until >= clock_timestamp()`) == 2
	})
	if again.Load() != 1 || others.Load() != 1 {
		t.Errorf("%d and %d checks were begun while the other run had the permit of one", again.Load(), others.Load())
	}
	w.leavePermits()
	w.eventually("the row to be checked again", func() bool { return again.Load() == 2 })
	close(release)
	if result := endOf(t, running); result.Finished != 2 || result.Lost != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if n := w.count(`select count(*) from prescient.job_permit`); n != 0 {
		t.Errorf("%d permits were not given back", n)
	}
}

// A heartbeat renews what has expired, as long as no other run has taken it: a clock may step, and an outage may be longer than a lease.
func TestAPermitThatHasExpiredIsKeptUnlessAnotherRunHasTakenIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("limited", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		w.expirePermits("")
		w.eventually("the permit to be renewed", func() bool {
			return w.count(`select count(*) from prescient.job_permit where allocated_until >= clock_timestamp()`) == 1
		})
		if w.takePermit("limited", "") {
			t.Error("another run got the permit")
		}
		return nil, ctx.Err()
	}), jobs.AtMost(1))
	w.enqueue("limited", slot(1), 1)
	w.clock.Set(slot(1))
	if result := endOf(t, w.background(slot(1), func(c *slots.Config) { c.Lease = time.Second })); result.Finished != 1 || result.Lost != 0 {
		t.Errorf("%+v", result)
	}
}

// The run has the permit before it has the claim, so nothing of it can end yet.
func TestAPermitThatIsLostWhileTheRunWaitsForItsClaimStartsNoCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var log syncBuffer
	var free, taken atomic.Bool
	w.registry.Register("limited", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		if !free.Load() {
			t.Error("a check has begun while the other run had the only permit")
		}
		return nil, nil
	}), jobs.AtMost(1))
	w.enqueue("limited", slot(1), 3)
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{
		At: 1, Kind: pgtest.SomebodyFirst, Of: func(text string) bool { return strings.Contains(text, "claim_rows") },
		First: func() {
			w.expirePermits("")
			taken.Store(w.takePermit("limited", ""))
			for range 80 { // a heartbeat comes after a third of the lease
				if time.Sleep(100 * time.Millisecond); strings.Contains(log.String(), "permits are lost") {
					return
				}
			}
		},
	})
	w.clock.Set(slot(1))
	running := w.background(slot(1), func(c *slots.Config) {
		c.DB, c.Lease, c.Logger = faults.DB, 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
	})
	w.eventually("the claim to be lost with the permit", func() bool { return strings.Contains(log.String(), "lease lost") })
	free.Store(true)
	w.leavePermits()
	if result := endOf(t, running); !taken.Load() || result.Finished != 3 || result.Lost != 1 || result.State != slots.StateDone {
		t.Errorf("the other run had the permit: %t; %+v", taken.Load(), result)
	}
}
