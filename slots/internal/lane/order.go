package lane

import (
	"slices"
	"sync/atomic"
	"time"
)

// pagesInFlight and bytesInFlight bound the rows in memory that the runs with the same Bounds work on. Besides,
// bytesLocked bounds the rows that other transactions have locked, and bytesParked the rows of a lane that wait for a
// permit of its limit.
const (
	pagesInFlight = 4
	bytesInFlight = 64 << 20
	bytesLocked   = 64 << 20
	bytesParked   = 16 << 20
)

// order has the lanes of a run, in the order of their turns. It decides by numbers alone, and now
// is a parameter. Only the goroutine that claims uses it, while other goroutines count in the load
// of the lanes and in memory.
type order struct {
	memory *memory

	page  int64        // rows of a claim at most
	most  int64        // rows that the run may take; 0: no limit
	taken atomic.Int64 // rows since the run began
	list  []*Lane      // the lane whose turn is next first
}

// memory counts the rows that runs keep in memory.
type memory struct {
	rows   atomic.Int64 // without those of lanes with a limit of their own
	bytes  atomic.Int64 // of all rows
	locked atomic.Int64 // bytes of rows that other transactions have locked
}

// isFull reports whether the runs must not keep more rows that other transactions have locked.
func (m *memory) isFull() bool { return m.locked.Load() > bytesLocked }

// add adds a lane.
func (o *order) add(l *Lane) { o.list = append(o.list, l) }

// forget forgets which jobs may be claimed.
func (o *order) forget() {
	for _, l := range o.list {
		l.claimable = nil
	}
}

// Next returns a lane that has rows to claim and room for them, or nil. Of several it returns the one
// that it returned longest ago: a lane without room keeps its place. A lane waits for each lane of a
// higher priority that has room too, or whose checks wait for the same bound.
func (o *order) Next(now time.Time) *Lane {
	if o.IsLimitReached() {
		return nil
	}
	next := -1
	for i, l := range o.list {
		if len(l.claimable) > 0 && o.hasRoom(l, now) && !o.isHeldUp(l, now) &&
			(next < 0 || l.priority() > o.list[next].priority()) {
			next = i
		}
	}
	if next < 0 {
		return nil
	}
	l := o.list[next]
	o.list = append(slices.Delete(o.list, next, next+1), l)
	return l
}

// isHeldUp reports whether a lane needs a bound for which the checks of a lane of higher priority wait.
// A paused lane waits for no bound.
func (o *order) isHeldUp(l *Lane, now time.Time) bool {
	return slices.ContainsFunc(o.list, func(higher *Lane) bool {
		return len(higher.claimable) > 0 && higher.priority() > l.priority() && !higher.isPaused(now) &&
			higher.Scarce&l.Needs != 0
	})
}

// hasRoom reports whether a lane is about to run out of rows, and there is memory for more.
func (o *order) hasRoom(l *Lane, now time.Time) bool {
	size := l.load.size.Load()
	if l.load.unstarted.Load() > size/2 || o.memory.bytes.Load() > bytesInFlight || o.memory.isFull() || l.isPaused(now) {
		return false
	}
	if l.Own {
		return !l.load.isFull() && l.load.kept.Load() < pagesInFlight*size
	}
	return o.memory.rows.Load() < pagesInFlight*o.page
}

// Want returns how many rows of a lane to claim. It returns 0 if the limit was reached since Next.
func (o *order) Want(l *Lane) int64 {
	n := l.load.size.Load()
	if fits := l.load.fits.Load(); fits > 0 {
		n = min(n, fits)
	}
	if o.most > 0 {
		n = min(n, o.most-o.taken.Load())
	}
	return n
}

// IsLimitReached reports whether the run has taken as many rows as it may.
func (o *order) IsLimitReached() bool { return o.most > 0 && o.taken.Load() >= o.most }

// IsFull reports whether locked rows leave no memory for further rows.
func (o *order) IsFull() bool { return o.memory.isFull() }

// Waiting returns the lanes that have rows to claim for which this run had no room.
func (o *order) Waiting(now time.Time) (lanes []*Lane) {
	for _, l := range o.list {
		if len(l.claimable) > 0 && !l.isPaused(now) && !o.IsLimitReached() {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// Waits reports whether lanes are Waiting.
func (o *order) Waits(now time.Time) bool { return len(o.Waiting(now)) > 0 }

// IsPaused reports whether a lane has rows to claim for which other runners must make room.
func (o *order) IsPaused(now time.Time) bool {
	return slices.ContainsFunc(o.list, func(l *Lane) bool { return len(l.claimable) > 0 && l.isPaused(now) })
}
