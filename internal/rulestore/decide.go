package rulestore

import (
	"errors"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
)

// fate is what an apply does with a row of the table.
type fate string

const (
	leave  fate = "leave"  // it waits as it should, or nothing is left to wait for
	begin  fate = "begin"  // it does not wait, and will
	retime fate = "retime" // it waits, and will for another slot
)

// row is a row of the table that the rule is about, and for which the expected thing has not
// happened.
type row struct {
	rule.Row // if it does not count, another row can let its clock start
	memory   rule.Memory

	waits bool
	id    int64
	slot  time.Time // it waits for
	// requested is the instant that it was requested for.
	requested time.Time
	leftOut   []string // the steps that an apply or a check has left out
	errors    int      // of its last checks
}

// decision is what an apply does with a row.
type decision struct {
	fate    fate
	passed  bool // a step that has not fired has passed
	at      time.Time
	from    time.Time // steps before it do not fire; zero: it stays as it is
	since   time.Time // the start of the clock that from is about; zero: of any
	came    time.Time // when the row came to the rule; zero: no step had passed
	leftOut []string  // the steps that do not fire because of from
}

// decider decides about rows at one instant. What a check would do then says whether and when a row waits.
type decider struct {
	rule.Decider
	now   time.Time
	first time.Time // see rule.FirstToCome
	// known has the names of the steps that have the times that they had when the rows began to wait.
	known map[string]bool
}

// decide decides about a row. One whose check is due, or is repeated after an error, is left to its run, which asks the
// rule as it is then. A check that failed comes in the next slot, because the new file may have mended it.
func (d decider) decide(r row) decision {
	switch {
	case r.waits && r.errors > 0 && r.slot.After(d.Grid.Next(d.now)):
		return decision{fate: retime, at: d.now}
	case r.waits && (r.errors > 0 || !r.slot.After(d.now)):
		return decision{fate: leave}
	}
	moment := rule.Moment{Begun: d.first.Add(-time.Microsecond), Slot: d.first, Now: d.now}
	memory := r.memory
	memory.Came = d.now
	is, err := d.Decide(r.Row, memory, moment)
	if _, unknown := errors.AsType[*rule.UnknownName](err); unknown && !r.waits {
		return decision{fate: begin, at: d.now, came: d.now} // its check fails, and says which name it is
	}
	if err != nil {
		return decision{fate: leave}
	}
	if r.Paused {
		if r.waits {
			return decision{fate: leave} // the trigger tells when it goes on
		}
		r.Paused = false // the steps that had passed by then fire after the pause, unless Rule.Overdue leaves them out
		is, _ = d.Decide(r.Row, memory, moment)
		return decision{fate: begin, passed: is.Passed, at: d.now, came: d.now} // the check notes since when
	}
	what := d.outcome(r, is)
	what.passed = is.Passed
	if what.fate == leave {
		return what
	}
	if d.unknown(r) {
		what.came = d.now // when the step gets an instant, that may have passed before
	}
	if d.Facts.SinceMoves() && (!r.waits || !what.from.IsZero()) {
		// When the other table starts the clock, steps may have passed before the row came.
		what.came = d.now
	}
	if d.Rule.Recovered != (rule.Act{}) && r.waits && len(r.memory.Fired) > 0 && r.slot.Before(what.at) {
		what.at = r.slot // it may wait for the end of what let steps fire
	}
	if r.waits && d.findsOut(r) && r.slot.Before(d.slotOf(what.at)) {
		if what.at = r.slot; len(what.leftOut) == 0 && what.came.IsZero() {
			return decision{fate: leave, passed: what.passed}
		}
	}
	return what
}

// findsOut reports whether the check of a row may come before its next step, because it has to find out when that is,
// or what has ended. The trigger of a write that this apply does not see may have left the check as it is, and relies
// on it. So no apply moves it later.
func (d decider) findsOut(r row) bool {
	others := d.Facts
	others.Changed = nil // a change writes the check
	ends := d.Rule.Met != (rule.Act{}) || d.Rule.Recovered != (rule.Act{})
	return others.Lookup() || len(r.Held) > 0 || ends && r.slot.Equal(d.Grid.Next(d.now))
}

// unknown reports whether the data let a step not fire for a row that will wait.
func (d decider) unknown(r row) bool {
	if r.waits || len(r.Held) == 0 {
		return false
	}
	timing := d.Timing.For(r.Held, nil)
	if len(timing.Unknown()) > 0 {
		return true
	}
	for i, s := range d.Rule.Steps {
		first, err := timing.Nth(i, r.Since, 1)
		if (s.Interval != "" || s.TimesCount != "") && err == nil && first.Number == 0 {
			return true
		}
	}
	return false
}

// outcome returns what becomes of a row, if a check would decide so.
func (d decider) outcome(r row, is rule.Decision) (what decision) {
	what.fate = begin
	if r.waits {
		what.fate = retime
	}
	if is.Passed && r.waits && d.waitsFor(r, is) {
		return decision{fate: leave}
	}
	if is.Passed && is.From.IsZero() || len(is.Due) > 0 { // the check decides about the steps that have passed
		what.at, what.came = d.Rule.SlotFor(d.Grid, d.now, r.Key), d.now
		return what
	}
	for _, o := range is.LeftOut {
		what.leftOut = append(what.leftOut, rule.Repetition(d.Rule.Steps[o.Step].Name, o.Number))
	}
	if len(what.leftOut) > 0 {
		what.from, what.since, what.leftOut = is.From, r.Since, slices.Concat(r.leftOut, what.leftOut)
	}
	switch what.at = is.Next; {
	case d.Facts.EndLookup() && is.Found == "" && what.at.Equal(d.now.Add(d.Rule.RecheckEvery())):
		what.at = d.now // another table can start the clock, or end the wait, at any time
		if r.waits && len(what.leftOut) == 0 && !r.slot.After(d.Grid.Ceil(is.Next)) {
			what.fate = leave
		}
	case what.at.IsZero() && r.waits && len(what.leftOut) > 0:
		what.at = r.slot // its check finds that no step is left
	case what.at.IsZero():
		what.fate = leave
	case r.waits && len(what.leftOut) == 0 && r.slot.Equal(d.slotOf(what.at)):
		what.fate = leave
	}
	return what
}

// waitsFor reports whether a row waits already for the check that decides about the steps that have passed. It waits
// for the slot of a step that has just passed. Or it waits for the next slot, because a run was late: Rule.Overdue must
// not skip a step of such a row.
func (d decider) waitsFor(r row, is rule.Decision) bool {
	var first time.Time
	waited := false
	for _, o := range slices.Concat(is.Due, is.LeftOut) {
		if first.IsZero() || o.At.Before(first) {
			first = o.At
		}
		waited = waited || d.known[d.Rule.Steps[o.Step].Name]
	}
	next := d.Grid.Next(d.now)
	if waited && !r.slot.After(grid.Later(d.Grid.Ceil(first), next)) {
		return true
	}
	fires := d.Rule.Overdue.Policy == rule.OverdueFire || d.Rule.Overdue.Policy == rule.OverdueSpread
	return fires && (r.slot.Equal(next) || r.slot.Before(next.Add(d.Rule.Overdue.Window(d.Grid))))
}

// slotOf returns the slot of a check for an instant.
func (d decider) slotOf(at time.Time) time.Time {
	return grid.Later(d.Grid.Ceil(at), d.Grid.Next(d.now))
}
