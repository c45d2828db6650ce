package slots

import (
	"context"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// admit divides units by the limits that they are subject to. Units without a permit are postponed.
func (s *lanes) admit(c *claim, units []*unit.Unit) (queues []*queue, err error) {
	if len(c.lanes) == 1 {
		return c.lanes[0].admit(c, units)
	}
	byLane := map[*lane][]*unit.Unit{}
	for _, u := range units {
		l := s.of(u.Number)
		byLane[l] = append(byLane[l], u)
	}
	for _, l := range c.lanes {
		more, err := l.admit(c, byLane[l])
		if err != nil {
			return nil, err
		}
		queues = append(queues, more...)
	}
	return queues, nil
}

// admit divides units of the lane by their limit keys. Units without a permit are postponed.
func (l *lane) admit(c *claim, units []*unit.Unit) ([]*queue, error) {
	free := l.queue(nil)
	if l.limit == nil {
		free.units = units
		return []*queue{free}, nil
	}
	byKey, wanted := map[string][]*unit.Unit{}, map[string]int{}
	for _, u := range units {
		if u.Verdict != nil { // units without a call need no permit
			free.units = append(free.units, u)
			continue
		}
		key := l.limitKey(u.Rows[0])
		byKey[key] = append(byKey[key], u)
		wanted[key]++
	}
	shares, err := l.limit.Obtain(c.ctx, c.shares, wanted)
	if err != nil {
		return nil, err
	}
	queues := []*queue{free}
	for key, units := range byKey {
		if share := shares[key]; share != nil {
			q := l.queue(share)
			q.units = units
			queues = append(queues, q)
		} else {
			c.postpone(units...)
		}
	}
	return queues, nil
}

// queue returns a queue for checks of the lane that are subject to a share of its limit. Nil: to no limit.
func (l *lane) queue(share *permit.Share) *queue {
	return &queue{door: permit.NewDoor(l.stop, l.gates, share), places: l.spec.Places}
}

// hasOneKey reports whether all checks of the lane are subject to the same limit.
func (l *lane) hasOneKey() bool { return l.limit != nil && l.job.LimitBy == nil }

// limitKey returns the limit key of a row: the empty key if the job has no key function, or if the function panics.
func (l *lane) limitKey(row jobs.FutureJob) (key string) {
	if l.limit == nil || l.job.LimitBy == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			l.panics.LimitBy(context.WithoutCancel(l.stop), l.job.Name, row.Key().String(), p)
		}
	}()
	return permit.Key(l.job.LimitBy(row))
}
