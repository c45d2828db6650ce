package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// inState returns the number of troubled slots in the given states, their rows, and the first slot.
func (r *Report) inState(list []ledger.Trouble, states ...slots.State) (n int64, rows ledger.Count, first time.Time) {
	for _, t := range list {
		if slices.Contains(states, t.State) {
			if n++; n == 1 {
				first = t.Slot
			}
			rows = rows.Plus(t.Waiting())
		}
	}
	if slices.Contains(states, slots.StateMissed) {
		n += r.MoreMissed
	}
	if slices.Contains(states, slots.StateOpen) {
		n += r.MoreOpen
	}
	more := slices.Contains(states, slots.StateMissed) && r.MoreMissed > 0 ||
		slices.Contains(states, slots.StateOpen) && r.MoreOpen > 0 || slices.Contains(states, slots.StateDone)
	rows.AtLeast = rows.AtLeast || more && r.MoreRows
	return n, rows, first
}

// untold returns slots without the rows of jobs that a finding has told. It leaves out slots that
// have no other rows.
func (r *Report) untold(list []ledger.Trouble) (rest []ledger.Trouble) {
	for _, t := range list {
		counts := slices.DeleteFunc(slices.Clone(t.Jobs), func(c ledger.JobCount) bool { return r.told.jobs[c.JobExec] })
		if len(counts) < len(t.Jobs) {
			if t.Jobs = counts; len(counts) == 0 {
				continue
			}
		}
		rest = append(rest, t)
	}
	return rest
}

func rowsOf(counts []ledger.JobCount) ledger.Count { return ledger.Trouble{Jobs: counts}.Waiting() }

func missed(r *Report, threshold float64) []Finding {
	n, rows, first := r.inState(r.Trouble, slots.StateMissed)
	return r.tell(r.found(float64(n) > threshold, "catch-up", "%s since %s: opened by no run; %s in %s",
		spoken.Count(n, "slot was", "slots were")+" missed", r.since(first), rows.Of("row waits", "rows wait"),
		spoken.Noun(n, "it", "them")),
		slots.StateMissed)
}

func ahead(r *Report, threshold float64) []Finding {
	return r.found(r.ahead.By(r.Current.Slot).Seconds() > threshold, "slots rewind", "%s", AheadText(r.ahead))
}

// AheadText describes what lies beyond the clock.
func AheadText(a ledger.Ahead) string {
	var parts []string
	if !a.Since.IsZero() {
		parts = append(parts,
			fmt.Sprintf("the ledger begins at %s, which lies beyond the clock: no slot before it is found missed",
				clock(a.Since)))
	}
	if !a.Last.IsZero() {
		parts = append(parts, fmt.Sprintf("%s beyond the clock, the last %s: when they begin, runs find them done",
			spoken.Count(a.Slots, "slot of the ledger lies", "slots of the ledger lie"), clock(a.Last)))
	}
	if a.Schedules > 0 {
		parts = append(parts, spoken.Count(a.Schedules, "check of schedules was", "checks of schedules were")+
			" among them: the schedules are silent until then")
	}
	if a.Periodic > 0 {
		parts = append(parts, spoken.Count(a.Periodic, "row of a periodic function was", "rows of periodic functions were")+
			" written then: the functions are silent until the slots of these rows")
	}
	return "the clock was ahead while something was written: " + strings.Join(parts, "; ")
}

