package slots

import (
	"sync"

	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// queue holds units that wait at the same door.
type queue struct {
	door   *permit.Door
	places int // how many of its checks run at once

	mu       sync.Mutex
	units    []*unit.Unit
	entering int // goroutines that wait for room for one of the units
}

// isNeeded reports whether there are more units than goroutines that wait for room, and counts another goroutine. A
// goroutine that waits for an instant of a rate keeps that instant from other checks.
func (q *queue) isNeeded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entering >= len(q.units) {
		return false
	}
	q.entering++
	return true
}

// next takes the first unit for a goroutine that has room now, or that has done the check before in the same place. It
// returns nil if there is none, or if the unit may not follow the check before.
func (q *queue) next(before *unit.Unit) *unit.Unit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if before == nil {
		q.entering--
	}
	if len(q.units) == 0 || before != nil && !q.units[0].Follows(before) {
		return nil
	}
	u := q.units[0]
	q.units = q.units[1:]
	return u
}
