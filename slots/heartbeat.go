package slots

import (
	"context"
	"slices"
	"time"
)

// beat renews the leases three times a lease, until ctx ends.
func (s *scan) beat(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.renew(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// renew renews the leases once. Shards that somebody else has meanwhile are lost; when the database does not answer,
// watch sees to it.
func (s *scan) renew(ctx context.Context) {
	s.mu.Lock()
	var claims []claim
	for _, sh := range s.shards {
		claims = append(claims, sh.claim)
	}
	s.mu.Unlock()
	if len(claims) == 0 {
		return
	}
	asked := monotonic() // before the statement: the lease cannot end earlier than counted from here
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease/3)
	defer cancel()
	kept, err := s.ledger.renew(ctx, claims)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "heartbeat failed", "error", err)
		}
		return
	}
	for _, c := range claims {
		s.mu.Lock()
		sh, ok := s.shards[c.shard]
		ok = ok && sh.token == c.token && !sh.closing
		if ok && slices.Contains(kept, c.shard) {
			sh.until = asked.Add(s.cfg.Lease)
			ok = false
		}
		s.mu.Unlock()
		if ok {
			s.lose(sh)
		}
	}
}

// watch drops shards before their lease can end: the time is measured here, on the monotonic clock, so that it also
// ends when the network is dead or the process was stopped for a while. It also gives up on checks that ignore their
// timeout, and lets writers see outcomes that have waited long enough.
func (s *scan) watch(ctx context.Context) {
	ticker := time.NewTicker(linger)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		margin := s.cfg.Lease / 10
		var late []*shard
		s.mu.Lock()
		for _, sh := range s.shards {
			if time.Until(sh.until) < margin {
				late = append(late, sh)
			}
		}
		overdue := s.overdue()
		if len(s.pending) > 0 {
			s.ready.Broadcast()
		}
		s.mu.Unlock()
		for _, sh := range late {
			s.lose(sh)
		}
		for _, f := range overdue {
			s.abandon(f)
		}
	}
}

// isHeld tells whether a shard is this runner's. Call it with mu held.
func (s *scan) isHeld(sh *shard) bool { return s.shards[sh.shard] == sh }

// lose drops shards that are not this runner's any more: their checks are told, and nothing of them is recorded.
func (s *scan) lose(shards ...*shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range shards {
		if !s.isHeld(sh) {
			continue
		}
		delete(s.shards, sh.shard)
		s.result.Lost++
		sh.cancel(ErrLeaseLost)
		s.cfg.Logger.WarnContext(s.work, "lease lost", "slot", s.ledger.slot, "shard", sh.shard)
	}
	s.pending = slices.DeleteFunc(s.pending, func(o outcome) bool {
		lost := !s.isHeld(o.shard)
		if lost {
			s.land(o.shard, o.lane, o.id)
		}
		return lost
	})
	for f := range s.running {
		if !slices.ContainsFunc(f.shards, s.isHeld) {
			f.cancel(ErrLeaseLost)
		}
	}
	s.notify()
}
