package lane

import (
	"context"

	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// Queue has units that wait at the same gate.
type Queue struct {
	Gate   *permit.Gate
	AtOnce int // how many of their checks run at once
	Units  []*unit.Unit
}

// Admit divides units of lanes by the gates that they wait at. It returns the units without a permit as parked.
func (s *Lanes) Admit(
	ctx context.Context, set *permit.Set, lanes []*Lane, units []*unit.Unit,
) (queues []Queue, parked []*unit.Unit, err error) {
	if len(lanes) == 1 {
		return lanes[0].admit(ctx, set, units)
	}
	byLane := map[*Lane][]*unit.Unit{}
	for _, u := range units {
		l := s.Of(u.Number)
		byLane[l] = append(byLane[l], u)
	}
	for _, l := range lanes {
		more, without, err := l.admit(ctx, set, byLane[l])
		if err != nil {
			return nil, nil, err
		}
		queues, parked = append(queues, more...), append(parked, without...)
	}
	return queues, parked, nil
}

// admit divides units of the lane by their limit keys.
func (l *Lane) admit(
	ctx context.Context, set *permit.Set, units []*unit.Unit,
) (queues []Queue, parked []*unit.Unit, err error) {
	if l.Limit == nil {
		return l.withoutLimit(units), nil, nil
	}
	var uncalled []*unit.Unit // which need no permit
	byKey, wanted := map[string][]*unit.Unit{}, map[string]int{}
	for _, u := range units {
		if u.Verdict != nil {
			uncalled = append(uncalled, u)
			continue
		}
		key := l.LimitKey(u.Rows[0])
		byKey[key] = append(byKey[key], u)
		wanted[key]++
	}
	buckets, err := l.Limit.Obtain(ctx, set, wanted)
	if err != nil {
		return nil, nil, err
	}
	queues = []Queue{l.queue(nil, uncalled)}
	for key, units := range byKey {
		if bucket := buckets[key]; bucket != nil {
			queues = append(queues, l.queue(bucket, units))
		} else {
			parked = append(parked, units...)
		}
	}
	return queues, parked, nil
}

// withoutLimit divides units into those whose rows have a call of their own, and the others.
func (l *Lane) withoutLimit(units []*unit.Unit) []Queue {
	var alone, others []*unit.Unit
	for _, u := range units {
		if u.IsAlone() {
			alone = append(alone, u)
		} else {
			others = append(others, u)
		}
	}
	room := l.lanes.Bounds.alone
	gate := permit.NewGate(l.lanes.Stop, append([]permit.Semaphore{room}, l.semaphores...), nil)
	return []Queue{l.queue(nil, others), {Gate: gate, AtOnce: min(l.AtOnce, cap(room)), Units: alone}}
}

// queue returns a queue of units that are subject to a bucket of the lane's limit. Nil: to no limit.
func (l *Lane) queue(bucket *permit.Bucket, units []*unit.Unit) Queue {
	return Queue{Gate: permit.NewGate(l.lanes.Stop, l.semaphores, bucket), AtOnce: l.AtOnce, Units: units}
}
