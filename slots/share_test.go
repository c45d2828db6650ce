package slots_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

func TestABusyMachineLeavesMostOfASlotToAnIdleOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", func(context.Context, jobs.FutureJob) (*time.Time, error) {
		time.Sleep(time.Millisecond)
		return nil, nil
	})
	const rows = 1600
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))
	var busy, idle slots.Result
	var wg sync.WaitGroup
	for load, result := range map[float64]*slots.Result{0.02: &idle, 3: &busy} {
		r := w.runner(func(c *slots.Config) {
			c.ClaimDelay = 500 * time.Millisecond
			c.Load = func() float64 { return load }
			c.Workers = 4
		})
		wg.Go(func() {
			var err error
			if *result, err = r.Run(t.Context(), slot(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if busy.Checked+idle.Checked != rows || idle.Checked < rows*8/10 {
		t.Errorf("the idle machine took %d rows of %d, the busy one %d; want at least 80 %%", idle.Checked, rows, busy.Checked)
	}
}

// The first runner holds every shard when the second one comes.
func TestARunnerThatComesLateGetsAShare(t *testing.T) {
	t.Parallel()
	w := setup(t)
	began := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	checks := map[int64]int{}
	w.registry.Register("job", func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		once.Do(func() { close(began) })
		time.Sleep(2 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		checks[job.ID]++
		return nil, nil
	})
	const rows = 4000
	w.enqueue("job", slot(1), rows)
	w.clock.Set(slot(1))
	few := func(c *slots.Config) { c.Workers = 4 }
	first := w.background(slot(1), few)
	<-began
	second := w.background(slot(1), few)
	a, b := <-first, <-second
	if a.Checked+b.Checked != rows || len(checks) != rows {
		t.Errorf("%d rows and %d rows were recorded, and %d checked, want %d", a.Checked, b.Checked, len(checks), rows)
	}
	if least := min(a.Checked, b.Checked); least < rows/4 {
		t.Errorf("a runner that came late took %d rows of %d, the other one %d", b.Checked, rows, a.Checked)
	}
	for _, r := range []slots.Result{a, b} {
		if r.Lost+r.TakenOver != 0 || r.State != slots.StateDone {
			t.Errorf("%+v", r)
		}
	}
	for id, n := range checks {
		if n != 1 {
			t.Errorf("row %d was checked %d times", id, n)
		}
	}
}

func TestTheHostsLoadIsANumberThatMakesSense(t *testing.T) {
	t.Parallel()
	if load := slots.HostLoad(); load < 0 || load > 10000 {
		t.Errorf("load %g", load)
	}
}