func stranded(r *Report, threshold float64) []Finding {
	list := r.untold(r.Trouble)
	n, rows, first := r.inState(list, slots.StateOpen, slots.StateDone)
	expired, of := int64(0), time.Time{}
	for _, c := range r.Claims {
		if len(c.Jobs) > 0 && !c.Live && c.Until != nil {
			if expired++; expired == 1 {
				of = c.Slot
			}
		}
	}
	if n == 0 && expired > 0 { // in a slot that is being run, which catch-up leaves to its runners
		return r.found(float64(expired) > threshold, "run --slot "+clock(of), "%s by runners that have died",
			spoken.Count(expired, "claim is held", "claims are held"))
	}
	if rows.N == 0 {
		return r.found(float64(n) > threshold, "catch-up",
			"%s left open since %s: no row waits in %s, or only rows of paused jobs",
			spoken.Count(n, "slot was", "slots were"), r.since(first), spoken.Noun(n, "it", "them"))
	}
	remedy, foreign := "catch-up", r.foreign(keep(list, func(t ledger.Trouble) bool {
		return t.State != slots.StateMissed
	}))
	text := fmt.Sprintf("%s stranded in %s since %s: "+
		"runners left before the end of a slot, or rows were committed after a slot was closed",
		rows.Of("row is", "rows are"), spoken.Count(n, "slot", "slots"), r.since(first))
	text += waited(list)
	if len(foreign) > 0 { // catch-up leaves these rows
		remedy = "jobs list --job " + spoken.Word(foreign[0])
		text += ". They are of jobs that are not registered here: " + spoken.List(foreign) +
			". Run catch-up with a binary that has them, or cancel the rows if a name is wrong"
	}
	return r.tell(r.found(float64(n) > threshold, remedy, "%s", text), slots.StateOpen, slots.StateDone)
}

// foreign returns the jobs of the rows in slots if the caller has registered none of them. Its
// catch-up can then do nothing for any of the slots. Otherwise it returns none.
func (r *Report) foreign(list []ledger.Trouble) (names []string) {
	for _, t := range list {
		for _, job := range t.Jobs {
			if r.knows(job.JobExec) {
				return nil
			}
			names = append(names, job.JobExec)
		}
		if len(t.Jobs) == 0 {
			return nil
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func overdue(r *Report, threshold float64) []Finding {
	late := func(t ledger.Trouble) bool {
		return t.Waiting().N > 0 && r.Now.Sub(t.Slot).Seconds() > threshold
	}
	left := keep(r.untold(r.Trouble), func(t ledger.Trouble) bool {
		return !slices.Contains(r.told.states, t.State) && late(t)
	})
	running := keep(r.untold(r.Running), late)
	var oldest time.Time
	var rows ledger.Count
	for _, t := range slices.Concat(left, running) {
		rows = rows.Plus(t.Waiting())
		if oldest.IsZero() || t.Slot.Before(oldest) {
			oldest = t.Slot
		}
	}
	due := rowsOf(slices.DeleteFunc(slices.Clone(r.unopened), func(c ledger.JobCount) bool {
		return c.Paused || r.told.jobs[c.JobExec]
	}))
	unopened := due.N > 0 && r.Now.Sub(r.Current.Slot).Seconds() > threshold
	if unopened {
		rows = rows.Plus(due)
		if oldest.IsZero() {
			oldest = r.Current.Slot
		}
	}
	remedy, foreign := "slots show "+clock(oldest), r.foreign(left)
	switch {
	case unopened: // catch-up leaves the current slot to its run
		remedy = "run --catch-up"
	case len(foreign) > 0:
		remedy = "jobs list --job " + spoken.Word(foreign[0])
	case len(left) > 0:
		remedy = "catch-up"
	}
	return r.found(rows.N > 0, remedy, "%s for more than %s, the oldest since %s%s",
		rows.Of("row has been due", "rows have been due"), seconds(threshold), r.since(oldest),
		waited(slices.Concat(left, running)))
}

// waited names the first slot whose rows have waited for a lock of another session, and that session.
func waited(list []ledger.Trouble) string {
	for _, t := range list {
		if t.WaitedFor != "" {
			return fmt.Sprintf("; rows of slot %s have waited for a lock of %s", clock(t.Slot), t.WaitedFor)
		}
	}
	return ""
}

// keep returns the slots that a test accepts.
func keep(list []ledger.Trouble, test func(t ledger.Trouble) bool) (kept []ledger.Trouble) {
	for _, t := range list {
		if test(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

func slow(r *Report, threshold float64) []Finding {
	percent := 100 * r.Took.Seconds() / r.Grid.Width().Seconds()
	return r.found(percent > threshold, "slots show "+clock(r.Slowest),
		"slot %s has taken %s, %.0f %% of the time until the next one: it needs more runners, more workers, or batches",
		clock(r.Slowest), seconds(r.Took.Seconds()), percent)
}
