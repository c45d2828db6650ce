package view

import (
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Slot is ledger.SlotRun as JSON.
type Slot struct {
	Slot        time.Time   `json:"slot"`
	State       slots.State `json:"state"`
	Kind        slots.Kind  `json:"kind"`
	Planned     int64       `json:"planned"`
	Checked     int64       `json:"checked"`
	Finished    int64       `json:"finished"`
	Rescheduled int64       `json:"rescheduled"`
	Failed      int64       `json:"failed"`
	TakeOvers   int64       `json:"take_overs"`
	OpenedAt    *time.Time  `json:"opened_at"`   // null: not opened
	FinishedAt  *time.Time  `json:"finished_at"` // null: not done
}

// NewSlot returns a row of the ledger as JSON.
func NewSlot(r ledger.SlotRun) Slot {
	v := Slot{
		Slot: r.Slot.UTC(), State: r.State, Kind: r.Kind, Planned: r.Planned, Checked: r.Checked, Finished: r.Finished,
		Rescheduled: r.Rescheduled, Failed: r.Failed, TakeOvers: r.TakeOvers, FinishedAt: r.FinishedAt,
	}
	if !r.OpenedAt.IsZero() {
		v.OpenedAt = &r.OpenedAt
	}
	return v
}

// NotOpened is the state of a slot that no run has opened, and that is not missed.
const NotOpened slots.State = "not opened"

// SlotDetail is one slot as JSON.
type SlotDetail struct {
	Slot
	Claims  []Claim   `json:"claims"`
	Waiting []Waiting `json:"waiting"`
}

// Claim is ledger.Claim as JSON.
type Claim struct {
	Slot   time.Time  `json:"slot"`
	Token  int64      `json:"token,string"` // has more digits than a number of JavaScript
	Kind   slots.Kind `json:"kind"`
	Jobs   []string   `json:"jobs"` // none: the runner works on the slot and may claim more
	Runner string     `json:"runner"`
	Until  *time.Time `json:"until"` // null: handed back
	Live   bool       `json:"live"`
}

// Row returns the cells of a claim, without its slot.
func (c Claim) Row() []any {
	return []any{string(c.Kind), c.Runner, c.Until, c.Live, strings.Join(c.Jobs, ", ")}
}

// NewClaims returns claims as JSON.
func NewClaims(claims []ledger.Claim) []Claim {
	views := []Claim{}
	for _, c := range claims {
		v := Claim{
			Slot: c.Slot, Token: c.Token, Kind: c.Kind, Jobs: append([]string{}, c.Jobs...),
			Runner: c.Runner, Live: c.Live,
		}
		if c.Until.Unix() > 0 {
			v.Until = &c.Until
		}
		views = append(views, v)
	}
	return views
}

// Waiting counts the waiting rows of a job in a slot.
type Waiting struct {
	JobExec    string `json:"job_exec"`
	Waiting    int64  `json:"waiting"`
	State      State  `json:"state"`
	Registered bool   `json:"registered"` // false: this binary leaves the rows to another one
}

// NewWaiting returns counts of waiting rows as JSON. has reports whether the caller has registered
// a job.
func NewWaiting(list []ledger.JobCount, paused []admin.PausedJob, has func(job string) bool) []Waiting {
	views := []Waiting{}
	for _, w := range list {
		views = append(views, Waiting{w.JobExec, w.Waiting, StateOf(w.JobExec, paused), has(w.JobExec)})
	}
	return views
}

// State says what a row waits for: its slot, or the resumption of its job.
type State string

// The states of a waiting row.
const (
	StateWaiting State = "waiting"
	StatePaused  State = "paused"
)

// StateOf returns the state of the rows of a job.
func StateOf(job string, paused []admin.PausedJob) State {
	if slices.ContainsFunc(paused, func(p admin.PausedJob) bool { return p.JobExec == job }) {
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
