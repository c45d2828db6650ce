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

func TestTheHostsLoadIsANumberThatMakesSense(t *testing.T) {
	t.Parallel()
	if load := slots.HostLoad(); load < 0 || load > 10000 {
		t.Errorf("load %g", load)
	}
}
