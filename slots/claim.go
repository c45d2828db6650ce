package slots

import (
	"slices"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/record"
)

// claim claims rows of a lane and starts the work on them. It returns false if there were none.
func (r *run) claim(l *lane.Lane) (bool, error) {
	w := r.newWork(l)
	if ok, err := r.obtainPermit(w, l); !ok {
		return false, err
	}
	rows := r.lanes.Want(l)
	if rows < 1 { // the limit was reached since Next. A claim of no rows would mark the job as drained
		w.releasePermits()
		return false, nil
	}
	c, left, err := r.session.Claim(l.First(), rows)
	if c == nil {
		w.releasePermits()
	}
	if err != nil {
		return false, err
	}
	l.Claimed(left)
	if c == nil {
		return false, nil
	}
	if !r.tasks.isBusy() && !r.lanes.Waits(elapsed.Now()) && !r.sel.skips && r.sel.limit == 0 {
		w.last = record.CloseSlot // no claim comes after it, as far as the run can see
	}
	w.start(c)
	return true, nil
}

// obtainPermit obtains a permit before anything is claimed, if all rows of the claim will need the
// same: no other run can check the rows that this one has claimed. Without a permit the lane pauses
// for a while. Rows that are only moved or ended need none.
func (r *run) obtainPermit(w *work, l *lane.Lane) (ok bool, err error) {
	if !l.HasOneKey() {
		return true, nil
	}
	if verdict, skips := r.sel.judge(l.Job, new(jobs.FutureJob), r.moment()); verdict != nil || skips {
		return true, nil
	}
	buckets, err := l.Limit.Obtain(r.ctx.Stop, w.permits, map[string]int{"": l.AtOnce})
	if err == nil && len(buckets) == 0 {
		l.Pause(elapsed.Now().Add(idleEvery))
	}
	return len(buckets) > 0, err
}

// takeOver takes over a claim whose lease has ended, or its rows of the jobs that are known here.
func (r *run) takeOver() (bool, error) {
	numbers := r.lanes.Numbers()
	if r.lanes.IsLimitReached() || len(numbers) == 0 {
		return false, nil
	}
	c, err := r.session.TakeOver(numbers)
	if c == nil {
		return false, err
	}
	w := r.newWork()
	for _, number := range c.Jobs {
		if l := r.lanes.Of(number); !slices.Contains(w.lanes, l) {
			w.lanes = append(w.lanes, l)
		}
	}
	w.maybeCalled = true
	r.report.takeOver()
	w.start(c)
	return true, nil
}
