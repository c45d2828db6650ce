package rule

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/slots/grid"
)

// Decider decides what a rule does with a row of its table. A check, an apply and its plan, and the test on the past
// call it, so that they agree. It reads nothing and has no clock. It is safe for concurrent use.
type Decider struct {
	Rule   Rule
	Timing *Timing
	Facts  expr.Facts
	Grid   grid.Grid
}

// Row holds the values that were read of a row of the table. The zero value stands for a row that is gone.
type Row struct {
	Key   string
	There bool
	About bool // Rule.Where is true
	Done  bool // at the instant of the decision
	// DoneAt is when the expected thing happens, if the row says it. Zero: it does not.
	DoneAt time.Time
	// Since is the start of the clock, in UTC. It means nothing unless Counts is set.
	Since  time.Time
	Counts bool
	// Held has what the data hold of the delays and repetitions, by step.
	Held []expr.Held
	// Paused tells that Rule.Pause is true, and Pauses are all pauses of the row, the earliest first.
	Paused bool
	Pauses []Pause
}

// Memory holds what prescient has recorded about a row of the table.
type Memory struct {
	// Fired is the last occurrence that has fired since Row.Since, by the name of the step. Its instant is zero if it is
	// not known.
	Fired map[string]Occurrence
	// From is the instant before which no step fires: earlier ones were left out. Zero: none was.
	From time.Time
	// Came is when the row came to the rule, if a step may have passed by then. Zero: no step had passed.
	Came time.Time
	// First is the first slot for which the row has waited. Zero: it is not known. Rule.Met follows only if no step
	// was due before it.
	First time.Time
	// Starts are the starts of the clock for which a step has fired since the rule has Recovered.
	Starts []Start
}

// Moment is when a row is looked at.
type Moment struct {
	// Begun is the last instant whose steps may fire: the last slot that had begun.
	Begun time.Time
	// Slot is the slot of the check. Unsettled tells that a transaction is open that has written to the table, or to
	// one of Rule.Also, and began before Slot.
	Slot      time.Time
	Unsettled bool
	// Now is the instant from which Rule.Recheck counts.
	Now time.Time
}

// Due is an occurrence of a step, by the index of the step.
type Due struct {
	Step int
	Occurrence
}

// Decision says what a rule does with a row. Without Next the row ends, once the steps of Due have fired.
type Decision struct {
	// Found says why the row ends, as it was found.
	Found string
	// Due are the occurrences that fire, the earliest first.
	Due []Due
	// Over are the starts of the clock of which Rule.Recovered tells. Met tells that Rule.Met follows.
	Over []time.Time
	Met  bool
	// Passed tells that a step that has not fired had passed when the row came to the rule.
	Passed bool
	// LeftOut are occurrences that do not fire: Rule.Overdue leaves them out, or they come before one that has fired.
	// From is Memory.From of later decisions then.
	LeftOut []Due
	From    time.Time
	// Next is when to look at the row again. Zero: not again.
	Next time.Time
}

// Decide decides about a row. A step whose instant cannot be computed is an error if no other step is left. An
// UnknownName is an error as soon as nothing is due: an operator should hear of it before the steps to come.
func (d Decider) Decide(row Row, m Memory, at Moment) (is Decision, err error) {
	is.Over = over(m.Starts, row)
	switch {
	case d.mayCount(row, at):
		is.Next = d.Grid.Next(at.Begun)
	case !row.There:
		is.Found = foundGone
	case row.About && !row.Done && !row.Counts && d.rechecks():
		is.Next = d.recheck(at)
	case !row.About || !row.Counts:
		is.Found = foundOutside
	case row.Done:
		is.Met = d.inTime(row, m)
		if is.Found = foundDone; !row.DoneAt.IsZero() {
			is.Found += " at " + row.DoneAt.UTC().Format(time.RFC3339Nano)
		}
	case row.Paused:
		is.Next = d.watch(row, m, at, at.Now.Add(pausedFor), false)
	default:
		return d.steps(row, m, at, is)
	}
	return is, nil
}

// mayCount reports whether an open transaction may let a row count that does not count now. Triggers leave the check of
// such a row as it is, if it comes before the first step. So the row goes on waiting until the transactions have ended
// that began before the slot.
func (d Decider) mayCount(row Row, at Moment) bool {
	if !row.There || !row.About || !row.Counts {
		return at.Unsettled
	}
	return row.Done && d.mayReopen(row, at)
}

