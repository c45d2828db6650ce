package turn

import (
	"slices"
	"time"
)

// pagesInFlight and bytesInFlight bound the rows in memory that a run works on. Besides, bytesHeld bounds
// the rows that other transactions have locked, and bytesParked the rows of a lane that wait for a place
// of its limit.
const (
	pagesInFlight = 4
	bytesInFlight = 64 << 20
	bytesHeld     = 64 << 20
	bytesParked   = 16 << 20
)

// Order has the lanes of a run, in the order of their turns.
type Order struct {
	// Memory is set by the run before Next, Want, Waits and Rests.
	Memory Memory

	page  int64   // rows of a claim at most
	most  int64   // rows that the run may take; 0: no limit
	lanes []*Lane // the lane whose turn is next first
}

// Memory counts the rows that a run keeps in memory, and those that it has taken.
type Memory struct {
	Rows  int64 // without those of lanes with a limit of their own
	Bytes int64 // of all rows
	Held  int64 // bytes of rows that other transactions have locked
	Taken int64 // rows since the run began
}

// Full reports whether the run must not keep more rows that other transactions have locked.
func (m Memory) Full() bool { return m.Held > bytesHeld }

// NewOrder returns an order without lanes, for claims of at most page rows. most bounds the rows that the
// run takes. 0: no limit.
func NewOrder(page, most int64) *Order { return &Order{page: page, most: most} }

// Add adds a lane. Set its Load before Next and Want.
func (o *Order) Add(spec Spec) *Lane {
	l := &Lane{Spec: spec}
	o.lanes = append(o.lanes, l)
	return l
}

// Clear forgets which jobs may be claimed.
func (o *Order) Clear() {
	for _, l := range o.lanes {
		l.jobs = nil
	}
}

// Next returns a lane that has rows to claim and room for them, or nil. Of several it returns the one
// that it returned longest ago, so that a lane without room leaves its turns to all other lanes alike. A
// lane waits for each lane of a higher priority that has room too, or whose checks wait for the same
// bound.
func (o *Order) Next(now time.Time) *Lane {
	if o.Reached() {
		return nil
	}
	next := -1
	for i, l := range o.lanes {
		if len(l.jobs) > 0 && o.hasRoom(l, now) && !o.isHeldUp(l, now) &&
			(next < 0 || l.priority() > o.lanes[next].priority()) {
			next = i
		}
	}
	if next < 0 {
		return nil
	}
	l := o.lanes[next]
	o.lanes = append(slices.Delete(o.lanes, next, next+1), l)
	return l
}

// isHeldUp reports whether a lane needs a bound for which the checks of a lane of higher priority wait.
// A lane that rests waits for no bound.
func (o *Order) isHeldUp(l *Lane, now time.Time) bool {
	return slices.ContainsFunc(o.lanes, func(higher *Lane) bool {
		return len(higher.jobs) > 0 && higher.priority() > l.priority() && !higher.resting(now) && higher.Scarce&l.Needs != 0
	})
}

// hasRoom reports whether a lane is about to run out of rows, and there is memory for more.
func (o *Order) hasRoom(l *Lane, now time.Time) bool {
	if l.Load.Queued > l.Load.Size/2 || o.Memory.Bytes > bytesInFlight || o.Memory.Full() || l.resting(now) {
		return false
	}
	if l.Own {
		return !l.Load.Full() && l.Load.Kept < pagesInFlight*l.Load.Size
	}
	return o.Memory.Rows < pagesInFlight*o.page
}

// Want returns how many rows of a lane to claim.
func (o *Order) Want(l *Lane) int64 {
	n := l.Load.Size
	if fits := l.Load.Fits; fits > 0 {
		n = min(n, fits)
	}
	if o.most > 0 {
		n = min(n, o.most-o.Memory.Taken)
	}
	return n
}

// Reached reports whether the run has taken as many rows as it may.
func (o *Order) Reached() bool { return o.most > 0 && o.Memory.Taken >= o.most }

// Waits reports whether a lane has rows to claim for which this run had no room.
func (o *Order) Waits(now time.Time) bool {
	return !o.Reached() && slices.ContainsFunc(o.lanes, func(l *Lane) bool { return len(l.jobs) > 0 && !l.resting(now) })
}

// Rests reports whether a lane has rows to claim for which other runners must make room.
func (o *Order) Rests(now time.Time) bool {
	return slices.ContainsFunc(o.lanes, func(l *Lane) bool { return len(l.jobs) > 0 && l.resting(now) })
}
