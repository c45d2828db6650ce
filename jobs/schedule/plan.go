package schedule

import (
	"time"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

// timeline holds the instants of a schedule, and how they map to slots.
type timeline struct {
	crontab      crontab.Crontab
	offset       time.Duration
	misfire      Misfire
	deadline     time.Duration // 0: none
	deadlineFrom DeadlineFrom
	maxRuns      int64 // 0: no limit
}

// offset returns the delay of all instants of a schedule, within its spread. A hash of the id
// chooses it among the seconds of the spread, as a check with a window gets its slot.
func offset(id string, spread time.Duration) time.Duration {
	return wholeSeconds.PickSlot(grid.Min(), spread, grid.Min(), grid.Hash(id)).Sub(grid.Min())
}

var wholeSeconds, _ = grid.New(time.Second)

func newTimeline(s Spec, c crontab.Crontab) timeline {
	return timeline{
		crontab: c, offset: offset(s.ID, s.Spread), misfire: s.Misfire, deadline: s.Deadline,
		deadlineFrom: s.DeadlineFrom,
		maxRuns:      int64(s.MaxRuns),
	}
}

// ends reports whether a schedule has published all that it may.
func (t timeline) ends(state cursor) bool { return t.maxRuns > 0 && state.Runs >= t.maxRuns }

// plan says what a check of a schedule does. It drops the nominal instants in (from, cut] and
// publishes those in (cut, last]. The row then waits for the first instant after last.
type plan struct {
	from, cut, last time.Time
}

// plan returns what a check does for a row that waits for the instant at, in the run of a slot at
// the time now. The last slot that has begun counts as the current one, so its instants are not
// missed.
func (t timeline) plan(g grid.Grid, slot, now, at time.Time) plan {
	current := g.Floor(now)
	if current.Before(slot) {
		current = slot
	}
	from := at.Add(-time.Second)
	p := plan{from: from, cut: from, last: current.Add(-t.offset)}
	if p.last.Before(at) { // an operator moved it here
		p.last = from
		return p
	}
	if t.deadline > 0 {
		p.cut = grid.Earlier(grid.Later(p.cut, t.tooLate(g, now)), p.last)
	}
	missed := g.Previous(current).Add(-t.offset) // up to here
	if p.cut.Before(missed) {
		p.cut = t.cutMissed(p.cut, missed)
	}
	return p
}

// narrow is the greatest width at which a deadline counts from the instant by default. The slot is
// then so near that a deadline of a minute makes sense.
const narrow = time.Minute

// tooLate returns the last nominal instant that is past its deadline.
func (t timeline) tooLate(g grid.Grid, now time.Time) time.Time {
	inTime := now.Add(-t.deadline)
	if t.deadlineFrom == FromSlot || t.deadlineFrom == "" && g.Width() > narrow {
		return g.Previous(g.Ceil(inTime)).Add(-t.offset)
	}
	return inTime.Add(-t.offset).Add(-1).Truncate(time.Second)
}

// cutMissed applies the policy to the missed instants after from.
func (t timeline) cutMissed(from, missed time.Time) time.Time {
	keep := MaxCatchUp
	switch t.misfire {
	case Skip:
		return missed
	case Latest:
		keep = 1
	}
	newest := t.crontab.Latest(keep, from, missed)
	if len(newest) < keep {
		return from
	}
	return newest[0].Add(-time.Second)
}

// maxCounted bounds the instants that are counted one by one.
const maxCounted = 10_000

// count returns the number of instants in (from, to]. Beyond maxCounted it estimates by the rate of
// the counted ones.
func count(c crontab.Crontab, from, to time.Time) int64 {
	if !from.Before(to) {
		return 0
	}
	var n int64
	var first time.Time
	for at := range c.Between(from, to) {
		if n++; n == 1 {
			first = at
		}
		if n == maxCounted {
			return n + int64(to.Sub(at).Seconds()*(maxCounted-1)/at.Sub(first).Seconds())
		}
	}
	return n
}
