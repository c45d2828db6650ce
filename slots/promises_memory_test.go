package slots_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// Not parallel: it measures the memory of the process.
func TestLargeRowsTakeNoMoreMemoryThanSmallOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, alone")
	}
	w := setup(t)
	network := w.network()
	db := network.open()
	release := make(chan struct{})
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-release
		return nil, nil
	}))
	const rows, limit = 8000, 200 << 20
	w.enqueue("job", slot(1), rows)
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', 65000))`)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.DB = db; c.Page = 0; c.Lease = time.Minute })

	var most uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	// Nothing is checked before the run has read all that it will.
	for received, still := int64(0), time.Now(); received == 0 || time.Since(still) < 300*time.Millisecond; time.Sleep(2 * time.Millisecond) {
		if now := network.received.Load(); now > received+64<<10 {
			received, still = now, time.Now()
		}
		look()
	}
	close(release)
	for {
		select {
		case result := <-finished:
			if result.Finished != rows || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			t.Logf("the heap took up to %d MB", most>>20)
			if most > limit {
				t.Errorf("the heap took up to %d MB, want %d MB at the most", most>>20, limit>>20)
			}
			return
		case <-time.After(2 * time.Millisecond):
			look()
		}
	}
}

// Not parallel: it measures the memory of the process.
func TestRowsThatAnotherTransactionHasLockedTakeABoundedPartOfTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, alone")
	}
	w := setup(t)
	network := w.network()
	db := network.open()
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	const rows, size, limit = 1000, 300_000, 160 << 20
	w.enqueue("job", slot(1), rows)
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	release := w.hold(rows)
	w.clock.Set(slot(1))
	finished := w.background(slot(1), func(c *slots.Config) { c.DB = db; c.Page = 0; c.Lease = time.Minute })

	// The rows are locked until the run has read all that it will.
	for received, still := int64(0), time.Now(); received == 0 || time.Since(still) < time.Second; time.Sleep(2 * time.Millisecond) {
		if now := network.received.Load(); now > received+size/2 {
			received, still = now, time.Now()
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("the heap has %d MB", m.HeapAlloc>>20)
	if m.HeapAlloc > limit {
		t.Errorf("the heap has %d MB, want %d MB at most", m.HeapAlloc>>20, limit>>20)
	}
	release()
	if result := <-finished; result.Finished != rows || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
}

// Not parallel: it measures the memory of the process.
func TestRowsThatWaitForAPermitTakeABoundedPartOfTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, alone")
	}
	w := setup(t)
	network := w.network()
	db := network.open()
	began, release := make(chan struct{}), make(chan struct{})
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		began <- struct{}{}
		<-release
		return make([]jobs.Result, len(batch)), nil
	}), jobs.AtMost(1), jobs.LimitBy(func(jobs.FutureJob) string { return "the same" }), jobs.Timeout(5*time.Minute))
	const rows, size, limit = 1000, 300_000, 160 << 20
	w.enqueue("job", slot(1), rows)
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	w.clock.Set(slot(1))
	first := w.background(slot(1), func(c *slots.Config) { c.Name, c.Page, c.Lease = "first", 1, time.Minute })
	<-began
	second := w.background(slot(1), func(c *slots.Config) { c.Name, c.DB, c.Page, c.Lease = "second", db, 0, time.Minute })

	for received, still := int64(0), time.Now(); received == 0 || time.Since(still) < time.Second; time.Sleep(2 * time.Millisecond) {
		if now := network.received.Load(); now > received+size/2 {
			received, still = now, time.Now()
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("the heap has %d MB", m.HeapAlloc>>20)
	if m.HeapAlloc > limit {
		t.Errorf("the heap has %d MB, want %d MB at most", m.HeapAlloc>>20, limit>>20)
	}
	go func() {
		for range began {
		}
	}()
	close(release)
	if done := (<-first).Finished + (<-second).Finished; done != rows {
		t.Errorf("%d rows are done, want %d", done, rows)
	}
	close(began)
}

// Not parallel: it measures the memory of the process.
func TestLargePayloadsOfResultsTakeABoundedPartOfTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory, alone")
	}
	const rows, size, limit = 300, 300_000, 240 << 20
	payload := []byte(`"` + strings.Repeat("x", size) + `"`)
	results := func(batch []jobs.FutureJob) ([]jobs.Result, error) {
		list := make([]jobs.Result, len(batch))
		for i := range list {
			list[i].Next, list[i].Payload = new(slot(2)), payload
		}
		return list, nil
	}
	for name, register := range map[string]func(w *world){
		"by the run": func(w *world) {
			w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) { return results(batch) }))
		},
		"with a transaction": func(w *world) {
			w.registry.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return results(batch)
			}))
		},
		"after a wait for locks": func(w *world) {
			w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				time.AfterFunc(100*time.Millisecond, w.hold(rows))
				return results(batch)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			register(w)
			w.enqueue("job", slot(1), rows)
			w.clock.Set(slot(1))
			finished := w.background(slot(1), func(c *slots.Config) { c.Page, c.Lease = 0, time.Minute })
			var most uint64
			for tick := time.Tick(2 * time.Millisecond); ; {
				select {
				case result := <-finished:
					if result.Rescheduled != rows || result.State != slots.StateDone {
						t.Errorf("%+v", result)
					}
					t.Logf("the heap took up to %d MB", most>>20)
					if most > limit {
						t.Errorf("the heap took up to %d MB, want %d MB at most", most>>20, limit>>20)
					}
					return
				case <-tick:
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
			}
		})
	}
}

// A run of a job whose rows are locked ends, and keeps nothing until the timeout of the job.
func TestATryOfALockedRowKeepsNothingUntilTheTimeoutOfItsJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}), jobs.Timeout(time.Hour))
	w.enqueue("job", slot(1), 1)
	release := w.hold(1)
	w.clock.Set(slot(1))
	db := open(t, w.url)
	forgotten, finished := make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := &ofRun{context.WithoutCancel(t.Context())}
		runtime.AddCleanup(ctx, func(forgotten chan struct{}) { close(forgotten) }, forgotten)
		_, err := w.runner(func(c *slots.Config) { c.DB = db }).Run(ctx, slot(1))
		finished <- errors.Join(err, db.Close()) // a connection keeps the context with which it was made
	}()
	w.eventually("the row to be tried", w.waitsForALock)
	release()
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	w.eventually("the context of the run to be forgotten", func() bool {
		runtime.GC()
		select {
		case <-forgotten:
			return true
		default:
			return false
		}
	})
}

// ofRun is the context of a run, of which a test learns that nothing refers to it any more.
type ofRun struct{ context.Context }
