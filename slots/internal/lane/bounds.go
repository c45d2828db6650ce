package lane

import (
	"sync"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
)

// Bounds are bounds on the checks and the memory of several runs together. They are safe for concurrent use.
type Bounds struct {
	workers, connections permit.Semaphore
	alone                permit.Semaphore // of rows with a call of their own, so that other checks need not wait for them
	memory               memory

	mu      sync.Mutex
	ofLanes map[string]permit.Semaphore // of lanes with a Concurrency, by what their jobs have in common
}

// NewBounds returns bounds for workers checks at once, of which connections have a transaction.
func NewBounds(workers, connections int) *Bounds {
	return &Bounds{
		workers: make(permit.Semaphore, workers), connections: make(permit.Semaphore, connections),
		alone:   make(permit.Semaphore, max(1, min(workers, connections)/2)),
		ofLanes: map[string]permit.Semaphore{},
	}
}

// ofLane returns the semaphore of the lane of a job with a Concurrency.
func (b *Bounds) ofLane(d *jobs.Definition) permit.Semaphore {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(d)
	if b.ofLanes[key] == nil {
		b.ofLanes[key] = make(permit.Semaphore, d.Concurrency)
	}
	return b.ofLanes[key]
}
