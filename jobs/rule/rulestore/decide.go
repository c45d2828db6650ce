package rulestore

import (
	"slices"
	"time"

	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/jobs/rule/expr"
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
	key   string
	since time.Time // zero: another row can let its clock start
	// lengths are the delays that the data hold, by step.
	lengths []*expr.Length
	fired   []string // the steps that have fired, see rule.Repetition

	waits bool
	id    int64
	slot  time.Time // it waits for
	// requested is the instant that it was requested for.
	requested time.Time
	from      time.Time // steps that are due before do not fire; zero: all do
	leftOut   []string  // the steps that an apply or a check has left out
	errors    int       // of its last checks
}

// occurrences returns the last occurrence of each step that has fired, by its name.
func (r row) occurrences() map[string]int {
	last := map[string]int{}
	for _, name := range r.fired {
		step, n := rule.ParseRepetition(name)
		last[step] = max(last[step], n)
	}
	return last
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

// decider decides about rows at one instant.
type decider struct {
	rule   rule.Rule
	timing *rule.Timing
	looks  bool // another table can move the clock of a row
	grid   grid.Grid
	now    time.Time
	first  time.Time // see rule.FirstToCome
	// known has the names of the steps that have the times that they had when the rows began to wait.
	known map[string]bool
}

// due is an occurrence of a step that may still fire.
type due struct {
	rule.Occurrence
	step int // its index
}

// remaining are the occurrences of steps that may still fire.
type remaining struct {
	list   []due // the earliest first
	first  int   // the index of the first of these steps
	coming int   // the index in list of the first that has not passed; -1: all have
	// leftOut are occurrences that have passed, and that no check has left out yet.
	leftOut []string
}

// remaining returns the occurrences of steps that may still fire. Of the occurrences of a step that have passed, only
// the last one fires. A step that has passed before one that has fired does not fire: it was left out, or was added
// later.
//
// If no step has passed, all first occurrences count, although a step has fired after a shorter delay. Until then,
// triggers leave a row whose clock moves later to its check, so it needs one.
func (d decider) remaining(r row) (left remaining) {
	fired, after := r.occurrences(), 0
	for i, step := range d.rule.Steps {
		if fired[step.Name] > 0 {
			after = i + 1
		}
	}
	timing := d.timing.For(r.lengths)
	var all []due // first occurrences that have not passed
	passed := false
	for i, step := range d.rule.Steps {
		last, next, err := timing.Around(i, r.since, d.first.Add(-1))
		if err != nil { // without an instant it never fires
			continue
		}
		if passed = passed || last.Number > 0; next.Number == 1 {
			all = append(all, due{next, i})
		}
		for _, o := range []rule.Occurrence{last, next} {
			if o.Number <= fired[step.Name] || o.At.Before(r.from) {
				continue
			}
			if o == last && i < after && fired[step.Name] == 0 {
				left.leftOut = append(left.leftOut, rule.Repetition(step.Name, o.Number))
				continue
			}
			if len(left.list) == 0 {
				left.first = i
			}
			left.list = append(left.list, due{o, i})
		}
	}
	if !passed && len(fired) > 0 {
		left.list, left.first = all, 0
	}
	// Steps in different units need not be in order.
	slices.SortFunc(left.list, func(a, b due) int { return a.At.Compare(b.At) })
	left.coming = slices.IndexFunc(left.list, func(o due) bool { return !o.At.Before(d.first) })
	return left
}

// decide decides about a row. One whose clock another table can move waits also without a step to come.
func (d decider) decide(r row) decision {
	what := d.wait(r)
	if d.rule.Recovered != (rule.Recovered{}) && what.fate == retime && len(r.fired) > 0 && r.slot.Before(what.at) {
		what.at = r.slot // it may wait for the end of what let steps fire
	}
	if d.looks && what.fate == leave && !r.waits {
		what.fate, what.at, what.from = begin, d.now, d.first
	}
	if d.looks && (what.fate == begin || !what.from.IsZero()) {
		// When the other table starts the clock, steps may have passed before the row came.
		what.since, what.came = r.since, d.now
	}
	if len(what.leftOut) > 0 {
		what.leftOut = slices.Concat(r.leftOut, what.leftOut)
	}
	return what
}

// wait decides about a row by its steps.
func (d decider) wait(r row) decision {
	if r.since.IsZero() {
		if r.waits {
			return decision{fate: leave}
		}
		return decision{fate: begin, at: d.now}
	}
	left := d.remaining(r)
	if len(left.list) == 0 {
		return d.withoutStep(r, left)
	}
	if r.waits {
		return d.waiting(r, left)
	}
	fresh := len(r.fired) == 0
	switch {
	case left.coming == 0 && fresh && left.first > 0: // when steps before it get an instant, that may have passed
		return decision{fate: begin, at: d.timing.EarliestAt(left.first, r.since, r.lengths), came: d.now}
	case left.coming == 0 && fresh:
		return decision{fate: begin, at: d.timing.EarliestAt(0, r.since, r.lengths)}
	case left.coming == 0:
		return decision{fate: begin, at: left.list[0].At, from: d.first}
	case d.rule.Overdue.Policy == rule.OverdueSkip && left.coming < 0:
		return decision{fate: leave, passed: true}
	case d.rule.Overdue.Policy == rule.OverdueSkip:
		return d.skip(begin, r, left, left.list[left.coming].At)
	}
	missed := d.missed(begin, r)
	if !fresh {
		missed.from = left.list[0].At
	}
	return missed
}

// withoutStep decides about a row for which no step may still fire.
func (d decider) withoutStep(r row, left remaining) decision {
	if !r.waits || r.errors > 0 || !r.slot.After(d.now) {
		return decision{fate: leave}
	}
	at := r.slot // its check finds that no step is left
	moves := d.looks && r.slot.After(d.grid.Ceil(d.now.Add(d.rule.RecheckEvery())))
	if moves { // another table can move the clock
		at = d.now
	}
	switch {
	case len(left.leftOut) > 0:
		return decision{fate: retime, at: at, from: d.first, since: r.since, leftOut: left.leftOut}
	case moves:
		return decision{fate: retime, at: at}
	}
	return decision{fate: leave}
}

// missed lets the check of a row decide about the steps that have passed.
func (d decider) missed(fate fate, r row) decision {
	return decision{fate: fate, passed: true, at: d.rule.SlotFor(d.grid, d.now, r.key), came: d.now}
}

// skip lets a row wait for an instant without the steps that have passed.
func (d decider) skip(fate fate, r row, left remaining, at time.Time) decision {
	what := decision{fate: fate, passed: true, at: at, from: d.first, since: r.since, leftOut: left.leftOut}
	for _, o := range left.list {
		if o.At.Before(d.first) {
			what.leftOut = append(what.leftOut, rule.Repetition(d.rule.Steps[o.step].Name, o.Number))
		}
	}
	return what
}

// waiting decides about a row that waits. A row that is due, or whose check is repeated after an
// error, is left to its run, which asks the rule as it is then.
func (d decider) waiting(r row, left remaining) decision {
	if r.errors > 0 || !r.slot.After(d.now) {
		return decision{fate: leave}
	}
	if left.coming == 0 {
		at, moves := d.next(r, left)
		switch {
		case len(left.leftOut) > 0:
			return decision{fate: retime, at: at, from: d.first, since: r.since, leftOut: left.leftOut}
		case moves:
			return decision{fate: retime, at: at}
		}
		return decision{fate: leave}
	}
	waited := slices.ContainsFunc(left.list, func(o due) bool {
		return o.At.Before(d.first) && d.known[d.rule.Steps[o.step].Name]
	})
	if waited && !r.slot.After(grid.Later(d.grid.Ceil(left.list[0].At), d.grid.Next(d.now))) {
		// It waits for the slot of the step that has just passed. Or it waits for the next slot, because a
		// run was late: Overdue must not skip a step of such a row.
		if len(left.leftOut) > 0 {
			return decision{fate: retime, at: r.slot, from: left.list[0].At, since: r.since, leftOut: left.leftOut}
		}
		return decision{fate: leave}
	}
	if d.rule.Overdue.Policy == rule.OverdueSkip {
		at := r.slot // its check finds that no step is left
		if left.coming > 0 {
			at = left.list[left.coming].At
		}
		return d.skip(retime, r, left, at)
	}
	missed := d.missed(retime, r)
	if len(left.leftOut) > 0 {
		missed.from, missed.since, missed.leftOut = left.list[0].At, r.since, left.leftOut
	}
	next := d.grid.Next(d.now)
	early := r.slot.Equal(next) || r.slot.Before(next.Add(d.rule.Overdue.Window(d.grid)))
	if early && (waited || d.rule.Overdue.Policy != rule.OverdueLast) && len(left.leftOut) == 0 {
		missed.fate = leave
	}
	return missed
}

// next returns the instant for which a row waits whose steps have not passed, and whether it moves there. It is not the
// exact instant of a first step: the clock may move later until then, and the trigger leaves the row.
func (d decider) next(r row, left remaining) (at time.Time, moves bool) {
	due, earliest := left.list[0].At, d.timing.EarliestAt(left.first, r.since, r.lengths)
	if r.slot.Equal(d.grid.Ceil(due)) {
		return due, false
	}
	if !due.Equal(earliest) && r.slot.Equal(d.slotOf(earliest)) {
		return r.slot, false
	}
	if left.first > 0 || !earliest.After(d.now) {
		return due, true
	}
	return earliest, true
}

// slotOf returns the slot of a check for an instant.
func (d decider) slotOf(at time.Time) time.Time {
	return grid.Later(d.grid.Ceil(at), d.grid.Next(d.now))
}
