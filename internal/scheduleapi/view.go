package scheduleapi

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// body is schedule.Spec as JSON.
type body struct {
	// Printable text of 1 to 200 bytes, but not . or .., because a path cannot contain them.
	ID string `json:"id"`
	// Five fields, @every 90m (or 1d12h, 2w), @daily and the like, or @at and a Unix time.
	Crontab string `json:"crontab"`
	// A name of the IANA database. Defaults to the zone that the crontab names, or UTC.
	Timezone string `json:"timezone"`
	// In the data of every event: any JSON value, or null for none.
	Payload json.RawMessage `json:"payload"`
	// Drops an event that would be published more than this after the moment that deadline_from selects. A
	// duration such as 90s, 2h or 7d, in whole seconds. 0s: never.
	Deadline duration.Text `json:"deadline"`
	// Delays all instants by a fixed part of it, which a hash of the id chooses. A duration of up to 24h.
	Spread duration.Text `json:"spread"`
	// Which instants of missed slots are published. Defaults to all.
	Misfire schedule.Misfire `json:"misfire"`
	// The first instant of @every, in whole seconds. Defaults to start or, without one, the moment of
	// creation; a change without it keeps the current one.
	Anchor time.Time `json:"anchor,omitzero"`
	// A paused schedule publishes nothing.
	Paused bool `json:"paused"`

	// What the deadline counts from. Defaults to the instant if slots are at most a minute wide, otherwise to
	// the slot.
	DeadlineFrom schedule.DeadlineFrom `json:"deadline_from,omitempty"`
	// The first possible instant, in whole seconds.
	Start time.Time `json:"start,omitzero"`
	// All instants are before it, in whole seconds.
	End time.Time `json:"end,omitzero"`
	// The schedule ends after this many events. Defaults to 0: no limit.
	MaxRuns int `json:"max_runs,omitempty"`
	// Excluded instants: days of the week (sat,sun), a day (2026-12-25), days (2026-12-24..2027-01-01) or the
	// minutes of five fields.
	Exclude []string `json:"exclude,omitempty"`
}

// newSchedule is a schedule to create.
type newSchedule struct {
	body `required:"id crontab"`
}

// scheduleReplacement has the new fields of a schedule.
type scheduleReplacement struct {
	body `required:"crontab"`
}

// schedulePatch has the fields to change. Null is the default of a field. An object is merged with the current
// payload, member by member. Any other value replaces it.
type schedulePatch struct {
	body `nullable:""`
}

func (b body) spec() schedule.Spec {
	return schedule.Spec{
		ID: b.ID, Crontab: b.Crontab, Timezone: b.Timezone, Payload: b.Payload, Deadline: time.Duration(b.Deadline),
		Spread: time.Duration(b.Spread), Misfire: b.Misfire, Anchor: b.Anchor, Paused: b.Paused,
		DeadlineFrom: b.DeadlineFrom, Start: b.Start, End: b.End, MaxRuns: b.MaxRuns, Exclude: b.Exclude,
		KeepAct: true, // only a login of the database may choose a statement
	}
}

func newBody(s schedule.Spec) body {
	return body{
		ID: s.ID, Crontab: s.Crontab, Timezone: s.Timezone, Payload: s.Payload, Deadline: duration.Text(s.Deadline),
		Spread: duration.Text(s.Spread), Misfire: s.Misfire, Anchor: s.Anchor, Paused: s.Paused,
		DeadlineFrom: s.DeadlineFrom, Start: s.Start, End: s.End, MaxRuns: s.MaxRuns, Exclude: s.Exclude,
	}
}

// View is a schedule as JSON, in the answers of the API and of the command line.
type View struct {
	body
	// The statement that runs at each instant instead of an event. Missing: none. Files, commands, Go and SQL set it.
	SQL string `json:"sql,omitempty"`
	// The role that runs the statement. Missing: the login of the run.
	Role string `json:"role,omitempty"`
	// How long the statement may run. Missing: 5 minutes.
	Timeout duration.Text `json:"timeout,omitempty"`
	// The job of which a check is enqueued at each instant instead of an event. Missing: none. Files, commands, Go and
	// SQL set it.
	Job string `json:"job,omitempty"`
	// The receiver that gets a message at each instant instead of an event. Missing: none. Files, commands, Go and SQL
	// set it.
	Notify string `json:"notify,omitempty"`
	// The template of the message. Missing: a default text.
	Text string `json:"text,omitempty"`
	// How many rows the statement changed or returned at the last instant. Missing: none.
	Rows  int64          `json:"rows,omitempty"`
	State schedule.State `json:"state"` // active, paused or ended
	// Starts at 1 and rises by one with each change.
	Version int `json:"version"`
	// The instant that is published next; null unless active, or if SQL wrote a crontab that cannot be read or has no
	// instant left.
	Next *time.Time `json:"next"`
	// The slot that publishes it.
	Slot *time.Time `json:"slot"`
	// The instant that was published last. Missing: none.
	Last time.Time `json:"last,omitzero"`
	// The published events that count for max_runs. Missing: none.
	Runs int64 `json:"runs,omitempty"`
	// The events that were not published.
	Dropped int64 `json:"dropped"`
	// The consecutive slots in which publishing failed.
	ErrorCount int    `json:"error_count"`
	LastError  string `json:"last_error"` // The last error of publishing. Empty: none.
	// When job schedule was paused, and with it the publishing of all schedules; null: it is not paused.
	PublishingPausedAt *time.Time `json:"publishing_paused_at"`
	// When the schedule was paused; UTC. Missing: it is not paused.
	PausedAt time.Time `json:"paused_at,omitzero"`
	// Who paused it: a user of an application, or the role of the database. Missing: it is not paused.
	PausedBy  string    `json:"paused_by,omitempty"`
	CreatedAt time.Time `json:"created_at"` // UTC
	UpdatedAt time.Time `json:"updated_at"` // When the schedule was last changed; UTC.
}

// NewView returns the View of a schedule.
func NewView(s schedule.Schedule) View {
	v := View{
		body: newBody(s.Spec), SQL: s.Act.SQL, Role: s.Act.Role, Timeout: duration.Text(s.Act.Timeout), Job: s.Act.Job,
		Notify: s.Act.Notify, Text: s.Act.Text, Rows: s.Rows,
		State: s.State, Version: s.Version, Last: s.Last, Runs: s.Runs, Dropped: s.Dropped,
		ErrorCount: s.ErrorCount, LastError: s.LastError, PausedAt: s.PausedAt, PausedBy: s.PausedBy,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if !s.PublishingPausedAt.IsZero() {
		v.PublishingPausedAt = &s.PublishingPausedAt
	}
	if s.State == schedule.Active {
		v.Slot = &s.Slot
	}
	if !s.Next.IsZero() {
		v.Next = &s.Next
	}
	return v
}

// PresentError returns the error of the last try. It is empty if that succeeded: LastError is then of an earlier one.
func (v View) PresentError() string {
	if v.ErrorCount == 0 {
		return ""
	}
	return v.LastError
}

// mergePatch is the media type of RFC 7396.
const mergePatch = "application/merge-patch+json"
