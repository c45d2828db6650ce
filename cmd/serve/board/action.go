package board

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
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

// Action is something that an operator may ask for: one of the types in the files act_*.go.
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
