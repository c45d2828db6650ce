package delayq

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/daemon"
)

// lanes is how many slots are handled at once: with narrow slots a slow item soon spans several, and must not hold up
// the rest.
const lanes = 8

// RunContext handles items as they become due, and those that became due before, until ctx ends. It then gives running calls
// of handle their Grace, records what they return, and returns nil; what takes longer is handled again by whoever runs
// the queue next. A call that goes on after its timeout and the Grace, too, ends it with slots.ErrAbandoned: it ends
// with the process alone.
//
// handle is called from many goroutines at once. An error, a panic and a timeout are tried again as Config.Retry says;
// nil is the end of the item. While the database does not answer it waits for it.
func (q *Queue) RunContext(ctx context.Context, handle func(ctx context.Context, item Item) error) error {
	if handle == nil {
		return fmt.Errorf("run queue %s: the function is nil", q.cfg.Schema)
	}
	registry := jobs.NewRegistry()
	registry.Register(job, func(ctx context.Context, row jobs.FutureJob) (*time.Time, error) {
		item, err := unpack(row)
		if err != nil {
			return nil, err
		}
		return nil, handle(ctx, item)
	}, jobs.Retry(max(0, cmp.Or(q.cfg.Retry, jobs.DefaultRetry))), jobs.Timeout(cmp.Or(q.cfg.Timeout, jobs.DefaultTimeout)))

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
