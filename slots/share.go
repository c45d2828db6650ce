package slots

import (
	"cmp"
	"slices"
	"time"
)

// A runner claims every free shard and reads them together. One that comes later, or is through with its own, finds
// none free and asks: whoever holds several that are not read to their end, or whose rows wait, gives up half of them.

const (
	// lookEvery is how often a runner looks whether another one asks, and how often that one looks for a free shard.
	lookEvery = 200 * time.Millisecond
	// askEvery is how often a runner without shards asks, and how long one that has given shards up leaves them to it.
	askEvery = time.Second
)

// stay is how long a runner stays that has had no share of the slot: for a lease, in which the checks that hold up
// what was set apart for it may end, or their runner be found dead. Catch-up has other slots to look at.
func (s *scan) stay() time.Duration {
	if s.result.Kind == KindCatchUp {
		return askEvery
	}
	return s.cfg.Lease
}

// share sets shards apart for a runner that asks, and hands back those of which nothing is on its way any more.
func (s *scan) share() error {
	if s.mayGive() {
		var asked int64
		err := s.retry(func() (err error) {
			asked, err = s.ledger.asked(s.work)
			return err
		})
		if err != nil {
			return err
		}
		s.setApart(asked)
	}
	claims := s.landed()
	if len(claims) == 0 {
		return nil
	}
	return s.retry(func() error { return s.ledger.release(s.work, claims) })
}

// mayGive tells whether it is time to look, and there is something to give.
func (s *scan) mayGive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked) < lookEvery || len(s.givable()) < 2 {
		return false
	}
	s.looked = monotonic()
	return true
}

// givable returns the shards that another runner could go on with, those first of which the fewest rows are being
// checked. Call it with mu held.
func (s *scan) givable() []*shard {
	waiting, checking := map[*shard]bool{}, map[*shard]int{}
	for _, g := range s.gates {
		for _, f := range g.waiting {
			waiting[f.shards[0]] = true
		}
	}
	for f := range s.running {
		for _, sh := range f.shards {
			checking[sh]++
		}
	}
	var list []*shard
	for _, sh := range s.shards {
		if (!sh.passed || waiting[sh]) && !sh.leaving && !sh.closing && !sh.resting {
			list = append(list, sh)
		}
	}
	slices.SortFunc(list, func(a, b *shard) int {
		return cmp.Or(cmp.Compare(checking[a], checking[b]), cmp.Compare(b.shard, a.shard))
	})
	return list
}

// setApart gives up half of the shards when somebody has asked since the last time: they are read no more, and their
// rows that wait for their turn are let go.
func (s *scan) setApart(asked int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked > s.asked {
		list := s.givable()
		for _, sh := range list[:len(list)/2] {
			sh.leaving = true
		}
		s.dismiss(func(f *flight) bool {
			return !slices.ContainsFunc(f.shards, func(sh *shard) bool { return !sh.leaving })
		})
	}
	s.asked = asked
}

// landed drops the shards that were set apart and have no row in flight, and returns their claims. They are dropped
// before they are handed back, or a heartbeat in between would find their leases lost.
func (s *scan) landed() []claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	var claims []claim
	for number, sh := range s.shards {
		if sh.leaving && sh.flying == 0 {
			claims = append(claims, sh.claim)
			sh.cancel(nil)
			delete(s.shards, number)
			s.gave = monotonic()
		}
	}
	return claims
}

// standBy waits for the shards of other runners: for a share that they give up, or to take over from one that dies. It
// reports the slot done when no shard is left.
func (s *scan) standBy() (done bool, err error) {
	var held int
	var ends time.Duration
	err = s.retry(func() (err error) {
		held, ends, err = s.ledger.held(s.work)
		return err
	})
	if err != nil || held == 0 {
		return err == nil, err
	}
	if time.Since(s.askedAt) >= askEvery {
		s.askedAt = monotonic()
		if err := s.retry(func() error { return s.ledger.ask(s.work) }); err != nil {
			return false, err
		}
	}
	s.wait(min(max(ends, 10*time.Millisecond), lookEvery))
	return false, nil
}
