package sql

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Share bounds the connections that several pools have to one server. A pool that wants one more takes it from what others keep
// for later. It is safe for concurrent use.
type Share struct {
	places  chan struct{}
	waiting atomic.Int64 // who wants a connection and has none

	mu    sync.Mutex
	pools []*sql.DB
}

// reclaimAgain is how long who waits for room trusts that a connection which is given back is closed for him: one that was looked at
// before he waited, and put away after, is not.
const reclaimAgain = 100 * time.Millisecond

// NewShare returns a bound of n connections, of which there must be one at least.
func NewShare(n int) *Share { return &Share{places: make(chan struct{}, n)} }

// Shared lets a pool have no more connections than a share has left.
func Shared(s *Share) Option { return func(o *options) { o.share = s } }

// enter waits for room for a connection.
func (s *Share) enter(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s.places <- struct{}{}:
		return nil
	default:
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for {
		s.reclaim()
		select {
		case s.places <- struct{}{}:
			return nil
		case <-time.After(reclaimAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Share) leave() {
	if s != nil {
		<-s.places
	}
}

// wanted tells whether a connection that is not used is to be closed.
func (s *Share) wanted() bool { return s != nil && s.waiting.Load() > 0 }

// add makes a pool one of those that are reclaimed from.
func (s *Share) add(db *sql.DB) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, db)
}

// reclaim closes the connections that nobody uses.
func (s *Share) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, db := range s.pools {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(math.MaxInt32)
	}
}