// mayReopen reports whether an open transaction may let a row wait again that is done, without a change of its check.
// If the row was done when it was written, and no other data say when its steps are due, the trigger changes the
// check, and locks it. An instant of done may still have been to come then, also after the slot, if the run is late.
func (d Decider) mayReopen(row Row, at Moment) bool {
	planned := !row.DoneAt.IsZero()
	return planned && row.DoneAt.After(at.Begun) ||
		at.Unsettled && (planned || d.Facts.Lookup() || len(d.Facts.Pause) > 0 || len(row.Held) > 0)
}

// rechecks reports whether a check must find out that another table has moved the clock of a row.
func (d Decider) rechecks() bool { return d.Facts.SinceMoves() && d.Rule.RecheckEvery() > 0 }

// recheck returns when to look again whether another table has moved the clock of a row, or has ended it.
func (d Decider) recheck(at Moment) time.Time { return at.Now.Add(d.Rule.RecheckEvery()) }

// steps decides about a row that waits for its steps.
func (d Decider) steps(row Row, m Memory, at Moment, is Decision) (Decision, error) {
	timing := d.Timing.For(row.Held, row.Pauses).Continued(row.Since, d.Rule.Steps, m.Fired)
	found := d.occurrences(row, m, at, timing)
	is.Due, is.LeftOut, is.Next = found.due, found.leftOut, found.next
	if len(is.LeftOut) > 0 {
		is.From = found.fired
	}
	if d.late(row, m, at, timing, &is) {
		is.Next = d.watch(row, m, at, is.Next, false)
		return is, nil
	}
	if !found.first.IsZero() && found.first.After(at.Slot) {
		// The run is late, and the step was to come when the slot began. A transaction that began since may have moved it.
		is.Next = earlier(is.Next, d.Grid.Next(at.Begun))
	}
	is.Next = d.watch(row, m, at, is.Next, len(is.Due) > 0)
	switch fails := found.unknown || found.failed != nil && is.Next.IsZero(); {
	case fails && len(is.Due) == 0:
		return is, found.failed
	case fails: // the next check does
		is.Next = d.Grid.Next(at.Begun)
	case !is.Next.IsZero():
	case d.rechecks():
		is.Next = d.recheck(at)
	default:
		is.Found = foundOpen
	}
	return is, nil
}

// pausedFor is after what time a row that is paused is looked at again. The trigger tells when it goes on: until then
// the row only waits, and keeps what is known of it.
const pausedFor = day

// inTime reports whether Rule.Met follows if a row is done: no step has fired since the clock started, Met has not
// followed, and no step has passed without firing, because the row came late or waits since then only. A row without a
// step waits for nothing.
func (d Decider) inTime(row Row, m Memory) bool {
	if d.Rule.Met == (Act{}) || len(m.Fired) > 0 || !d.Timing.For(row.Held, nil).ever(row.Since) {
		return false
	}
	passed := m.From // a step before it has passed
	if !m.Came.IsZero() {
		passed = grid.Later(passed, FirstToCome(d.Grid, m.Came))
	}
	for _, at := range []time.Time{m.First, row.DoneAt} { // a step of the same slot has not
		if !at.IsZero() {
			passed = grid.Later(passed, d.Grid.Floor(at.Add(-time.Microsecond)).Add(time.Microsecond))
		}
	}
	_, last := d.Timing.For(row.Held, row.Pauses).LastBefore(row.Since, passed)
	return last.Number == 0
}

// watch returns the earliest of an instant, of when Rule.Recovered or Rule.Met may follow, and of when an open
// transaction may have changed the instant. fires tells that steps fire now.
func (d Decider) watch(row Row, m Memory, at Moment, next time.Time, fires bool) time.Time {
	if at.Unsettled {
		// It may have moved the clock, ended the pause, or changed what the data hold of the steps. Triggers leave a check as
		// it is that comes early enough, because the check finds out. So the row goes on waiting until the transactions have
		// ended that began before the slot.
		next = earlier(next, d.Grid.Next(at.Begun))
	}
	if !row.DoneAt.IsZero() && !fires && d.inTime(row, m) {
		next = earlier(next, row.DoneAt)
	}
	if d.Rule.Recovered == (Act{}) || !watched(m.Starts, row.Since, fires) {
		return next
	}
	if !row.DoneAt.IsZero() {
		next = earlier(next, row.DoneAt)
	}
	if d.Facts.EndLookup() && d.Rule.RecheckEvery() > 0 {
		next = earlier(next, d.recheck(at))
	}
	return next
}

