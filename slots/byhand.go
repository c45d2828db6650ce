package slots

import (
	"context"
	"time"
)

// RunJob runs the rows of one job in a slot that has begun, beside the runs that work on the slot. An operator moves a
// row there to have it checked now. RunJob calls the function of each row, whatever the misfire policy of the job says.
//
// It leaves rows that other sessions have locked after some seconds, and then returns ErrLocked. A row that another
// runner holds stays with that runner.
func (r *Runner) RunJob(ctx context.Context, slot time.Time, job string) (Result, error) {
	return r.run(ctx, slot.UTC(), selection{
		kind: KindCatchUp, job: job, byHand: true, judge: check, beside: newBeside(&r.cfg), started: func() {},
		leftBefore: true,
	})
}
