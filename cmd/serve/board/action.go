package board

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots"
)

// Who is somebody who asks.
type Who struct {
	Name     string // of his token, such as "ops"
	Remote   string // address
	Operator bool   // may act; else he may only read
	Token    int    // the number of his token; 0: none
}

// String is how he is recorded, such as "ops from 127.0.0.1".
func (w Who) String() string {
	if w.Remote == "" {
		return w.Name
	}
	return w.Name + " from " + w.Remote
}

// Action is something that an operator may ask for: one of the types below.
type Action interface {
	// name is what it is called in the log and in the table action; target is what it changes.
	name() string
	target() string
	// plan says what it would do, but for What, Target and Confirm. A RefusedError or a jobs.FieldError says that it makes no sense.
	plan(ctx context.Context, p *planner) (plan Plan, err error)
}

// short is an action that is done in one transaction, which it shares with its record.
type short interface {
	Action
	do(ctx context.Context, tx *sqlx.Tx, t *tools) (result string, err error)
}

// long is one that has transactions of its own, and goes on when Do has returned.
type long interface {
	Action
	run(ctx context.Context, b *Board, t *tools, who Who) (result string, err error)
}

// Cancel ends the waiting checks of an entity as cancelled; of one job, and item, where the key has them.
type Cancel struct {
	JobExec    string `json:"job_exec"`
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"`
	ItemKey    string `json:"item_key"`
}

// CancelMany ends the waiting checks that all fields select as cancelled. Empty fields do not narrow, and one must be given. It
// goes on when Do has returned.
type CancelMany struct {
	JobExec    string          `json:"job_exec"`
	EntityName string          `json:"entity_name"`
	EntityKey  string          `json:"entity_key"` // * stands for any text
	GroupKey   string          `json:"group_key"`
	Payload    json.RawMessage `json:"payload,omitempty"` // a JSON object: the checks whose payload has each of its fields, with the same value
	Limit      int64           `json:"limit"`             // of the first slots; 0: all
}

// Reschedule moves a waiting check to the first slot at or after At.
type Reschedule struct {
	JobExec    string    `json:"job_exec"`
	EntityName string    `json:"entity_name"`
	EntityKey  string    `json:"entity_key"`
	ItemKey    string    `json:"item_key"`
	At         time.Time `json:"at"`
}

// Retry puts failed checks back. Empty fields do not narrow.
type Retry struct {
	JobExec    string    `json:"job_exec"`
	EntityName string    `json:"entity_name"`
	EntityKey  string    `json:"entity_key"`
	Since      time.Time `json:"since,omitzero"` // failed at or after
	Limit      int       `json:"limit"`          // default 1000, at most 100,000; the oldest first
	At         time.Time `json:"at,omitzero"`    // zero: the next slot
}

// PauseJob lets the rows of a job wait.
type PauseJob struct {
	JobExec string `json:"job_exec"`
}

// ResumeJob ends that.
type ResumeJob struct {
	JobExec string `json:"job_exec"`
}

// CatchUp repairs missed slots, as the command does, for the jobs that are registered with the binary that serves. It goes on
// when Do has returned, one at a time.
type CatchUp struct {
	Mode   slots.Mode `json:"mode"` // run, defer or expire
	Since  time.Time  `json:"since,omitzero"`
	Until  time.Time  `json:"until,omitzero"`
	Job    string     `json:"job"`    // only its rows
	Limit  int64      `json:"limit"`  // rows at the most; 0: all
	Spread int        `json:"spread"` // slots over which defer spreads the rows; 0: one
}

// TriggerSchedule publishes an event of a schedule now.
type TriggerSchedule struct {
	ID string `json:"id"`
}

// BackfillSchedule publishes the instants of a schedule from From up to but not including To. It goes on when Do has
// returned.
type BackfillSchedule struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// PauseSchedule lets a schedule publish nothing.
type PauseSchedule struct {
	ID string `json:"id"`
}

// ResumeSchedule ends that, from now on.
type ResumeSchedule struct {
	ID string `json:"id"`
}

// Plan is what an action will do.
type Plan struct {
	What   string `json:"what"`   // such as cancel
	Target string `json:"target"` // such as order 42
	Text   string `json:"text"`   // what it will do, in a sentence with its numbers
	Counts
	// Warnings are what else to know before.
	Warnings []string `json:"warnings"`
	// Nothing tells that there is nothing to do.
	Nothing bool `json:"nothing"`
	// Confirm is given to Do, which then does what the plan says, or nothing.
	Confirm string `json:"confirm"`

	bound any // what must be the same when it is done, besides the numbers
}

// Counts is how much an action changes.
type Counts struct {
	Rows      int64 `json:"rows"`
	Slots     int64 `json:"slots"`
	Schedules int64 `json:"schedules"`
	Events    int64 `json:"events"`
}

// The outcomes of an action.
const (
	Running   = "running" // it goes on, or its server died
	Succeeded = "done"
	Failed    = "failed"
	Stopped   = "stopped" // by the end of its server
)

// Done is an action that was confirmed, as it is recorded. By is the database role.
type Done struct {
	ID      int64      `json:"id"`
	At      time.Time  `json:"at"`
	EndedAt *time.Time `json:"ended_at"` // null: it goes on
	By      string     `json:"by"`
	Actor   string     `json:"actor"`
	What    string     `json:"what"`
	Target  string     `json:"target"`
	Text    string     `json:"text"` // of its plan
	Counts
	Outcome string `json:"outcome"` // running, done, failed or stopped
	Result  string `json:"result"`  // in a sentence; of one that failed, its error
	// Acted is given to the reads that follow, which then show what was done.
	Acted int64 `json:"acted,omitempty"`
}

// ChangedError is returned by Do where it would do something else by now than what was confirmed. Nothing was done.
type ChangedError struct {
	Plan Plan // as it is now
}

func (e *ChangedError) Error() string {
	return "things have changed since the preview, and nothing was done; it would now do this: " + e.Plan.Text
}

// RefusedError is returned where an action makes no sense, such as one on a check that does not wait.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }
