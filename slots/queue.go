package slots

import (
	"context"
	"time"
)

// queue holds units of a lane that wait at the same door.
type queue struct {
	lane     *lane
	door     door
	units    []*unit
	entering int // goroutines that wait for room for one of the units
}

// door is permit.Door.
type door interface {
	Enter(ctx context.Context) (at time.Time, ok bool)
	Await(ctx context.Context) bool
	Spare(at time.Time)
	Leave()
	IsLimited() bool
}

// isNeeded reports whether there are more units than goroutines that wait for room. A goroutine that waits for an
// instant of a rate keeps that instant from other checks.
func (rd *round) isNeeded(q *queue) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if q.entering >= len(q.units) {
		return false
	}
	q.entering++
	return true
}
