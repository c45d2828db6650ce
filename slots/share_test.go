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

// The first runner holds every shard when the second one comes: it has read but a part of the slot, or all of it, and
// its rows wait for their turn, for longer than a moment.
func TestARunnerThatComesLateGetsAShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows, workers int
		pause         time.Duration
	}{
		"rows are not read":               {4000, 4, 2 * time.Millisecond},
		"rows wait":                       {160, 4, 60 * time.Millisecond},
		"each shard has rows under check": {240, 64, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			began := make(chan struct{})
			var once sync.Once
			var mu sync.Mutex
			checks := map[int64]int{}
			w.registry.Register("job", func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				once.Do(func() { close(began) })
				time.Sleep(c.pause)
				mu.Lock()
				defer mu.Unlock()
				checks[job.ID]++
				return nil, nil
			})
			w.enqueue("job", slot(1), c.rows)
			w.clock.Set(slot(1))
			few := func(cfg *slots.Config) { cfg.Workers = c.workers }
			first := w.background(slot(1), few)
			<-began
			second := w.background(slot(1), few)
			a, b := <-first, <-second
			if a.Checked+b.Checked != int64(c.rows) || min(a.Checked, b.Checked) < int64(c.rows)/8 {
				t.Errorf("the first took %d of %d rows, the one that came late %d", a.Checked, c.rows, b.Checked)
			}
			for _, r := range []slots.Result{a, b} {
				if r.Lost+r.TakenOver != 0 || r.State != slots.StateDone {
					t.Errorf("%+v", r)
				}
			}
			if len(checks) != c.rows {
				t.Errorf("%d rows were checked, want %d", len(checks), c.rows)
			}
			for id, n := range checks {
				if n != 1 {
					t.Errorf("row %d was checked %d times", id, n)
				}
			}
		})
	}
}

func TestTheHostsLoadIsANumberThatMakesSense(t *testing.T) {
	t.Parallel()
	if load := slots.HostLoad(); load < 0 || load > 10000 {
		t.Errorf("load %g", load)
	}
}
