package view

import (
	"context"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// The states of a slot that no run has opened, beside slots.StateMissed.
const (
	StateDue      slots.State = "due"       // begun, but no run has opened it yet
	StateAhead    slots.State = "ahead"     // not yet begun
	StateNoLedger slots.State = "no ledger" // before the beginning of the ledger
)

// Unopened returns the state of a slot that no run has opened. since is the beginning of the ledger.
func Unopened(slot, since, current time.Time) slots.State {
	switch {
	case slot.After(current):
		return StateAhead
	case slot.Equal(current):
		return StateDue
	case slot.Before(since):
		return StateNoLedger
	}
	return slots.StateMissed
}

// SlotDetail is one slot as JSON.
type SlotDetail struct {
	ledger.SlotRun
	Claims  []ledger.Claim `json:"claims"`
	Waiting []Waiting      `json:"waiting"`
}

// ReadSlot returns a slot with its claims and what waits in it. has reports whether the caller has
// registered a job.
func ReadSlot(
	ctx context.Context, l *ledger.Ledger, run ledger.SlotRun, has func(job string) bool,
) (v SlotDetail, err error) {
	v.SlotRun = run
	if v.Claims, err = l.Claims(ctx, run.Slot); err != nil {
		return v, err
	}
	v.Claims = append([]ledger.Claim{}, v.Claims...)
	waiting, err := l.Waiting(ctx, run.Slot)
	v.Waiting = newWaiting(waiting, has)
	return v, err
}

// ClaimRow returns the cells of a claim, without its slot.
func ClaimRow(c ledger.Claim) []any {
	names := strings.Join(c.Jobs, ", ")
	if names == "" && !c.Live {
		names = "none: its runner died, or lost the database"
	}
	return []any{string(c.Kind), c.Runner, c.Until, c.Live, names}
}

// Waiting counts the waiting rows of a job in a slot.
type Waiting struct {
	JobExec    string `json:"job_exec"`
	Waiting    int64  `json:"waiting"`    // rows that wait
	State      State  `json:"state"`      // waiting or paused
	Registered bool   `json:"registered"` // this binary has the job; false: it leaves the rows to another one
	AtLeast    bool   `json:"at_least"`   // counting stopped at waiting: there are that many or more
}

// newWaiting returns counts of waiting rows as JSON. has reports whether the caller has registered
// a job.
func newWaiting(list []ledger.JobCount, has func(job string) bool) []Waiting {
	return seq.Map(list, func(w ledger.JobCount) Waiting {
		return Waiting{w.JobExec, w.Waiting.N, stateOf(w.Paused), has(w.JobExec), w.Waiting.AtLeast}
	})
}

// Count returns the number of rows.
func (w Waiting) Count() ledger.Count { return ledger.Count{N: w.Waiting, AtLeast: w.AtLeast} }

// State says what a row waits for: its slot, or the resumption of its job.
type State string

// The states of a waiting row.
const (
	StateWaiting State = "waiting"
	StatePaused  State = "paused"
)

// stateOf returns the state of the rows of a job.
func stateOf(paused bool) State {
	if paused {
		return StatePaused
	}
	return StateWaiting
}

// Marked returns a text about the job, with a mark if the job is not registered.
func (w Waiting) Marked(text string) string {
	if !w.Registered {
		text += " (not registered here)"
	}
	return text
}

// StateWord names the state of a slot in trouble.
func StateWord(state slots.State) string {
	switch state {
	case slots.StateOpen:
		return "left open"
	case slots.StateDone:
		return "stragglers"
	}
	return string(state)
}
