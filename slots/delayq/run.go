package delayq

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
)

// lanes bounds the slots that are handled at once. With narrow slots a slow item soon spans
// several, and must not block the others.
const lanes = 8

// RunContext handles due items, also those that became due before, until ctx ends. It then gives
// running calls of handle their Grace, records their results, and returns nil. The next run repeats
// calls that take longer. If a call goes on after its timeout and the Grace, RunContext returns
// slots.ErrAbandoned: only the end of the process ends that call.
//
// handle is called from many goroutines at once. An error, a panic and a timeout are retried as
// Config.Retry says. nil ends the item. While the database does not answer, RunContext waits for
// it.
func (q *Queue) RunContext(ctx context.Context, handle func(ctx context.Context, item Item) error) error {
	if handle == nil {
		return fmt.Errorf("run queue %s: the function is nil", q.cfg.Schema)
	}
	registry := jobs.NewRegistry()
	registry.Register(job, jobs.Row(func(ctx context.Context, row jobs.FutureJob) (*time.Time, error) {
		item, err := unpack(row)
		if err != nil {
			return nil, err
		}
		return nil, handle(ctx, item)
	}), jobs.Retry(max(0, cmp.Or(q.cfg.Retry, defaults.Retry))),
		jobs.Timeout(cmp.Or(q.cfg.Timeout, defaults.Timeout)))

	err := daemon.Run(ctx, daemon.Config{
		Runner: slots.Config{
			DB: q.db, Schema: q.cfg.Schema, Registry: registry, Workers: q.cfg.Workers, Grace: q.cfg.Grace, Lease: q.cfg.Lease,
			Logger: q.cfg.Logger,
		},
		Slots: lanes,
		Keep:  max(0, cmp.Or(q.cfg.Keep, DefaultKeep)),
	})
	if err != nil {
		return fmt.Errorf("run queue %s: %w", q.cfg.Schema, err)
	}
	return nil
}
