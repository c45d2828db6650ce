package turn

import (
	"math"
	"slices"
	"time"
)

// Spec describes a lane. It does not change.
type Spec struct {
	Whole  bool // its claims are a page: its jobs take many rows at once
	Own    bool // it has a limit of its own, which also bounds what it keeps in memory
	Places int  // how many of its checks run at once

	Needs  Bound // the bounds that its checks wait for
	Scarce Bound // those of them with the least room
}

// Bound is a set of bounds on the checks that run at once.
type Bound uint8

// The bounds that lanes share. A lane's own limit concerns no other lane, so it has no bit.
const (
	Workers Bound = 1 << iota
	Connections
)

// Load counts the rows of a lane that a run has now.
type Load struct {
	Size   int64 // rows of the next claim
	Fits   int64 // rows that fit into the bytes of a claim, by the rows that were read last; 0: not known
	Queued int64 // rows that were claimed and not started
	Kept   int64 // rows in memory
	Parked int64 // bytes of the rows that wait for a place which other runs have
}

// Full reports whether the run must not keep more rows of the lane that wait for a place.
func (l Load) Full() bool { return l.Parked > bytesParked }

// Lane has the jobs whose checks wait for the same things. A slow or limited lane holds up no other.
type Lane struct {
	Spec
	Load Load

	jobs  []Job     // that may be claimed, those with few rows first
	until time.Time // when there may be a place for its checks again
}

// Job is a job of a slot.
type Job struct {
	Number   int64
	Priority int
}

// Offer adds a job that has rows to claim.
func (l *Lane) Offer(j Job) {
	if !slices.Contains(l.jobs, j) {
		l.jobs = append(l.jobs, j)
	}
}

// First returns the jobs that are claimed next: those of the highest priority.
func (l *Lane) First() (numbers []int64) {
	top := l.priority()
	for _, j := range l.jobs {
		if j.Priority == top {
			numbers = append(numbers, j.Number)
		}
	}
	return numbers
}

// Claimed notes that rows of the First jobs were claimed, and which jobs have rows left. A claim has
// rows of the first of them, and rows of the next only if the first has none left. Otherwise the first
// becomes the last.
func (l *Lane) Claimed(left []int64) {
	top := l.priority()
	isTop := func(j Job) bool { return j.Priority == top }
	served := slices.IndexFunc(l.jobs, isTop)
	if served < 0 {
		return
	}
	if j := l.jobs[served]; slices.Contains(left, j.Number) {
		l.jobs = append(slices.Delete(l.jobs, served, served+1), j)
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(j Job) bool { return isTop(j) && !slices.Contains(left, j.Number) })
}

// Rest keeps a lane from being chosen until an instant: other runners must make room for its checks.
func (l *Lane) Rest(until time.Time) { l.until = until }

func (l *Lane) resting(now time.Time) bool { return now.Before(l.until) }

// priority returns the highest priority of the jobs of a lane.
func (l *Lane) priority() int {
	top := math.MinInt
	for _, j := range l.jobs {
		top = max(top, j.Priority)
	}
	return top
}
