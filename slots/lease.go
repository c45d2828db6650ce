package slots

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// watchEvery is how often a run looks for leases that are about to end, and for checks that ignore their timeout.
const watchEvery = 100 * time.Millisecond

// leases are the claims of a run, and keep them its own.
type leases struct {
	run    *run
	mu     sync.Mutex
	claims map[int64]*claim
	limits []*limit      // of which the run may have places
	soon   chan struct{} // a lease was long on its way, and is to be renewed
}

func newLeases(r *run) *leases {
	return &leases{run: r, claims: map[int64]*claim{}, soon: make(chan struct{}, 1)}
}

func (l *leases) add(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[c.token] = c
	if time.Until(c.until) < l.run.cfg.Lease*2/3 {
		select {
		case l.soon <- struct{}{}:
		default:
		}
	}
}

// watchOver has the places of a limit renewed with the claims.
func (l *leases) watchOver(limit *limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = append(l.limits, limit)
}

// remove forgets a claim that is done.
func (l *leases) remove(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, c.token)
}

func (l *leases) list() []*claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.claims))
}

// lose drops a claim that is not this runner's any more: its checks are told, and nothing of it is recorded.
func (l *leases) lose(c *claim) {
	l.mu.Lock()
	_, held := l.claims[c.token]
	delete(l.claims, c.token)
	l.mu.Unlock()
	if !held {
		return
	}
	c.cancel(ErrLeaseLost)
	l.run.mu.Lock()
	l.run.result.Lost++
	l.run.mu.Unlock()
	l.run.cfg.Logger.WarnContext(l.run.work, "lease lost", "slot", l.run.slot, "claim", c.token)
}

// beat renews the leases three times a lease, and watches over them and over the checks in between, until ctx ends. A
// heartbeat that fails is repeated; one that gets no answer does not keep the next one from being sent.
func (l *leases) beat(ctx context.Context) {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renew, watch := time.Tick(l.run.cfg.Lease/3), time.Tick(watchEvery)
	busy := make(semaphore, 2)
	beat := func() {
		if busy.try() {
			renewing.Go(func() {
				defer busy.leave()
				for !l.renew(ctx) && sleep(ctx, watchEvery) {
				}
			})
		}
	}
	for {
		select {
		case <-renew:
			beat()
		case <-l.soon:
			beat()
		case <-watch:
			l.watch()
		case <-ctx.Done():
			return
		}
	}
}

// renew renews the leases once, if the database answers. Claims that are somebody else's by now are lost; when it never
// does, watch sees to it.
func (l *leases) renew(ctx context.Context) bool {
	claims := l.list()
	tokens := pq.Int64Array{l.run.token}
	for _, c := range claims {
		tokens = append(tokens, c.token)
	}
	asked := monotonic() // before the statement: the lease cannot end earlier than counted from here
	ctx, cancel := context.WithTimeout(ctx, l.run.cfg.Lease/3)
	defer cancel()
	var m pgsql.Message
	kept := map[int64]bool{}
	m.Add(pgsql.ClaimRenew.In(l.run.schema), []any{tokens, l.run.cfg.Lease.Microseconds()}, into(kept))
	if err := l.run.commit(ctx, &m); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			l.run.cfg.Logger.WarnContext(ctx, "heartbeat failed", "error", err)
		}
		return false
	}
	l.mu.Lock()
	limits := slices.Clone(l.limits)
	l.mu.Unlock()
	for _, limit := range limits {
		limit.renewed(asked)
	}
	for _, c := range claims {
		if kept[c.token] {
			l.mu.Lock()
			c.until = asked.Add(l.run.cfg.Lease)
			l.mu.Unlock()
		} else if !c.ending.Load() { // else it may be gone because its last rows were recorded
			l.lose(c)
		}
	}
	for _, limit := range limits {
		limit.giveOwed(ctx)
	}
	return true
}

// watch drops claims before their lease can end, and gives up on checks that ignore their timeout.
func (l *leases) watch() {
	for _, c := range l.list() {
		if rd := c.round.Load(); !l.expired(c) && rd != nil {
			rd.abandonOverdue()
		}
	}
}

// expired drops a claim before its lease can end: the time is measured here, on the monotonic clock, so that it also ends
// when the network is dead or the process was stopped for a while.
func (l *leases) expired(c *claim) bool {
	l.mu.Lock()
	margin := monotonic().Add(l.run.cfg.Lease / 10)
	late := c.until.Before(margin) || slices.ContainsFunc(c.lanes, func(l *lane) bool { return l.limit != nil && l.limit.endsBefore(margin) })
	l.mu.Unlock()
	if late {
		l.lose(c)
	}
	return late
}

// good tells whether nobody can have taken a claim over yet.
func (l *leases) good(c *claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return monotonic().Before(c.until)
}

// handBack gives up the claims that are not done, so that others need not wait for their leases to end, and leaves the
// slot.
func (l *leases) handBack() {
	tokens := pq.Int64Array{}
	for _, c := range l.list() {
		tokens = append(tokens, c.token)
	}
	ctx, cancel := context.WithTimeout(l.run.work, closingTime)
	defer cancel()
	var m pgsql.Message
	m.Add(pgsql.ClaimRelease.In(l.run.schema), []any{tokens, l.run.token}, nothing)
	if err := l.run.commit(ctx, &m); err != nil {
		l.run.cfg.Logger.WarnContext(ctx, "claims were not handed back; others take them over when their leases end", "error", err)
	}
}