// occurrences are those of the steps of a row, at a moment.
type occurrences struct {
	due     []Due     // they may fire, the earliest first
	leftOut []Due     // they do not, because they come before one that has fired: the rule did not have them then
	first   time.Time // the earliest of the first occurrences of the steps, if it has passed
	fired   time.Time // the latest that has fired
	next    time.Time // that may fire. Zero: there is none
	failed  error     // says why the instants of some steps cannot be computed. They do not hold up the others
	unknown bool      // one of them may be due, but for a name that is not known
}

// occurrences finds the occurrences of the steps. Of those of a step that have passed, only the last one may fire.
//
// If no step has passed, a first occurrence also counts as the next one if the step has fired, after a shorter delay.
// Until then, triggers leave a row whose clock moves later to its check, so it needs one.
func (d Decider) occurrences(row Row, m Memory, moment Moment, timing *Timing) (found occurrences) {
	coming := time.Time{} // the earliest of the first occurrences that have not passed
	for i, step := range d.Rule.Steps {
		fired := m.Fired[step.Name].Number
		last, next, err := timing.Around(i, row.Since, grid.Later(moment.Begun, m.From.Add(-1)))
		if name, unknown := errors.AsType[*UnknownName](err); unknown {
			switch at := timing.tells(i, row.Since); {
			case fired > 0 && !step.Repeats(): // it needs no time
			case at.After(moment.Begun):
				found.next = earlier(found.next, at)
			case !errors.Is(found.failed, name): // that of a zone is the same for all steps
				found.unknown, found.failed = true, errors.Join(found.failed, name)
			}
			continue
		}
		if err != nil {
			found.failed = errors.Join(found.failed, fmt.Errorf("step %s: %w", step.Name, err))
			continue
		}
		if last.Number > fired && !last.At.Before(m.From) {
			found.due = append(found.due, Due{i, last})
		}
		if last.Number > 0 {
			// The first occurrence has passed, and those before the last one can be computed.
			if first, _ := timing.Nth(i, row.Since, 1); first.Number > 0 {
				found.first = earlier(found.first, first.At)
			}
			if fired > 0 && fired <= last.Number && !d.Timing.varies(i) { // the data may have moved the others since
				o, _ := timing.Nth(i, row.Since, fired)
				found.fired = grid.Later(found.fired, o.At)
			}
		}
		if next.Number == 1 {
			// A clock that moves later may make the step earlier, until the instant before which it never fires.
			if early := row.Since.Add(d.Timing.Earliest(i)); step.Interval == "" && early.After(moment.Begun) {
				next.At = early
			}
			coming = earlier(coming, next.At)
		}
		if next.Number > 0 && next.Number <= fired { // after another delay
			next, _ = timing.Nth(i, row.Since, fired+1)
		}
		if next.Number > 0 {
			found.next = earlier(found.next, next.At)
		}
	}
	if found.first.IsZero() && !coming.IsZero() {
		found.next = earlier(found.next, coming)
	}
	found.due = slices.DeleteFunc(found.due, func(o Due) bool {
		leaves := o.At.Before(found.fired) && !d.Timing.varies(o.Step)
		if leaves {
			found.leftOut = append(found.leftOut, o)
		}
		return leaves
	})
	slices.SortStableFunc(found.due, func(a, b Due) int { return a.At.Compare(b.At) })
	return found
}

// late decides about the steps that had passed when the row came to the rule. It reports whether the row waits for
// another slot, in which they fire.
func (d Decider) late(row Row, m Memory, at Moment, timing *Timing, is *Decision) (waits bool) {
	if m.Came.IsZero() {
		return false
	}
	first := FirstToCome(d.Grid, m.Came)
	passed := func(o Due) bool { return o.At.Before(first) }
	if is.Passed = slices.ContainsFunc(is.Due, passed); !is.Passed {
		return false
	}
	step := -1 // that fires
	switch d.Rule.Overdue.decides() {
	case OverdueFire:
		return false
	case OverdueSpread:
		slot := d.Rule.SlotFor(d.Grid, m.Came, row.Key)
		if waits = at.Begun.Before(slot); waits {
			is.Due, is.Next = nil, slot
		}
		return waits
	case OverdueLast:
		step, _ = timing.LastBefore(row.Since, first)
	case OverdueSkip:
	}
	is.Due = slices.DeleteFunc(is.Due, func(o Due) bool {
		leaves := passed(o) && o.Step != step
		if leaves {
			is.LeftOut, is.From = append(is.LeftOut, o), first
		}
		return leaves
	})
	return false
}

// earlier returns the earlier one of two instants. The zero value of the first one stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
