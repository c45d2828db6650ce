package httpapi

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// body is schedule.Spec as JSON.
type body struct {
	ID       string           `json:"id"`
	Crontab  string           `json:"crontab"`
	Timezone string           `json:"timezone"`
	Payload  json.RawMessage  `json:"payload"`
	Deadline duration.Text    `json:"deadline"`
	Spread   duration.Text    `json:"spread"`
	Misfire  schedule.Misfire `json:"misfire"`
	Anchor   time.Time        `json:"anchor,omitzero"`
	Paused   bool             `json:"paused"`

	DeadlineFrom schedule.DeadlineFrom `json:"deadline_from,omitempty"`
	Start        time.Time             `json:"start,omitzero"`
	End          time.Time             `json:"end,omitzero"`
	MaxRuns      int                   `json:"max_runs,omitempty"`
	Exclude      []string              `json:"exclude,omitempty"`
}

func (b body) spec() schedule.Spec {
	return schedule.Spec{
		ID: b.ID, Crontab: b.Crontab, Timezone: b.Timezone, Payload: b.Payload, Deadline: time.Duration(b.Deadline),
		Spread: time.Duration(b.Spread), Misfire: b.Misfire, Anchor: b.Anchor, Paused: b.Paused,
		DeadlineFrom: b.DeadlineFrom, Start: b.Start, End: b.End, MaxRuns: b.MaxRuns, Exclude: b.Exclude,
	}
}

func newBody(s schedule.Spec) body {
	return body{
		ID: s.ID, Crontab: s.Crontab, Timezone: s.Timezone, Payload: s.Payload, Deadline: duration.Text(s.Deadline),
		Spread: duration.Text(s.Spread), Misfire: s.Misfire, Anchor: s.Anchor, Paused: s.Paused,
		DeadlineFrom: s.DeadlineFrom, Start: s.Start, End: s.End, MaxRuns: s.MaxRuns, Exclude: s.Exclude,
	}
}

// View is a schedule as JSON, in the answers of this API and of the command line.
type View struct {
	body
	State      schedule.State `json:"state"`
	Version    int            `json:"version"`
	Next       *time.Time     `json:"next"` // null unless active
	Slot       *time.Time     `json:"slot"`
	Last       time.Time      `json:"last,omitzero"`  // the last published instant
	Runs       int64          `json:"runs,omitempty"` // events that count for max_runs
	Dropped    int64          `json:"dropped"`
	ErrorCount int            `json:"error_count"`
	LastError  string         `json:"last_error"`
	// PublishingPausedAt is null unless job "schedule" is paused, and with it all publishing.
	PublishingPausedAt *time.Time `json:"publishing_paused_at"`
	CreatedAt          time.Time  `json:"created_at"`
	UpdatedAt          time.Time  `json:"updated_at"`
}

// NewView returns the View of a schedule.
func NewView(s schedule.Schedule) View {
	v := View{
		body: newBody(s.Spec), State: s.State, Version: s.Version, Last: s.Last, Runs: s.Runs, Dropped: s.Dropped,
		ErrorCount: s.ErrorCount, LastError: s.LastError,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if !s.PublishingPausedAt.IsZero() {
		v.PublishingPausedAt = &s.PublishingPausedAt
	}
	if s.State == schedule.Active {
		v.Next, v.Slot = &s.Next, &s.Slot
	}
	return v
}

// mergePatch is the media type of RFC 7396.
const mergePatch = "application/merge-patch+json"
