package permit

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

// Door lets a check in when there is a place, an instant and a worker for it.
type Door struct {
	stop  context.Context
	gates gates
	share *Share // nil: no limit applies to its checks
}

// NewDoor returns a door with gates, which a check enters in their order until stop ends. share is nil
// if no limit applies to the checks.
func NewDoor(stop context.Context, of []Semaphore, share *Share) *Door { return &Door{stop, of, share} }

// Enter waits for room for a check, and for the instant at which the check may begin. It returns false
// if ctx or the run ends first.
func (d *Door) Enter(ctx context.Context) (Pass, bool) {
	at, ok := d.enter(ctx)
	return Pass{Since: elapsed.Now(), share: d.share, at: at}, ok
}

func (d *Door) enter(ctx context.Context) (at time.Time, ok bool) {
	if d.share == nil {
		return at, d.gates.enter(d.stop, ctx)
	}
	if !d.share.enter(ctx) {
		return at, false
	}
	if at, ok = d.enterNext(ctx); ok && late(at) { // because the workers were busy
		d.gates.leave()
		at, ok = d.enterHolding(ctx)
	}
	if !ok {
		d.share.leave()
	}
	return at, ok
}

// enterNext waits for an instant, and then for a worker. Few checks do so at a time, because the
// instant passes meanwhile.
func (d *Door) enterNext(ctx context.Context) (at time.Time, ok bool) {
	s := d.share
	if !s.next.Enter(d.stop, ctx) {
		return at, false
	}
	defer s.next.Leave()
	if at, ok = s.pace.await(ctx); ok {
		ok = d.gates.enter(d.stop, ctx)
	}
	return at, ok
}

// enterHolding waits for an instant while it occupies a worker. Few checks do so at a time, because
// other checks could use the worker.
func (d *Door) enterHolding(ctx context.Context) (at time.Time, ok bool) {
	s := d.share
	if !s.holding.Enter(d.stop, ctx) {
		return at, false
	}
	defer s.holding.Leave()
	if !d.gates.enter(d.stop, ctx) {
		return at, false
	}
	if at, ok = s.pace.await(ctx); !ok {
		d.gates.leave()
	}
	return at, ok
}

// Leave makes room for another check.
func (d *Door) Leave() {
	d.gates.leave()
	if d.share != nil {
		d.share.leave()
	}
}

// Pass is the room that a Door has given to a check. Checks that follow in the same place keep it.
type Pass struct {
	Since time.Time // local monotonic instant at which the check entered

	share *Share    // nil: no limit applies to the check
	at    time.Time // when its rate lets it begin; zero: at any instant
}

// IsLimited reports whether a limit applies to the check.
func (p *Pass) IsLimited() bool { return p.share != nil }

// Renew waits for another instant at which the check may begin, if its own has passed. It returns false
// if ctx or the run ends first.
func (p *Pass) Renew(ctx context.Context) (ok bool) {
	if !late(p.at) {
		return true
	}
	p.at, ok = p.share.pace.await(ctx)
	return ok
}

// Spare gives the instant to the next check, because the function of this check is not called.
func (p *Pass) Spare() {
	if !p.at.IsZero() && !late(p.at) {
		p.share.pace.spare(p.at)
	}
	p.at = time.Time{}
}
