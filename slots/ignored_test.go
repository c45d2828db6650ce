package slots_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// loseClaims makes all claims those of another runner, which has died.
func (w *world) loseClaims() {
	w.t.Helper()
	w.db.MustExec(`update prescient.slot_claim set token = token + 1, allocated_until = '-infinity' where jobs <> '{}'`)
}

// endOf waits for the end of a run.
func endOf[T any](t *testing.T, running <-chan T) T {
	t.Helper()
	return await.Receive(t, "the end of the run", running)
}

// ending is the result and the error of a run.
type ending struct {
	slots.Result
	err error
}

// startRun runs slot 1 beside the test.
func (w *world) startRun(ctx context.Context, r *slots.Runner) <-chan ending {
	finished := make(chan ending, 1)
	go func() {
		result, err := r.Run(ctx, slot(1))
		finished <- ending{result, err}
	}()
	return finished
}

// Nothing but the call itself says when it is abandoned: nothing renews or watches its lease any more.
func TestACheckThatIgnoresItsContextIsAbandonedThoughItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	type register func(r *jobs.Registry, check func(), options ...jobs.Option)
	shapes := map[string]register{
		"a row": func(r *jobs.Registry, check func(), options ...jobs.Option) {
			r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { check(); return nil, nil }), options...)
		},
		"a row with a transaction": func(r *jobs.Registry, check func(), options ...jobs.Option) {
			r.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { check(); return nil, nil }), options...)
		},
		"a batch": func(r *jobs.Registry, check func(), options ...jobs.Option) {
			r.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				check()
				return make([]jobs.Result, len(batch)), nil
			}), options...)
		},
	}
	for name, test := range map[string]struct {
		options []jobs.Option
		workers int
		state   slots.State
		calls   int64
	}{
		"the only worker":            {nil, 1, slots.StateOpen, 1},
		"the only place of its job":  {[]jobs.Option{jobs.Concurrency(1)}, 64, slots.StateDone, 2},
		"the only permit of its job": {[]jobs.Option{jobs.AtMost(1)}, 64, slots.StateDone, 2},
	} {
		for shape, register := range shapes {
			t.Run(name+" has "+shape, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				never, begun := make(chan struct{}), make(chan struct{})
				t.Cleanup(func() { close(never) })
				var calls atomic.Int64
				register(w.registry, func() {
					if calls.Add(1) == 1 {
						close(begun)
						<-never
					}
				}, append(test.options, jobs.Timeout(2*time.Second))...)
				w.enqueue("job", slot(1), 1)
				w.clock.Set(slot(1))
				running := w.startRun(context.WithoutCancel(t.Context()), w.runner(func(c *slots.Config) {
					c.Workers, c.Lease, c.Grace = test.workers, time.Second, 100*time.Millisecond
				}))
				<-begun
				w.loseClaims()
				result := endOf(t, running)
				if !errors.Is(result.err, slots.ErrAbandoned) || result.Abandoned != 1 || result.Lost != 1 || result.State != test.state {
					t.Errorf("%+v", result)
				}
				if n := calls.Load(); n != test.calls {
					t.Errorf("%d calls, want %d", n, test.calls)
				}
				if n := w.count(`select count(*) from prescient.slot_claim where allocated_until >= clock_timestamp()`); n != 0 {
					t.Errorf("%d claims are left that other runners must wait for", n)
				}
			})
		}
	}
}

// The permit goes back to the other runs only when the call has ended that it was taken for.
func TestALimitHoldsWhileACheckOfALostLeaseGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var once sync.Once
	var now, most atomic.Int64
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		once.Do(func() {
			w.loseClaims()
			w.eventually("the row to be claimed again", func() bool {
				return w.count(`select count(*) from prescient.slot_claim where jobs <> '{}' and allocated_until >= clock_timestamp()`) == 1
			})
			time.Sleep(time.Second) // enough for the next call, if it does not wait for this one
		})
		return nil, nil
	}), jobs.AtMost(1))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	running := w.background(slot(1), func(c *slots.Config) { c.Lease = time.Second })
	if result := endOf(t, running); result.State != slots.StateDone || result.Finished != 1 || result.Lost != 1 {
		t.Errorf("%+v", result)
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d checks at once", n)
	}
}

// A bound over several runners outlives the run whose check never returns.
func TestACheckThatOutlivesItsRunGivesTheSharedPlaceBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	never, begun := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(never) })
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		close(begun)
		<-never
		return nil, nil
	}), jobs.Timeout(5*time.Second))
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("stuck", slot(1), 1)
	w.enqueue("job", slot(2), 1)
	w.clock.Set(slot(1))
	bound := make(chan struct{}, 1)
	shared := func(c *slots.Config) { c.Grace, c.Shared.Workers = 100*time.Millisecond, bound }
	ctx, stop := context.WithCancel(t.Context())
	running := w.startRun(ctx, w.runner(shared))
	<-begun
	stop()
	if result := endOf(t, running); !errors.Is(result.err, slots.ErrStopped) {
		t.Errorf("%+v", result)
	}
	w.clock.Set(slot(2))
	if result := endOf(t, w.background(slot(2), shared)); result.Finished != 1 {
		t.Errorf("%+v", result)
	}
}
