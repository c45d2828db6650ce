package lane

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
)

// Spec describes a lane. It does not change.
type Spec struct {
	Whole  bool // its claims are a page: its jobs take many rows at once
	Own    bool // it has a limit of its own, which also bounds what it keeps in memory
	AtOnce int  // how many of its checks run at once

	Needs  Bound // the bounds that its checks wait for
	Scarce Bound // those of them with the least room; 0: a limit of its own leaves less
}

// Bound is a set of bounds on the checks that run at once.
type Bound uint8

// The bounds that lanes share. A lane's own limit concerns no other lane, so it has no bit.
const (
	Workers Bound = 1 << iota
	Connections
)

// Lane has the jobs whose checks wait for the same things. A slow or limited lane holds up no other. Only the goroutine
// that claims uses what may be claimed; load is safe for concurrent use.
type Lane struct {
	Spec
	Job   *jobs.Definition // its first job, and the only one of a lane with a limit
	Limit *permit.Limit    // nil: none

	load       load
	lanes      *Lanes
	key        string             // what its jobs have in common
	semaphores []permit.Semaphore // which its checks acquire, in this order

	claimable []offered // those with few rows first
	until     time.Time // when there may be a permit for its checks again
}

// load counts the rows of a lane that a run has now.
type load struct {
	size      atomic.Int64 // rows of the next claim
	fits      atomic.Int64 // rows of the size of those read last that fit into row.AtOnce; 0: not known
	unstarted atomic.Int64 // rows that were claimed and not started
	kept      atomic.Int64 // rows in memory
	parked    atomic.Int64 // bytes of the rows that wait for a permit which other runs have
}

// isFull reports whether the run must not keep more rows of the lane that wait for a permit.
func (l *load) isFull() bool { return l.parked.Load() > bytesParked }

// offered is a job that has rows to claim.
type offered struct {
	number   int64
	priority int
}

// offer adds a job that has rows to claim.
func (l *Lane) offer(j offered) {
	if !slices.Contains(l.claimable, j) {
		l.claimable = append(l.claimable, j)
	}
}

// First returns the jobs that are claimed next: those of the highest priority.
func (l *Lane) First() (numbers []int64) {
	top := l.priority()
	for _, j := range l.claimable {
		if j.priority == top {
			numbers = append(numbers, j.number)
		}
	}
	return numbers
}

// Claimed notes that rows of the First jobs were claimed, and which jobs have rows left. A claim has
// rows of the first of them, and rows of the next only if the first has none left. Otherwise the first
// becomes the last.
func (l *Lane) Claimed(left []int64) {
	top := l.priority()
	isTop := func(j offered) bool { return j.priority == top }
	isDone := func(j offered) bool { return isTop(j) && !slices.Contains(left, j.number) }
	served := slices.IndexFunc(l.claimable, isTop)
	if served < 0 {
		return
	}
	if j := l.claimable[served]; slices.Contains(left, j.number) {
		l.claimable = append(slices.Delete(l.claimable, served, served+1), j)
	}
	l.claimable = slices.DeleteFunc(l.claimable, isDone)
}

// Pause keeps a lane from being chosen until an instant: other runners must make room for its checks.
func (l *Lane) Pause(until time.Time) { l.until = until }

func (l *Lane) isPaused(now time.Time) bool { return now.Before(l.until) }

// priority returns the highest priority of the jobs of a lane.
func (l *Lane) priority() int {
	top := math.MinInt
	for _, j := range l.claimable {
		top = max(top, j.priority)
	}
	return top
}

// HasOneKey reports whether all checks of the lane are subject to the same limit.
func (l *Lane) HasOneKey() bool { return l.Limit != nil && l.Job.LimitBy == nil }

// LimitKey returns the limit key of a row: the empty key if the job has no key function, or if the function panics.
func (l *Lane) LimitKey(row jobs.FutureJob) (key string) {
	if l.Limit == nil || l.Job.LimitBy == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			l.lanes.Panics.LimitBy(context.WithoutCancel(l.lanes.Stop), l.Job.Name, row.Key().String(), p)
		}
	}()
	return permit.Key(l.Job.LimitBy(row))
}

// The next claim is larger if the checks of a claim took less than quick, and smaller if they took more
// than slow: an idle runner should find rows to claim, and a runner that dies should leave few.
const quick, slow = 250 * time.Millisecond, 2 * time.Second

// firstSize returns the rows of the first claim of a lane.
func (s Spec) firstSize(page int) int64 {
	if s.Whole {
		return int64(page)
	}
	return int64(min(page, 4*s.AtOnce))
}

// nextSize returns the rows of the claim after one of size rows, whose checks took a while.
func (s Spec) nextSize(size int64, took time.Duration, page int) int64 {
	switch {
	case s.Whole:
		return size
	case took < quick:
		return min(4*size, int64(page))
	case took > slow:
		return max(size/2, 1)
	}
	return size
}

// Adapt changes the size of the claims by how long the checks of one took.
func (l *Lane) Adapt(took time.Duration) {
	size := &l.load.size
	size.Store(l.nextSize(size.Load(), took, l.lanes.Page))
}
