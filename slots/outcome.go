package slots

import (
	"cmp"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

// outcome is what became of a row, to be recorded.
type outcome struct {
	id       int64
	number   int64 // of its job
	verdict  *guard.Verdict
	ran      bool
	untraced bool // of a job that wants no trace of a check without an error
	lateness time.Duration
	duration time.Duration
}

// What is kept of a check's times, in history: with more, no two rows would be alike. See jobs.Ended.
const (
	latenessUnit = 100 * time.Millisecond
	durationUnit = time.Millisecond // of a row that was checked alone
)

// outcomes returns what becomes of the rows of a unit that took a while. The run time of a batch is shared by its rows.
func (rd *round) outcomes(u *unit, verdicts []guard.Verdict, ran bool, took time.Duration) []outcome {
	if len(u.rows) == 1 {
		took = took.Round(durationUnit)
	}
	list := make([]outcome, len(u.rows))
	for i := range u.rows {
		list[i] = outcome{
			id: u.rows[i].ID, number: u.numberOf(i), verdict: &verdicts[i], ran: ran, untraced: u.def.Untraced && verdicts[i].Error == "",
			lateness: u.rows[i].Lateness.Truncate(latenessUnit),
			duration: (took / time.Duration(len(u.rows))).Truncate(time.Microsecond),
		}
	}
	return list
}

// unchecked are the outcomes of a unit whose function is not called.
func (rd *round) unchecked(u *unit, v guard.Verdict) []outcome {
	return rd.outcomes(u, slices.Repeat([]guard.Verdict{v}, len(u.rows)), false, 0)
}

func (u *unit) numberOf(row int) int64 {
	if u.numbers != nil {
		return u.numbers[row]
	}
	return u.number
}

// minAlike is how many rows make a statement of their own worth while, unless they are all there are.
const minAlike = 50

// mark is in what rows are alike.
type mark struct {
	outcome            jobs.Outcome
	untraced           bool
	move               guard.Move
	next               time.Time
	ran                bool
	lateness, duration time.Duration
	learned            string
}

// mark returns the mark of an outcome; ok is false when it has what no other row has.
func (o *outcome) mark() (m mark, ok bool) {
	m = mark{o.verdict.Outcome, o.untraced, o.verdict.Move, o.verdict.Next, o.ran, o.lateness, o.duration, o.verdict.Learned}
	return m, o.verdict.Error == "" && o.verdict.Payload == nil
}

// alike groups outcomes that differ in nothing but their row; the rest is what differs. Each is in the order of what it
// was given.
func alike(outcomes []outcome) (groups [][]outcome, rest []outcome) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	first, ok := outcomes[0].mark()
	if ok && !slices.ContainsFunc(outcomes, func(o outcome) bool { m, ok := o.mark(); return m != first || !ok }) {
		return [][]outcome{outcomes}, nil
	}
	marked := map[mark][]outcome{}
	for _, o := range outcomes {
		if m, ok := o.mark(); ok {
			marked[m] = append(marked[m], o)
		} else {
			rest = append(rest, o)
		}
	}
	for _, group := range marked {
		if len(group) < minAlike {
			rest = append(rest, group...)
		} else {
			groups = append(groups, group)
		}
	}
	sortOutcomes(rest)
	return groups, rest
}

// sortOutcomes brings outcomes into the order in which rows are recorded.
func sortOutcomes(list []outcome) {
	slices.SortFunc(list, func(a, b outcome) int { return cmp.Compare(a.id, b.id) })
}

// enqueues tells whether other checks are asked for with an outcome.
func (o outcome) enqueues() bool { return len(o.verdict.Enqueue) > 0 }

// isFailure tells whether an outcome counts as failed, though it may be tried again.
func (o *outcome) isFailure() bool {
	return o.verdict.Outcome == jobs.Failed || o.verdict.Move == guard.MoveRetry
}

// only returns the outcomes for which keep is true.
func only(outcomes []outcome, keep func(o *outcome) bool) (list []outcome) {
	for i := range outcomes {
		if keep(&outcomes[i]) {
			list = append(list, outcomes[i])
		}
	}
	return list
}

// expected is the tally of outcomes when all their rows are still in the slot.
func expected(outcomes []outcome) tally {
	var n tally
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.isFailure():
			n.failed++
		case o.verdict.Outcome != "":
			n.finished++
		default:
			n.rescheduled++
		}
	}
	return n
}
