package view

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Event is admin.TimelineEntry as JSON. An entry is a line of why.
type Event struct {
	ID        int64  `json:"id"` // of the row: a key gets a new ID each time it is enqueued while it does not wait
	JobExec   string `json:"job_exec"`
	ItemKey   string `json:"item_key"` // usually empty
	Anonymous bool   `json:"anonymous"`

	// What is one of these, or an Outcome:
	//
	//   - "enqueued"; "waiting"; "moved" (from another store); "arriving" (on its way here from
	//     another store)
	//   - "next" (a check returned a next time), "retry" (a check failed), "deferred" (by catch-up,
	//     unchecked)
	//   - "rescheduled", "pushed_back", "width" (the grid was changed), "retried" (put back from
	//     history)
	//   - "renamed" (the row of a rule's table got another key), "acked" (an operator has acknowledged that it failed)
	//   - "recorded" (an enqueue came when its slot had begun; see OnConflict), "honoured" (such a
	//     request made this row)
	What string    `json:"what"`
	Slot time.Time `json:"slot"` // the slot of the row; for enqueued, the first

	ByRole string `json:"by_role"` // the database role; empty: a run
	App    string `json:"app"`     // application_name of the session; empty: none, or a run
	Actor  string `json:"actor"`   // the person or program that the session named; empty: none

	Runner string `json:"runner"`
	Error  string `json:"error"` // of the check; of acked: why it was acknowledged; empty: it did not fail

	// Found says what the last check of a rule found in its table: done at an instant, done, gone, outside
	// or open, or that the rule is removed. Empty for all other entries, and where there is no rule of that name now.
	Found string `json:"found"`
	// StepsLeftOut lists the steps of a rule that had passed when the row came to it, and did not fire. Only the last
	// entry of a row has them.
	StepsLeftOut []string `json:"steps_left_out"`
	// PausedSince is since when the clock of a waiting row of a rule stands still. Null: it does not.
	PausedSince *time.Time `json:"paused_since"`
	// Used says how much of the delay of each step had passed then.
	Used []string `json:"used"`
	// Fired lists the steps of a rule that this check has fired. A step whose check has left the timeline
	// is with the entry before it.
	Fired []admin.Firing `json:"fired"`

	// Instants lists the instants (UTC) that a periodic function was called for, if a check of its row has ended the row:
	// all those of the row, or the latest 1,000.
	Instants []time.Time `json:"instants"`

	// LeftOut tells that the row ended with a request, which was dropped for its Request.UnlessEndedWithin. The key has
	// ended as done in that time, perhaps with this end.
	LeftOut bool `json:"left_out"`

	// Of moved: the names of the stores, given by the operator who moved the row. Empty: the row was not moved.
	MovedFrom string `json:"moved_from"`
	MovedTo   string `json:"moved_to"` // of moved: the store that the row came to
	// KeyBefore is the key that a renamed row had before. KeyAfter is set for a row that ended as cancelled because its
	// row got another key: its timeline goes on there.
	KeyBefore string `json:"key_before"`
	KeyAfter  string `json:"key_after"` // of a row that ended because the row of its table got another key: that key

	// The ledger's record of the slot: why it was opened ("run", "catch_up"), when, and when it was done. "by_hand": an
	// operator had this check run. Empty: it was not opened, or this entry has no slot.
	Run string `json:"run"`

	// Hindrance says what blocks a waiting row. Empty: nothing.
	//
	//   - "paused"; "unserved": no run of the last 7 days had its job
	//   - "missed": no run has opened its slot; "open": its slot is being run, or was left open
	//   - "straggler": it was committed after its slot was closed
	Hindrance string `json:"hindrance"`

	At *time.Time `json:"at"` // null: the row waits
	// RequestedFor is of enqueued and recorded: the instant requested; At, if it was as soon as possible. Null: another
	// entry, or not known, because a rule may have written another instant since.
	RequestedFor *time.Time     `json:"requested_for"`
	Within       *duration.Text `json:"within"`      // null: the row had no window
	Lateness     *duration.Text `json:"lateness"`    // null: no check
	Duration     *duration.Text `json:"duration"`    // run time of the check; null: no check
	OpenedAt     *time.Time     `json:"opened_at"`   // when the slot was opened; UTC; null: it was not
	FinishedAt   *time.Time     `json:"finished_at"` // when the slot was done; UTC; null: it is not
}

// NewEvent returns an event as JSON.
func NewEvent(e admin.TimelineEntry) Event {
	v := Event{
		ID: e.ID, JobExec: e.JobExec, ItemKey: e.ItemKey, Anonymous: e.Anonymous, What: e.What, Slot: e.Slot,
		ByRole: e.ByRole, App: e.App, Actor: e.Actor, Runner: e.Runner, Error: e.Error, Run: e.Run, Hindrance: e.Hindrance,
		Found: e.Found, StepsLeftOut: append([]string{}, e.StepsLeftOut...),
		PausedSince: TimeOrNil(e.PausedSince), Used: append([]string{}, e.Used...),
		Fired:    append([]admin.Firing{}, e.Fired...),
		Instants: append([]time.Time{}, e.Instants...), LeftOut: e.LeftOut, MovedFrom: e.MovedFrom, MovedTo: e.MovedTo,
		KeyBefore: e.KeyBefore, KeyAfter: e.KeyAfter, At: TimeOrNil(e.At), RequestedFor: TimeOrNil(e.RequestedFor),
		OpenedAt: TimeOrNil(e.OpenedAt), FinishedAt: TimeOrNil(e.FinishedAt),
	}
	if e.Within > 0 {
		v.Within = new(duration.Text(e.Within))
	}
	if e.Ran {
		v.Lateness, v.Duration = new(duration.Text(e.Lateness)), new(duration.Text(e.Duration))
	}
	return v
}

// DeadLetter is deadletter.Letter as JSON.
type DeadLetter struct {
	Number      int64           `json:"number"`      // the order in which they are sent again
	Destination string          `json:"destination"` // that refused it
	ID          string          `json:"id"`          // of the event
	Source      string          `json:"source"`      // of the event
	Type        string          `json:"type"`        // of the event
	Subject     string          `json:"subject"`     // of the event
	Time        *time.Time      `json:"time"`        // of the event; UTC; null: none
	Data        json.RawMessage `json:"data"`        // of the event; null: none
	Refusals    int             `json:"refusals"`    // 0: it is held back behind another one
	Error       string          `json:"error"`       // of the last refusal
	RefusedAt   time.Time       `json:"refused_at"`  // when it was first refused, or held back; UTC
	DeadAt      time.Time       `json:"dead_at"`     // since when it is in the list; UTC
}

// NewDeadLetter returns a dead letter as JSON.
func NewDeadLetter(d deadletter.Letter) DeadLetter {
	return DeadLetter{
		Number: d.Number, Destination: d.Consumer, ID: d.ID, Source: d.Source, Type: d.Type, Subject: d.Subject,
		Time: TimeOrNil(d.Time), Data: writable(d.Data),
		Refusals: d.Refusals, Error: d.Error, RefusedAt: d.RefusedAt, DeadAt: d.DeadAt,
	}
}
