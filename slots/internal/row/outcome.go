package row

import (
	"cmp"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

// Outcome is the result of a row, to be recorded.
type Outcome struct {
	ID       int64
	Number   int64 // of its job
	Verdict  *guard.Verdict
	Ran      bool // the job's function was called
	Lateness time.Duration
	Duration time.Duration
}

// Size returns about how many bytes the outcome takes.
func (o *Outcome) Size() int64 {
	const own = 250 // without its texts
	bytes := own + len(o.Verdict.Error) + len(o.Verdict.Payload)
	for i := range o.Verdict.Enqueue {
		bytes += 2*own + len(o.Verdict.Enqueue[i].Payload)
	}
	return int64(bytes)
}

// minAlike is how many rows are worth a statement of their own, unless all rows are alike.
const minAlike = 50

// mark has the values in which rows are alike.
type mark struct {
	outcome            jobs.Outcome
	move               guard.Move
	next               time.Time
	ran                bool
	lateness, duration time.Duration
}

// mark returns the mark of an outcome. ok is false if the outcome has an error or a payload.
func (o *Outcome) mark() (m mark, ok bool) {
	m = mark{o.Verdict.Outcome, o.Verdict.Move, o.Verdict.Next, o.Ran, o.Lateness, o.Duration}
	return m, o.Verdict.Error == "" && o.Verdict.Payload == nil
}

// Alike groups outcomes that differ only in their row, and returns the remaining outcomes as the rest.
// It keeps the order of the outcomes in each.
func Alike(outcomes []Outcome) (groups [][]Outcome, rest []Outcome) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	first, ok := outcomes[0].mark()
	if ok && !slices.ContainsFunc(outcomes, func(o Outcome) bool { m, ok := o.mark(); return m != first || !ok }) {
		return [][]Outcome{outcomes}, nil
	}
	marked := map[mark][]Outcome{}
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
	Sort(rest)
	return groups, rest
}

// Sort brings outcomes into the order in which rows are recorded.
func Sort(list []Outcome) {
	slices.SortFunc(list, func(a, b Outcome) int { return cmp.Compare(a.ID, b.ID) })
}

// IDs returns the ids of the rows of outcomes.
func IDs(outcomes []Outcome) []int64 {
	ids := make([]int64, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].ID
	}
	return ids
}

// Numbers returns the numbers of the jobs of outcomes, in order.
func Numbers(outcomes []Outcome) (numbers []int64) {
	for i := range outcomes {
		if i == 0 || outcomes[i].Number != outcomes[i-1].Number {
			numbers = append(numbers, outcomes[i].Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// Fitting returns how many of the first outcomes take up to most bytes, at least one.
func Fitting(outcomes []Outcome, most int64) int {
	bytes := int64(0)
	for i := range outcomes {
		if bytes += outcomes[i].Size(); bytes > most {
			return max(i, 1)
		}
	}
	return len(outcomes)
}

// FirstMove returns the first instant to which outcomes move rows. It is zero if they move none.
func FirstMove(outcomes []Outcome) (first time.Time) {
	for i := range outcomes {
		if v := outcomes[i].Verdict; v.Outcome == "" && (first.IsZero() || v.Next.Before(first)) {
			first = v.Next
		}
	}
	return first
}

// Enqueues reports whether an outcome enqueues other checks.
func (o Outcome) Enqueues() bool { return len(o.Verdict.Enqueue) > 0 }

// IsFailure reports whether an outcome counts as failed. A later check may still succeed.
func (o *Outcome) IsFailure() bool {
	return o.Verdict.Outcome == jobs.Failed || o.Verdict.Move == guard.MoveRetry
}

// Only returns the outcomes for which keep is true.
func Only(outcomes []Outcome, keep func(o *Outcome) bool) (list []Outcome) {
	for i := range outcomes {
		if keep(&outcomes[i]) {
			list = append(list, outcomes[i])
		}
	}
	return list
}

// Expected returns the tally of outcomes if all their rows are still in the slot.
func Expected(outcomes []Outcome) Tally {
	var n Tally
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case o.IsFailure():
			n.Failed++
		case o.Verdict.Outcome != "":
			n.Finished++
		default:
			n.Rescheduled++
		}
	}
	return n
}

// Tally counts what was recorded.
type Tally struct {
	Finished, Rescheduled, Failed, Yielded int64
}

// Checked returns how many outcomes were recorded.
func (t Tally) Checked() int64 { return t.Finished + t.Rescheduled + t.Failed }

// Plus adds another tally.
func (t *Tally) Plus(u Tally) {
	t.Finished += u.Finished
	t.Rescheduled += u.Rescheduled
	t.Failed += u.Failed
	t.Yielded += u.Yielded
}

// Lost is a record whose reply was lost: the server may still carry it out.
type Lost struct {
	Part     int64 // the number of the record
	Outcomes []Outcome
}

// Has reports whether one of the rows is a row of the record.
func (l Lost) Has(rows map[int64]bool) bool {
	return slices.ContainsFunc(l.Outcomes, func(o Outcome) bool { return rows[o.ID] })
}
