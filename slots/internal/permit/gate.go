package permit

import (
	"context"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// Gate lets a check start when a permit of AtMost, an instant of PerSecond and a worker are there for it.
type Gate struct {
	stop       context.Context
	semaphores semaphores
	bucket     *Bucket // nil: no limit applies to its checks
}

// NewGate returns a gate of semaphores, which a check acquires in their order until stop ends. bucket is nil if no
// limit applies to the checks.
func NewGate(stop context.Context, of []Semaphore, bucket *Bucket) *Gate {
	return &Gate{stop, of, bucket}
}

// Acquire waits for room for a check, and for the instant at which the check may begin. It returns false
// if ctx or the run ends first.
func (g *Gate) Acquire(ctx context.Context) (Permit, bool) {
	at, ok := g.acquire(ctx)
	return Permit{Since: elapsed.Now(), bucket: g.bucket, at: at}, ok
}

func (g *Gate) acquire(ctx context.Context) (at time.Time, ok bool) {
	if g.bucket == nil {
		return at, g.semaphores.acquire(g.stop, ctx)
	}
	if !g.bucket.acquire(ctx) {
		return at, false
	}
	if at, ok = g.acquireOutside(ctx); ok && late(at) { // because the workers were busy
		g.semaphores.release()
		at, ok = g.acquireInside(ctx)
	}
	if !ok {
		g.bucket.release()
	}
	return at, ok
}

// acquireOutside waits for an instant, and then for a worker. Few checks do so at a time, because an
// instant may pass while its check waits for the worker.
func (g *Gate) acquireOutside(ctx context.Context) (at time.Time, ok bool) {
	b := g.bucket
	if !b.outside.Acquire(g.stop, ctx) {
		return at, false
	}
	defer b.outside.Release()
	if at, ok = b.pace.await(ctx); ok {
		ok = g.semaphores.acquire(g.stop, ctx)
	}
	return at, ok
}

// acquireInside waits for an instant while it occupies a worker. Few checks do so at a time, because
// other checks could use the worker.
func (g *Gate) acquireInside(ctx context.Context) (at time.Time, ok bool) {
	b := g.bucket
	if !b.inside.Acquire(g.stop, ctx) {
		return at, false
	}
	defer b.inside.Release()
	if !g.semaphores.acquire(g.stop, ctx) {
		return at, false
	}
	if at, ok = b.pace.await(ctx); !ok {
		g.semaphores.release()
	}
	return at, ok
}

// Release makes room for another check.
func (g *Gate) Release() {
	g.semaphores.release()
	if g.bucket != nil {
		g.bucket.release()
	}
}

// Permit lets a check start. The checks that follow it in a chain keep it.
type Permit struct {
	Since time.Time // local monotonic instant at which the check got past the gate

	bucket *Bucket   // nil: no limit applies to the check
	at     time.Time // when its rate lets it begin; zero: at any instant
}

// IsLimited reports whether a limit applies to the check.
func (p *Permit) IsLimited() bool { return p.bucket != nil }

// Renew waits for another instant at which the check may begin, if its own has passed. It returns false
// if ctx or the run ends first.
func (p *Permit) Renew(ctx context.Context) (ok bool) {
	if !late(p.at) {
		return true
	}
	p.at, ok = p.bucket.pace.await(ctx)
	return ok
}

// GiveBack gives the instant to the next check, because the function of this check is not called.
func (p *Permit) GiveBack() {
	if !p.at.IsZero() && !late(p.at) {
		p.bucket.pace.giveBack(p.at)
	}
	p.at = time.Time{}
}
