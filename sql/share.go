package sql

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Share bounds the connections of several pools to one server. A pool that needs one more closes an
// idle connection of another pool. It is safe for concurrent use.
type Share struct {
	permits chan struct{}
	waiting atomic.Int64 // callers that wait for a connection

	mu    sync.Mutex
	pools []*sql.DB
}

// reclaimAgain is how often a waiting caller reclaims again. A pool may check a connection before
// the caller waits and put it away after, so it stays open.
const reclaimAgain = 100 * time.Millisecond

// NewShare returns a bound of n connections. n is at least one.
func NewShare(n int) *Share { return &Share{permits: make(chan struct{}, n)} }

// Shared makes a pool open only connections that the share has room for.
func Shared(s *Share) Option { return func(o *options) { o.share = s } }

// enter waits for room for a connection.
func (s *Share) enter(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case s.permits <- struct{}{}:
		return nil
	default:
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for {
		s.reclaim()
		select {
		case s.permits <- struct{}{}:
			return nil
		case <-time.After(reclaimAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Share) leave() {
	if s != nil {
		<-s.permits
	}
}

// wanted tells whether a connection that becomes idle should be closed.
func (s *Share) wanted() bool { return s != nil && s.waiting.Load() > 0 }

// add registers a pool whose idle connections reclaim may close.
func (s *Share) add(db *sql.DB) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = append(s.pools, db)
}

// reclaim closes the idle connections of all pools.
func (s *Share) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, db := range s.pools {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(math.MaxInt32)
	}
}
