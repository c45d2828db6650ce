package slots

import (
	"context"
	"time"
)

// RunJob runs the rows of one job in a slot that has begun. An operator moves a row there to have it checked now.
// RunJob calls the function of each row, whatever the misfire policy of the job says. For the ledger it is no catch-up.
//
// It leaves rows that other sessions have locked after some seconds, and then returns ErrLocked. A row that another
// runner holds stays with that runner. While other runners work on the slot, it may leave the row to catch-up.
func (r *Runner) RunJob(ctx context.Context, slot time.Time, job string) (Result, error) {
	return r.run(ctx, slot.UTC(), selection{
		kind: KindCatchUp, job: job, byHand: true, judge: check, beside: newBeside(&r.cfg), letNext: func() {},
	})
}
