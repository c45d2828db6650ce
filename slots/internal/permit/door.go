package permit

import (
	"context"
	"time"
)

// Door is where checks wait for what they need: a place, an instant, a worker.
type Door struct {
	stop  context.Context
	gates gates
	share *Share // nil: its checks are subject to no limit
}

// NewDoor returns a door with gates that are entered in their order, until stop ends. The share is nil for checks that
// are subject to no limit.
func NewDoor(stop context.Context, of []Semaphore, share *Share) *Door { return &Door{stop, of, share} }

// IsLimited tells whether its checks are subject to a limit.
func (d *Door) IsLimited() bool { return d.share != nil }

// Enter waits for room for a check, and for the instant at which the check may begin; see Await. It returns false when
// ctx or the run ends first.
func (d *Door) Enter(ctx context.Context) (at time.Time, ok bool) {
	if d.share == nil {
		return at, d.gates.enter(d.stop, ctx)
	}
	if !d.share.enter(ctx) {
		return at, false
	}
	if at, ok = d.enterNext(ctx); ok && Late(at) { // since the workers were busy
		d.gates.leave()
		at, ok = d.enterHolding(ctx)
	}
	if !ok {
		d.share.leave()
	}
	return at, ok
}

// enterNext waits for an instant, and then for a worker. Few do so at a time, since the instant passes meanwhile.
func (d *Door) enterNext(ctx context.Context) (at time.Time, ok bool) {
	s := d.share
	if !s.next.Enter(d.stop, ctx) {
		return at, false
	}
	defer s.next.Leave()
	if at, ok = s.await(ctx); ok {
		ok = d.gates.enter(d.stop, ctx)
	}
	return at, ok
}

// enterHolding waits for an instant while it occupies a worker. Few checks do so at a time, since other checks could
// use the worker.
func (d *Door) enterHolding(ctx context.Context) (at time.Time, ok bool) {
	holding := d.share.limit.holding
	if !holding.Enter(d.stop, ctx) {
		return at, false
	}
	defer holding.Leave()
	if !d.gates.enter(d.stop, ctx) {
		return at, false
	}
	if at, ok = d.share.await(ctx); !ok {
		d.gates.leave()
	}
	return at, ok
}

// Await waits for another instant at which a check may begin that has entered: its own has passed.
func (d *Door) Await(ctx context.Context) bool {
	_, ok := d.share.await(ctx)
	return ok
}

// Spare gives an instant to the next check: the function of the check that had it is not called.
func (d *Door) Spare(at time.Time) {
	if !at.IsZero() && !Late(at) {
		d.share.pace.spare(at)
	}
}

// Leave makes room for another check.
func (d *Door) Leave() {
	d.gates.leave()
	if d.share != nil {
		d.share.leave()
	}
}
