package slots_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

func TestRunnersOfManyStoresKeepSharedBoundsTogether(t *testing.T) {
	t.Parallel()
	g := newGauge()
	shared := slots.Shared{Workers: make(chan struct{}, 3), Connections: make(chan struct{}, 2)}
	var running []<-chan slots.Result
	for range 3 {
		w := setup(t)
		w.registry.Register("plain", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
			defer g.enter("all")()
			time.Sleep(time.Millisecond)
			return nil, nil
		}))
		w.registry.Register("in tx", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
			defer g.enter("all")()
			defer g.enter("in tx")()
			time.Sleep(time.Millisecond)
			return nil, nil
		}))
		w.enqueue("plain", slot(1), 100)
		w.enqueue("in tx", slot(1), 100)
		w.clock.Set(slot(1))
		running = append(running, w.background(slot(1), func(cfg *slots.Config) { cfg.Shared = shared }))
	}
	for _, r := range running {
		if result := <-r; result.Finished != 200 || result.State != slots.StateDone {
			t.Errorf("%+v", result)
		}
	}
	if g.most["all"] != 3 || g.most["in tx"] != 2 {
		t.Errorf("at once: %v, of which 3 and 2 may be", g.most)
	}
	if len(shared.Workers)+len(shared.Connections) != 0 {
		t.Errorf("%d workers and %d connections were not given back", len(shared.Workers), len(shared.Connections))
	}
}

func TestAJobAtItsOwnLimitDelaysNoRunOfAnotherStore(t *testing.T) {
	t.Parallel()
	runs := make(chan struct{}, 1)
	shared := func(c *slots.Config) { c.Shared.Runs = runs }
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	first, second := setup(t), setup(t)
	first.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		begun <- struct{}{}
		<-goOn
		return nil, nil
	}), jobs.Concurrency(1))
	second.registry.Register("job", jobs.Row(done))
	first.enqueue("job", slot(1), 2)
	second.enqueue("job", slot(1), 1)
	first.clock.Set(slot(1))
	second.clock.Set(slot(1))
	one := first.background(slot(1), shared)
	<-begun
	other := second.background(slot(1), shared)
	select {
	case <-other:
	case <-time.After(await.Limit):
		t.Error("the other store waits for a job that waits for its own limit")
	}
	close(goOn)
	if result := <-one; result.Finished != 2 {
		t.Errorf("%+v", result)
	}
}

func TestASharedBoundThatLetsNobodyInIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, shared := range map[string]slots.Shared{
		"Runs": {Runs: make(chan struct{})}, "Workers": {Workers: make(chan struct{})}, "Connections": {Connections: make(chan struct{})},
	} {
		_, err := slots.NewRunner(t.Context(), slots.Config{DB: w.db, Registry: w.registry, Shared: shared})
		if want := "slots.Config: the bounds of Shared must be nil, or made with room: make(chan struct{}, 8)"; err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
