package slots_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// order notes in which order jobs are checked.
type order struct {
	mu   sync.Mutex
	list []string
}

func (o *order) check(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, job.JobExec)
	return nil, nil
}

// first and last are where a job comes in the order.
func (o *order) first(job string) int { return slices.Index(o.list, job) }

func (o *order) last(job string) int {
	backwards := slices.Clone(o.list)
	slices.Reverse(backwards)
	return len(o.list) - 1 - slices.Index(backwards, job)
}

func TestJobsOfAHigherPriorityComeFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var o order
	w.registry.Register("backlog", jobs.Row(o.check))
	w.registry.Register("urgent", jobs.Row(o.check), jobs.Priority(10))
	w.registry.Register("urgent with a transaction", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return o.check(ctx, job)
	}), jobs.Priority(5))
	w.registry.Register("some day", jobs.Row(o.check), jobs.Priority(-1))
	w.enqueue("some day", slot(1), 20)
	w.enqueue("backlog", slot(1), 500)
	w.enqueue("urgent", slot(1), 400)
	w.enqueue("urgent with a transaction", slot(1), 100)
	result := w.run(slot(1), func(cfg *slots.Config) { cfg.Page, cfg.Workers = 50, 1 })
	if result.Finished != 1020 {
		t.Errorf("%+v", result)
	}
	// What is claimed ahead of its turn is at most a page of each.
	if late := o.last("urgent") - o.first("backlog"); o.first("backlog") < 350 || late > 100 {
		t.Errorf("the first of the backlog was check %d, the last urgent one %d", o.first("backlog"), o.last("urgent"))
	}
	if o.first("some day") < 900 {
		t.Errorf("what may wait began with check %d", o.first("some day"))
	}
}

// A job that may do little at once does not keep workers idle that others of a lower priority could use.
func TestAPriorityHoldsUpNobodyWhileItsJobIsAtALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var o order
	release := make(chan struct{})
	w.registry.Register("urgent", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return o.check(ctx, job)
	}), jobs.Priority(10), jobs.Concurrency(1))
	var once sync.Once
	w.registry.Register("backlog", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		next, err := o.check(ctx, job)
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.list) == 300 {
			once.Do(func() { close(release) })
		}
		return next, err
	}))
	w.enqueue("urgent", slot(1), 100)
	w.enqueue("backlog", slot(1), 300)
	if result := w.run(slot(1)); result.Finished != 400 || o.first("urgent") != 300 {
		t.Errorf("%+v; the first urgent check was number %d", result, o.first("urgent"))
	}
}

// Checks with a transaction wait for connections, and for workers where there are no more of these. A job of a higher
// priority has its rows claimed first, with any bound that it shares with other jobs.
func TestAPriorityCountsAmongAllJobsThatWaitForTheSame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		backlog              func(r *jobs.Registry, o *order)
		workers, connections int
	}{
		"as many connections as workers": {func(r *jobs.Registry, o *order) { r.Register("backlog", jobs.Row(o.check)) }, 2, 2},
		"batches with a transaction": {func(r *jobs.Registry, o *order) {
			r.Register("backlog", jobs.Each(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return o.check(ctx, job)
			}), jobs.BatchSize(10))
		}, 8, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var o order
			w.registry.Register("urgent", jobs.InTx(func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return o.check(ctx, job)
			}), jobs.Priority(100))
			test.backlog(w.registry, &o)
			w.enqueue("urgent", slot(1), 300)
			w.enqueue("backlog", slot(1), 300)
			result := w.run(slot(1), func(cfg *slots.Config) { cfg.Page, cfg.Workers, cfg.Connections = 50, test.workers, test.connections })
			if result.Finished != 600 {
				t.Errorf("%+v", result)
			}
			// What is claimed ahead of its turn is at most a page of each.
			if first := o.first("backlog"); first < 200 {
				t.Errorf("the first of the backlog was check %d, the last urgent one %d", first, o.last("urgent"))
			}
		})
	}
}
