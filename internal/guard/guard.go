// Package guard decides the outcome of a row by the limits of its job, before its check and after.
// It is pure, and shared by the packages that run jobs.
package guard

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Moment is when a row is judged: the slot being run, and the current instant of the clock that
// slots are compared with.
type Moment struct {
	Grid     grid.Grid
	Slot     time.Time
	Now      time.Time
	CaughtUp bool            // catch-up runs the slot, which was missed
	Missed   map[string]bool // catch-up runs rows of these jobs, which were paused when a run closed or left the slot
}

// Misses reports whether the misfire policy of a job applies.
func (m Moment) Misses(d *jobs.Definition) bool { return m.CaughtUp || m.Missed[d.Name] }

// Move says why a row goes to a later slot.
type Move string

// The moves.
const (
	MoveNext  Move = "next"  // the check asked for it
	MoveRetry Move = "retry" // the check failed
	MoveDefer Move = "defer" // the check did not run
)

// Verdict is the decision about a row: it ends with an outcome, or it moves to a later slot.
type Verdict struct {
	Outcome jobs.Outcome // empty if the row moves
	Move    Move         // empty if the row ends
	Next    time.Time    // the slot it moves to, or a later one if that has begun when the row is written
	Error   string       // the error of the check, with text that the database accepts

	Payload json.RawMessage // replaces the payload of the row, unless nil
	Enqueue []jobs.Request  // checks to enqueue together with the row's outcome
	// Failed is an error that the check had for the last of Enqueue, the next row of a periodic function.
	Failed string
}

// Before judges a row before its check. If the check must not run, ok is false and the Verdict says
// why.
func Before(d *jobs.Definition, m Moment) (v Verdict, ok bool) {
	switch {
	case PastDeadline(d, m):
		return Verdict{Outcome: jobs.OutcomeDeadline}, false
	case m.Misses(d) && d.Misfire == jobs.MisfireSkip:
		return Verdict{Outcome: jobs.OutcomeSkipped}, false
	case m.Misses(d) && d.Misfire == jobs.MisfireDefer:
		return Defer(m), false
	}
	return Verdict{}, true
}

// Follow adds the row for the next instant to the verdict that ends the row of a periodic function. After an error the
// row keeps the instant that the function was called for, in history and for a retry.
func Follow(d *jobs.Definition, m Moment, job *jobs.FutureJob, v *Verdict) {
	if d.Crontab == "" {
		return
	}
	if v.Payload == nil && (v.Outcome == jobs.OutcomeFailed || v.Move == MoveRetry) {
		v.Payload = d.CalledFor(reserved.Caller{}, *job)
	}
	if v.Outcome == "" {
		return
	}
	ended := *job
	if v.Payload != nil {
		ended.Payload = v.Payload
	}
	next, failed, ok := d.Following(reserved.Caller{}, ended, dropped(d, m, v.Outcome))
	if ok {
		v.Enqueue, v.Failed = append(v.Enqueue, next), failed
	}
}

// dropped returns the last slot whose instants a periodic function is not called for, because they were missed or are
// past its deadline. It returns the zero time if no instant is left out. Instants of the current slot are not missed.
func dropped(d *jobs.Definition, m Moment, outcome jobs.Outcome) (last time.Time) {
	if outcome == jobs.OutcomeDeadline {
		last = m.Grid.Previous(m.Now.Add(-d.Deadline))
	}
	if m.Misses(d) && d.Misfire == jobs.MisfireSkip {
		missed := grid.Later(m.Slot, m.Grid.Previous(m.Grid.Floor(m.Now)))
		last = grid.Later(last, missed)
	}
	return last
}

// Defer returns the verdict about a row whose check moves to the next slot without a call.
func Defer(m Moment) Verdict { return Verdict{Move: MoveDefer, Next: m.Grid.Next(m.Latest())} }

// PastDeadline reports whether it is too late to start a check.
func PastDeadline(d *jobs.Definition, m Moment) bool {
	return d.Deadline > 0 && m.Now.Sub(m.Slot) > d.Deadline
}

// After judges the result of a check. An error overrides everything else that was returned.
func After(d *jobs.Definition, m Moment, job *jobs.FutureJob, next *time.Time, err error) Verdict {
	switch {
	case errors.Is(err, leave.ErrToSlot):
		return Defer(m)
	case err != nil:
		return failed(d, m, job, err)
	case next == nil:
		return Verdict{Outcome: jobs.OutcomeDone}
	case !next.After(m.Slot):
		return Verdict{Outcome: jobs.OutcomePast}
	case job.CheckCount+1 >= d.MaxChecks:
		return Verdict{Outcome: jobs.OutcomeMaxChecks}
	case next.Sub(m.Now) > d.Horizon || next.Add(d.Within).After(grid.Max()):
		return Verdict{Outcome: jobs.OutcomeHorizon}
	}
	if !m.Grid.Ceil(*next).After(m.Slot) {
		// The instant is less than half a microsecond after the slot, so the database sees it as
		// the slot itself.
		return Verdict{Outcome: jobs.OutcomePast}
	}
	// If the run is late, the slot asked for may have begun. The row then moves to a later one,
	// because an outage must not lose an escalation.
	return Verdict{Move: MoveNext, Next: spread.Key(job.Key()).PickSlot(m.Grid, *next, d.Within, m.Grid.Next(m.Now))}
}

func failed(d *jobs.Definition, m Moment, job *jobs.FutureJob, err error) Verdict {
	text := plain.ErrorText(err)
	if job.ErrorCount+1 > d.Retry || errors.Is(err, jobs.ErrGiveUp) {
		return Verdict{Outcome: jobs.OutcomeFailed, Error: text}
	}
	pause := min(d.MaxBackOff, 1<<min(job.ErrorCount, 30))
	next := m.Grid.Add(m.Grid.Floor(m.Latest()), pause)
	return Verdict{Move: MoveRetry, Next: grid.Earlier(next, grid.Max()), Error: text}
}

// Latest returns now, or the slot if the clock runs behind it.
func (m Moment) Latest() time.Time {
	if m.Now.Before(m.Slot) {
		return m.Slot
	}
	return m.Now
}
