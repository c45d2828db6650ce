package board

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/web"
)

// Action is an action of an operator: one of the types in the files action_*.go.
type Action interface {
	// name is the name of the action in the log and in the table action. target names what it changes.
	name() string
	target() string
	// plan returns what the action would do, without What, Target and Confirm. It returns a
	// RefusedError or a jobs.FieldError if the action makes no sense.
	plan(ctx context.Context, p *planner) (plan Plan, err error)
}

// txAction is an action that is done in one transaction together with its record.
type txAction interface {
	Action
	do(ctx context.Context, tx *sqlx.Tx, t *tools) (result string, err error)
}

// asyncAction is an action with transactions of its own. It goes on when Do has returned.
type asyncAction interface {
	Action
	run(ctx context.Context, s *source, t *tools, who web.Who) (result string, err error)
}

// Plan says what an action will do.
type Plan struct {
	What   string `json:"what"`   // such as cancel
	Target string `json:"target"` // such as orders 42
	Text   string `json:"text"`   // a sentence with the numbers
	Counts
	// Warnings are what the operator should know before.
	Warnings []string `json:"warnings"`
	// Nothing is true if there is nothing to do.
	Nothing bool `json:"nothing"`
	// Confirm is the token that makes Do do exactly what the plan says, or nothing.
	Confirm string `json:"confirm"`

	fingerprint any // what must stay the same until Do, besides the numbers
	// bounded is the action that leaves out what comes after the plan. Nil: the action itself.
	bounded asyncAction
}

// Counts counts what an action changes.
type Counts struct {
	Rows      int64 `json:"rows"`
	Slots     int64 `json:"slots"`
	Schedules int64 `json:"schedules"`
	Events    int64 `json:"events"`
}

// The outcomes of an action.
const (
	Running   = "running" // it goes on, or its server was killed
	Succeeded = "done"
	Failed    = "failed"
	Stopped   = "stopped" // by the end of its server
)

// Done is the record of a confirmed action. By is the database role.
type Done struct {
	ID      int64      `json:"id"`
	At      time.Time  `json:"at"`
	EndedAt *time.Time `json:"ended_at"` // null: the action goes on
	By      string     `json:"by"`
	Actor   string     `json:"actor"`
	What    string     `json:"what"`
	Target  string     `json:"target"`
	Text    string     `json:"text"` // of the plan
	Counts
	Outcome string `json:"outcome"` // running, done, failed or stopped
	Result  string `json:"result"`  // a sentence; the error if it failed
	// Acted is the number of the action. Reads that pass it show what was done.
	Acted int64 `json:"acted,omitempty"`
}

// ChangedError is returned by Do if the action would now do something else than what was confirmed.
// Nothing was done.
type ChangedError struct {
	Plan Plan // the current plan
}

func (e *ChangedError) Error() string {
	return "things have changed since the preview, and nothing was done; it would now do this: " + e.Plan.Text
}

// RefusedError is returned if an action makes no sense, such as one on a check that does not wait.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }
