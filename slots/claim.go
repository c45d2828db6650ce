package slots

import (
	"context"
	"time"
)

// claim takes all shards that are free; with a claim delay one at a time, so that the runner that is idle takes more,
// unless the slot is of a page. With rows in flight up to their bound, right after it has given shards up, and once the
// limit is reached, it takes none.
func (s *scan) claim() (bool, error) {
	whole := s.result.Planned <= int64(s.cfg.Page)
	if !s.hasRoom() || whole && s.holds() || time.Since(s.gave) < askEvery {
		return false, nil
	}
	limit := allShards
	if s.cfg.ClaimDelay > 0 && !whole {
		limit = 1
	}
	if s.cfg.ClaimDelay > 0 && !s.pause(time.Duration(s.cfg.Load()*float64(s.cfg.ClaimDelay))) {
		return false, nil
	}
	asked := monotonic() // before the statement: the lease cannot end earlier than counted from here
	var claims []claim
	err := s.retry(func() (err error) {
		claims, err = s.ledger.claim(s.work, limit)
		return err
	})
	if err != nil || len(claims) == 0 {
		return false, err
	}
	settled := false
	if !whole && !claims[0].settled {
		if settled, err = s.awaitSettled(); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		c.settled = c.settled || settled
		sh := &shard{claim: c, until: asked.Add(s.cfg.Lease)}
		sh.ctx, sh.cancel = context.WithCancelCause(s.checks)
		s.shards[c.shard] = sh
		if c.expired {
			s.result.TakenOver++
		}
	}
	return true, nil
}

// awaitSettled waits a moment for the transactions that began before the slot was opened: most of them are short, and
// where one goes on, the whole slot is to be looked through for what it may bring.
func (s *scan) awaitSettled() (settled bool, err error) {
	for range settleTries {
		if !s.pause(settleEvery) {
			return false, nil
		}
		err := s.retry(func() (err error) {
			settled, err = s.ledger.settled(s.work)
			return err
		})
		if err != nil || settled {
			return settled, err
		}
	}
	return false, nil
}

// pause waits before a claim, for maxDelay at the most. It returns false when the run is stopped meanwhile.
func (s *scan) pause(delay time.Duration) bool {
	timer := time.NewTimer(min(delay, maxDelay))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.stop.Done():
		return false
	}
}

// hasRoom tells whether more rows may be handed out.
func (s *scan) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasRoomLocked()
}

func (s *scan) hasRoomLocked() bool {
	return s.free < pagesInFlight*s.cfg.Page && !s.limitReached()
}

// limitReached tells whether the run has taken as many rows as it may. Call it with mu held.
func (s *scan) limitReached() bool { return s.sel.limit > 0 && s.taken >= s.sel.limit }

// holds tells whether shards of this runner are not done.
func (s *scan) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shards {
		if !sh.resting {
			return true
		}
	}
	return false
}

// rests tells whether rows are left on purpose.
func (s *scan) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shards) > 0 || s.limitReached()
}

// mayClose tells whether shards have been read to the end and all their rows recorded.
func (s *scan) mayClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closing && len(s.closable()) > 0
}

func (s *scan) closable() []claim {
	limited := s.limitReached()
	var list []claim
	for _, sh := range s.shards {
		if (sh.passed || limited) && (!sh.busy || limited) && sh.flying == 0 && !sh.resting && !sh.leaving {
			c := sh.claim
			if c.settled && !sh.left && !limited && !s.sel.partial && len(s.grouped) == 0 {
				c.gone = sh.after // all rows up to here were read, and recorded; others come after them, if any
			}
			list = append(list, c)
		}
	}
	return list
}

// close closes shards beside the reader, which goes on with others: looking for late rows takes a while, since the
// index still has entries of all that were there.
func (s *scan) close() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims := s.closable()
	for _, c := range claims {
		s.shards[c.shard].closing = true
	}
	s.closing = true
	s.beside.Go(func() {
		if err := s.closeShards(claims); err != nil {
			s.fail(err)
		}
	})
	return false, nil
}

// closeShards closes shards. One that has rows still is read again from its beginning, for they were committed late;
// where rows are left on purpose it rests until the run ends.
func (s *scan) closeShards(claims []claim) error {
	var closed []int16
	var done bool
	err := s.retry(func() (err error) {
		closed, done, err = s.ledger.close(s.work, claims)
		return err
	})
	if len(closed) == 0 && !s.sel.partial {
		time.Sleep(5 * linger) // a row that somebody else has locked, or one that was committed late
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = false
	s.done = s.done || done
	for _, number := range closed {
		if sh, ok := s.shards[number]; ok {
			sh.cancel(nil)
			delete(s.shards, number)
		}
	}
	for _, c := range claims {
		sh, open := s.shards[c.shard]
		if !open || sh.token != c.token {
			continue
		}
		sh.closing = false
		if s.sel.partial {
			sh.resting = true
		} else {
			s.beginPass(sh)
		}
	}
	s.notify()
	return err
}
