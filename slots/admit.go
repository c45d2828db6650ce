package slots

import (
	"context"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/permit"
)

// admit divides units by the limits that they are subject to. Units without a permit are postponed.
func (r *run) admit(c *claim, units []*unit) (queues []*queue, err error) {
	if len(c.lanes) == 1 {
		return r.admitTo(c, c.lane, units)
	}
	byLane := map[*lane][]*unit{}
	for _, u := range units {
		l := r.known[u.number].lane
		byLane[l] = append(byLane[l], u)
	}
	for _, l := range c.lanes {
		more, err := r.admitTo(c, l, byLane[l])
		if err != nil {
			return nil, err
		}
		queues = append(queues, more...)
	}
	return queues, nil
}

func (r *run) admitTo(c *claim, of *lane, units []*unit) ([]*queue, error) {
	l := of.limit
	if l == nil {
		return []*queue{{lane: of, door: of.door(r.stop, nil), units: units}}, nil
	}
	free := &queue{lane: of, door: of.door(r.stop, nil)} // units without a call need no permit
	byKey, wanted := map[string]*queue{}, map[string]int{}
	for _, u := range units {
		q := free
		if u.verdict == nil {
			key := r.limitKey(of, u.rows[0])
			if byKey[key] == nil {
				byKey[key] = &queue{lane: of}
			}
			q = byKey[key]
			wanted[key]++
		}
		q.units = append(q.units, u)
	}
	shares, err := l.Obtain(c.ctx, c.shares, wanted)
	if err != nil {
		return nil, err
	}
	queues := []*queue{free}
	for key, q := range byKey {
		if share := shares[key]; share != nil {
			q.door = of.door(r.stop, share)
			queues = append(queues, q)
			continue
		}
		for _, u := range q.units {
			c.postpone(u)
		}
	}
	return queues, nil
}

// limitKey returns the limit key of a row: the empty key if the job has no key function, or if the function panics.
func (r *run) limitKey(l *lane, row jobs.FutureJob) (key string) {
	if l.limit == nil || l.job.LimitBy == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Log(r.work, r.report.panicLevel("LimitBy of "+l.job.Name), "LimitBy panicked: the check counts to the empty key", "check", row.Key().String(), "panic", p)
		}
	}()
	return permit.Key(l.job.LimitBy(row))
}

// door is where checks of a lane wait that are subject to a share of its limit.
func (l *lane) door(stop context.Context, share *permit.Share) *permit.Door {
	return permit.NewDoor(stop, l.gates, share)
}

// makeRoom obtains a permit before anything is claimed, if all rows of the claim will need the same: no other run can
// check the rows that this one has claimed. Without a permit the lane rests for a while. Rows that are only moved or
// ended need none.
func (r *run) makeRoom(c *claim) (ok bool, err error) {
	l := c.lane
	if l.limit == nil || l.job.LimitBy != nil {
		return true, nil
	}
	if verdict, stays := r.sel.judge(l.job, new(jobs.FutureJob), r.moment()); verdict != nil || stays {
		return true, nil
	}
	shares, err := l.limit.Obtain(r.stop, c.shares, map[string]int{"": l.spec.Places})
	if err == nil && len(shares) == 0 {
		l.turn.Rest(elapsed.Now().Add(lookEvery))
	}
	return len(shares) > 0, err
}

// giveUp gives back the permits of a claim.
func (r *run) giveUp(c *claim) {
	for _, l := range c.lanes {
		if l.limit != nil && len(c.shares) > 0 {
			l.limit.Leave(c.shares)
		}
	}
}
