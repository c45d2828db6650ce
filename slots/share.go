package slots

import "time"

// A runner claims every free shard and reads them together. One that comes later, or is through with its own, finds
// none free and asks: whoever holds several that are not read to their end gives up half of them.

const (
	// lookEvery is how often a runner looks whether another one asks, and how often that one looks for a free shard.
	lookEvery = 200 * time.Millisecond
	// askEvery is how often a runner without shards asks, and how long one that has had none stays.
	askEvery = time.Second
)

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
	if time.Since(s.looked) < lookEvery || len(s.unread()) < 2 {
		return false
	}
	s.looked = monotonic()
	return true
}

// setApart stops reading half of the shards when somebody has asked since the last time.
func (s *scan) setApart(asked int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked > s.asked {
		unread := s.unread()
		for _, sh := range unread[len(unread)-len(unread)/2:] {
			sh.leaving = true
		}
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
	if time.Since(s.ask) >= askEvery {
		s.ask = monotonic()
		if err := s.retry(func() error { return s.ledger.ask(s.work) }); err != nil {
			return false, err
		}
	}
	s.wait(min(max(ends, 10*time.Millisecond), lookEvery, s.cfg.Lease/3))
	return false, nil
}
