package slots

import (
	"slices"
	"time"
)

// queue is units of a lane that are subject to the same limit.
type queue struct {
	lane     *lane
	share    *share // nil: to none
	units    []*unit
	entering int // how many wait for room for one of them
}

// isNeeded tells whether there are more units than those who wait for room will take: an instant of a limit that is waited for is
// nobody else's.
func (rd *round) isNeeded(q *queue) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if q.entering >= len(q.units) {
		return false
	}
	q.entering++
	return true
}

// enter waits for room for a check, and for the instant at which it may begin; see share.await.
func (rd *round) enter(q *queue) (at time.Time, ok bool) {
	if q.share == nil {
		return at, rd.enterGates(q)
	}
	if !q.share.enter(rd.claim) {
		return at, false
	}
	if at, ok = rd.enterNext(q); ok && late(at) { // since the workers were busy
		rd.leaveGates(q)
		at, ok = rd.enterHolding(q)
	}
	if !ok {
		q.share.leave()
	}
	return at, ok
}

// enterNext waits for an instant, and then for a worker. Few do so at a time, since the instant passes meanwhile.
func (rd *round) enterNext(q *queue) (at time.Time, ok bool) {
	s := q.share
	if !s.next.enter(rd.run.stop, rd.claim.ctx) {
		return at, false
	}
	defer s.next.leave()
	if at, ok = s.await(rd.claim.ctx); ok {
		ok = rd.enterGates(q)
	}
	return at, ok
}

// enterHolding waits for an instant with a worker in hand. Few do so at a time, since others could use it.
func (rd *round) enterHolding(q *queue) (at time.Time, ok bool) {
	s := q.share
	if !s.limit.holding.enter(rd.run.stop, rd.claim.ctx) {
		return at, false
	}
	defer s.limit.holding.leave()
	if !rd.enterGates(q) {
		return at, false
	}
	if at, ok = s.await(rd.claim.ctx); !ok {
		rd.leaveGates(q)
	}
	return at, ok
}

func (rd *round) enterGates(q *queue) bool {
	for i, gate := range q.lane.gates {
		if !gate.enter(rd.run.stop, rd.claim.ctx) {
			for _, entered := range q.lane.gates[:i] {
				entered.leave()
			}
			return false
		}
	}
	return true
}

func (rd *round) leaveGates(q *queue) {
	for _, gate := range slices.Backward(q.lane.gates) {
		gate.leave()
	}
}

func (rd *round) leave(q *queue) {
	rd.leaveGates(q)
	if q.share != nil {
		q.share.leave()
	}
}
