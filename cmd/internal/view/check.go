package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/payload"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Check is jobs.FutureJob as JSON. It waits for its slot.
type Check struct {
	NextCheckAt time.Time `json:"next_check_at"` // its slot; UTC
	State       State     `json:"state"`         // waiting or paused
	CheckData
}

// CheckData holds the fields that waiting and ended rows have in common.
type CheckData struct {
	ID int64 `json:"id"` // of the row: a key gets a new one each time it is enqueued while it does not wait
	jobs.Key
	Anonymous    bool            `json:"anonymous"`
	GroupKey     string          `json:"group_key"`      // checks of a group are run together; empty: none
	FirstCheckAt time.Time       `json:"first_check_at"` // the slot of its first check; UTC
	CheckCount   int             `json:"check_count"`    // checks that did not fail
	ErrorCount   int             `json:"error_count"`    // errors in a row
	LastError    string          `json:"last_error"`     // empty: none
	Spent        duration.Text   `json:"spent"`          // run time of all checks
	Payload      json.RawMessage `json:"payload"`        // any JSON value; null: none
	EnqueuedAt   time.Time       `json:"enqueued_at"`    // when it was requested; UTC
	EnqueuedBy   string          `json:"enqueued_by"`    // the database role
}

// NewCheckData returns the common fields of a check.
func NewCheckData(j jobs.FutureJob) CheckData {
	return CheckData{
		ID: j.ID, Key: j.Key(), Anonymous: j.Anonymous, GroupKey: j.GroupKey, FirstCheckAt: j.FirstCheckAt,
		CheckCount: j.CheckCount, ErrorCount: j.ErrorCount, LastError: j.LastError,
		Spent:   duration.Text(j.Spent),
		Payload: writable(j.Payload), EnqueuedAt: j.EnqueuedAt, EnqueuedBy: j.EnqueuedBy,
	}
}

// writable returns JSON that can be written within a list. Of a text that cannot, it says why, because
// one such text would be an error of the whole list.
func writable(text json.RawMessage) json.RawMessage {
	if strictjson.Deeper(text, payload.MaxNesting) {
		return json.RawMessage(fmt.Sprintf(`"not shown: it is nested more than %d levels deep"`, payload.MaxNesting))
	}
	return text
}

// Ended is admin.HistoryRow as JSON.
type Ended struct {
	FinishedAt time.Time `json:"finished_at"` // UTC
	// done, cancelled, replaced, failed, max_checks, horizon, past, deadline or skipped
	Outcome jobs.Outcome `json:"outcome"`
	Slot    time.Time    `json:"slot"` // that the row was in when it ended; UTC
	// of the check that ended the row, from its slot to its start; 0s: none did, such as for cancelled, replaced,
	// deadline and skipped
	Lateness duration.Text `json:"lateness"`
	Duration duration.Text `json:"duration"` // run time of the check that ended the row; 0s: none did
	Runner   string        `json:"runner"`   // that ended the row; empty: no runner did, such as for cancelled
	// checks that failed and were tried again, of the newest 20 entries of the timeline
	Attempts []admin.FailedAttempt `json:"attempts"`
	// Acked tells who has acknowledged that the check failed; null: no operator has.
	Acked *admin.Acked `json:"acked"`
	CheckData
}

// NewEnded returns ended rows as JSON.
func NewEnded(list []admin.HistoryRow) []Ended {
	views := []Ended{}
	for _, e := range list {
		views = append(views, NewEndedCheck(e))
	}
	return views
}

// NewEndedCheck returns an ended row as JSON.
func NewEndedCheck(e admin.HistoryRow) Ended {
	return Ended{
		e.FinishedAt, e.Outcome, e.Slot, duration.Text(e.Lateness), duration.Text(e.Duration), e.Runner, e.Attempts,
		e.Acked, NewCheckData(e.FutureJob),
	}
}

// Why returns the error that ended the check, or the error of an earlier attempt.
func (v Ended) Why() string {
	if v.Acked != nil {
		return fmt.Sprintf("%s (acknowledged by %s: %s)", spoken.Error(v.LastError), v.Acked.By, v.Acked.Because)
	}
	if v.Outcome == jobs.OutcomeFailed || v.LastError == "" {
		return spoken.Error(v.LastError)
	}
	return "earlier: " + spoken.Error(v.LastError)
}

// ByCheck reports whether a check has ended rows with an outcome. Otherwise a lateness or a run time of 0 says nothing.
func ByCheck(o jobs.Outcome) bool {
	switch o {
	case jobs.OutcomeCancelled, jobs.OutcomeReplaced, jobs.OutcomeDeadline, jobs.OutcomeSkipped:
		return false
	}
	return true
}

// ByCheck reports whether a check has ended the row.
func (v Ended) ByCheck() bool { return ByCheck(v.Outcome) }

// NewCheck returns a waiting check as JSON.
func NewCheck(j jobs.FutureJob, paused []admin.PausedJob) Check {
	held := slices.ContainsFunc(paused, func(p admin.PausedJob) bool { return p.JobExec == j.JobExec })
	return Check{j.NextCheckAt, stateOf(held), NewCheckData(j)}
}
