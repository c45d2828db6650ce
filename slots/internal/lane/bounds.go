package lane

import (
	"math"
	"sync"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
)

// Bounds are bounds on the checks and the memory of several runs together. They are safe for concurrent use.
type Bounds struct {
	workers, connections             permit.Semaphore
	sharedWorkers, sharedConnections permit.Semaphore // of several runners; nil: no bound

	alone  permit.Semaphore // of rows with a call of their own, so that other checks need not wait for them
	memory memory

	mu      sync.Mutex
	ofLanes map[string]permit.Semaphore // of lanes with a Concurrency, by what their jobs have in common
}

// NewBounds returns bounds for workers checks at once, of which connections have a transaction. The semaphores bound
// them over several runners, unless they are nil.
func NewBounds(workers, connections int, sharedWorkers, sharedConnections permit.Semaphore) *Bounds {
	return &Bounds{
		workers: make(permit.Semaphore, workers), connections: make(permit.Semaphore, connections),
		sharedWorkers: sharedWorkers, sharedConnections: sharedConnections,
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

// spec describes the lane of a job.
func (b *Bounds) spec(d *jobs.Definition) Spec {
	spec := Spec{
		Whole: d.Batched(), Own: d.Concurrency > 0 || d.Limited(), AtOnce: cap(b.workers), Needs: Workers,
		Scarce: b.scarce(d),
	}
	if d.Concurrency > 0 {
		spec.AtOnce = min(spec.AtOnce, d.Concurrency)
	}
	if d.InTx() {
		spec.AtOnce = min(spec.AtOnce, cap(b.connections))
		spec.Needs |= Connections
	}
	return spec
}

// semaphores returns what the checks of a job wait for, in this order.
func (b *Bounds) semaphores(d *jobs.Definition) (list []permit.Semaphore) {
	if d.Concurrency > 0 {
		list = append(list, b.ofLane(d))
	}
	if d.InTx() {
		list = append(list, b.connections)
	}
	list = append(list, b.workers)
	if b.sharedConnections != nil && d.InTx() {
		list = append(list, b.sharedConnections)
	}
	if b.sharedWorkers != nil {
		list = append(list, b.sharedWorkers)
	}
	return list
}

// scarce returns the bounds on all jobs, workers or connections, that the checks of a job reach first. It returns 0 if
// the job's own limit is tighter.
func (b *Bounds) scarce(d *jobs.Definition) (scarce Bound) {
	if d.Limited() {
		return 0
	}
	workers, connections := cap(b.workers), math.MaxInt
	if b.sharedWorkers != nil {
		workers = min(workers, cap(b.sharedWorkers))
	}
	if d.InTx() {
		connections = cap(b.connections)
		if b.sharedConnections != nil {
			connections = min(connections, cap(b.sharedConnections))
		}
	}
	least := min(workers, connections)
	if d.Concurrency > 0 {
		least = min(least, d.Concurrency)
	}
	if workers == least {
		scarce |= Workers
	}
	if connections == least {
		scarce |= Connections
	}
	return scarce
}
