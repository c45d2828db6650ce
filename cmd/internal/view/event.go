package view

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Event is admin.TimelineEntry as JSON.
type Event struct {
	admin.TimelineEntry
	At       *time.Time     `json:"at"`            // null: the row waits
	For      *time.Time     `json:"requested_for"` // null: it is not an enqueue, or the instant was before the year 1
	Within   *duration.Text `json:"within"`        // null: the row had no window
	Lateness *duration.Text `json:"lateness"`      // null: no check
	Duration *duration.Text `json:"duration"`
	OpenedAt *time.Time     `json:"opened_at"`
	ClosedAt *time.Time     `json:"closed_at"`
}

// NewEvent returns an event as JSON.
func NewEvent(e admin.TimelineEntry) Event {
	e.Fired, e.StepsLeftOut = append([]admin.Firing{}, e.Fired...), append([]string{}, e.StepsLeftOut...)
	e.Instants = append([]time.Time{}, e.Instants...)
	v := Event{
		TimelineEntry: e, At: TimeOrNil(e.At), For: TimeOrNil(e.RequestedAt),
		OpenedAt: TimeOrNil(e.OpenedAt), ClosedAt: TimeOrNil(e.ClosedAt),
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
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        *time.Time      `json:"time"`
	Data        json.RawMessage `json:"data"`
	Refusals    int             `json:"refusals"` // 0: it is held back
	Error       string          `json:"error"`
	RefusedAt   time.Time       `json:"refused_at"`
	DeadAt      time.Time       `json:"dead_at"`
}

// NewDeadLetter returns a dead letter as JSON.
func NewDeadLetter(d deadletter.Letter) DeadLetter {
	return DeadLetter{
		Number: d.Number, Destination: d.Consumer, ID: d.ID, Source: d.Source, Type: d.Type, Subject: d.Subject,
		Time: TimeOrNil(d.Time), Data: writable(d.Data),
		Refusals: d.Refusals, Error: d.Error, RefusedAt: d.RefusedAt, DeadAt: d.DeadAt,
	}
}
