package row

import (
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
	bytes := own + len(o.Verdict.Error) + len(o.Verdict.Payload) + len(o.Verdict.Failed)
	for i := range o.Verdict.Enqueue {
		bytes += 2*own + len(o.Verdict.Enqueue[i].Payload)
	}
	return int64(bytes)
}

// Size returns about how many bytes outcomes take.
func Size(outcomes []Outcome) (bytes int64) {
	for i := range outcomes {
		bytes += outcomes[i].Size()
	}
	return bytes
}

// IDs returns the ids of the rows of outcomes.
func IDs(outcomes []Outcome) []int64 {
	ids := make([]int64, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].ID
	}
	return ids
}

// Enqueues reports whether an outcome enqueues other checks.
func (o Outcome) Enqueues() bool { return len(o.Verdict.Enqueue) > 0 }

// kind says how a Tally counts an outcome.
type kind int

const (
	gaveUp kind = iota
	retried
	finished
	rescheduled
)

func (o *Outcome) kind() kind {
	switch {
	case o.Verdict.Outcome == jobs.OutcomeFailed:
		return gaveUp
	case o.Verdict.Move == guard.MoveRetry:
		return retried
	case o.Verdict.Outcome != "":
		return finished
	default:
		return rescheduled
	}
}

// IsFailure reports whether an outcome counts as failed. A later check may still succeed.
func (o *Outcome) IsFailure() bool { return o.kind() == gaveUp || o.kind() == retried }

// Expected returns the tally of outcomes if all their rows are still in the slot.
func Expected(outcomes []Outcome) Tally {
	var n Tally
	for i := range outcomes {
		switch outcomes[i].kind() {
		case gaveUp:
			n.Failed++
			n.GaveUp++
		case retried:
			n.Failed++
		case finished:
			n.Finished++
		case rescheduled:
			n.Rescheduled++
		}
	}
	return n
}

// Tally counts what was recorded.
type Tally struct {
	Finished, Rescheduled, Failed, Yielded int64
	GaveUp                                 int64 // of Failed: rows that have ended
}

// Of returns those of outcomes that were recorded: not those of rows that their owner has cancelled or moved. A tally
// tells how many of each kind were recorded, but not which. The first ones stand for them if all of the kind are of one
// job. Otherwise all do: the log had better name a job too many than leave one out.
func (t Tally) Of(outcomes []Outcome) (recorded []Outcome) {
	if t.Checked() >= int64(len(outcomes)) {
		return outcomes
	}
	counts := [...]int64{
		gaveUp: t.GaveUp, retried: t.Failed - t.GaveUp, finished: t.Finished, rescheduled: t.Rescheduled,
	}
	for k, n := range counts {
		recorded = append(recorded, mostOf(outcomes, n, kind(k))...)
	}
	return recorded
}

// mostOf returns the first n outcomes of a kind, or all if they are of several jobs and n is not 0.
func mostOf(outcomes []Outcome, n int64, of kind) (list []Outcome) {
	mixed := false
	for i := range outcomes {
		if outcomes[i].kind() == of {
			list = append(list, outcomes[i])
			mixed = mixed || outcomes[i].Number != list[0].Number
		}
	}
	if mixed && n > 0 {
		return list
	}
	return list[:min(n, int64(len(list)))]
}

// Checked returns how many outcomes were recorded.
func (t Tally) Checked() int64 { return t.Finished + t.Rescheduled + t.Failed }

// Plus adds another tally.
func (t *Tally) Plus(u Tally) {
	t.Finished += u.Finished
	t.Rescheduled += u.Rescheduled
	t.Failed += u.Failed
	t.Yielded += u.Yielded
	t.GaveUp += u.GaveUp
}

// Sent is a record that was sent. Without a reply, the server may still carry it out.
type Sent struct {
	Part     int64 // the number of the record
	Outcomes []Outcome
}

// Has reports whether one of the rows is a row of the record.
func (s Sent) Has(rows map[int64]bool) bool {
	return slices.ContainsFunc(s.Outcomes, func(o Outcome) bool { return rows[o.ID] })
}
