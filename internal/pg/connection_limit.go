package pg

import (
	"context"
	"database/sql"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// ConnectionLimit bounds the connections of several pools to one server. A pool that needs one more
// closes an idle connection of another pool. It is safe for concurrent use.
type ConnectionLimit struct {
	permits chan struct{}
	waiting atomic.Int64 // callers that wait for a connection

	mu    sync.Mutex
	pools []*sql.DB
}

// reclaimAgain is how often a waiting caller reclaims again. A pool may check a connection before
// the caller waits and put it away after, so it stays open.
const reclaimAgain = 100 * time.Millisecond

// NewConnectionLimit returns a limit of n connections. n is at least one.
func NewConnectionLimit(n int) *ConnectionLimit {
	return &ConnectionLimit{permits: make(chan struct{}, n)}
}

// Limited makes a pool open only connections that the limit has room for.
func Limited(l *ConnectionLimit) func(o *Options) { return func(o *Options) { o.limit = l } }

// enter waits for room for a connection.
func (l *ConnectionLimit) enter(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l.permits <- struct{}{}:
		return nil
	default:
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for {
		l.reclaim()
		select {
		case l.permits <- struct{}{}:
			return nil
		case <-time.After(reclaimAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *ConnectionLimit) leave() {
	if l != nil {
		<-l.permits
	}
}

// wanted tells whether a connection that becomes idle should be closed.
func (l *ConnectionLimit) wanted() bool { return l != nil && l.waiting.Load() > 0 }

// add registers a pool whose idle connections reclaim may close.
func (l *ConnectionLimit) add(db *sql.DB) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools = append(l.pools, db)
}

// reclaim closes the idle connections of all pools.
func (l *ConnectionLimit) reclaim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, db := range l.pools {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(math.MaxInt32)
	}
}
