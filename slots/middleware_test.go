package slots_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

func TestARunCallsEveryShapeInsideItsMiddleware(t *testing.T) {
	t.Parallel()
	w := setup(t)
	all := func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}
	w.registry.Register("one", jobs.Row(done))
	w.registry.Register("tx", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}))
	w.registry.Register("batch tx", jobs.BatchInTx(all))
	w.registry.Register("group", jobs.Group("family", all))
	w.registry.Register("spoilt", jobs.Row(done), jobs.Retry(0))

	var mu sync.Mutex
	rows := map[string]int{}
	w.registry.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		mu.Lock()
		rows[call.JobExec] += len(call.Rows)
		mu.Unlock()
		if call.JobExec == "spoilt" {
			panic("the middleware is broken")
		}
		call.Rows[0].EntityKey, call.Rows[0].ID = "changed", 0
		return next(ctx)
	})

	want := map[string]int{}
	for d := range w.registry.All() {
		w.enqueue(d.Name, slot(1), 3)
		want[d.Name] = 3
	}
	result := w.run(slot(1))
	if result.Finished != 15 || result.Failed != 3 || result.Failures[0].Error != "panic: the middleware is broken" {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if got := w.outcomes(); got[jobs.OutcomeDone] != 15 || got[jobs.OutcomeFailed] != 3 {
		t.Error(got)
	}
}
