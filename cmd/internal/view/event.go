package view

import (
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/deadletter"
)

// Event is admin.TimelineEntry as JSON.
type Event struct {
	ID        int64          `json:"id"`
	JobExec   string         `json:"job_exec"`
	ItemKey   string         `json:"item_key"`
	Anonymous bool           `json:"anonymous"`
	What      string         `json:"what"`
	At        *time.Time     `json:"at"` // null: the row waits
	Slot      time.Time      `json:"slot"`
	For       *time.Time     `json:"requested_for"` // null: it is not an enqueue, or the instant was before the year 1
	Within    *duration.Text `json:"within"`        // null: the row had no window
	By        string         `json:"by"`
	App       string         `json:"application_name"`
	Actor     string         `json:"actor"`
	Runner    string         `json:"runner"`
	Lateness  *duration.Text `json:"lateness"` // null: no check
	Duration  *duration.Text `json:"duration"`
	Error     string         `json:"error"`
	Run       string         `json:"run"` // why the slot was opened; empty: unknown or not opened
	OpenedAt  *time.Time     `json:"opened_at"`
	ClosedAt  *time.Time     `json:"closed_at"`
	Hindrance string         `json:"hindrance"`
	MovedFrom string         `json:"moved_from"` // the store; empty: no move between stores
	MovedTo   string         `json:"moved_to"`
	KeyBefore string         `json:"key_before"` // of a row that was renamed; key_after of a check that ended by that
	KeyAfter  string         `json:"key_after"`
	Found     string         `json:"found"` // by the last check of a rule; empty: the job is no rule
	Fired     []admin.Firing `json:"fired"` // steps of a rule, by this check
	// steps of a rule that had passed when the row came to it, and did not fire
	StepsLeftOut []string `json:"steps_left_out"`
	// of an end: the request that was recorded on the row, by its unless_ended_within
	LeftOut bool `json:"left_out"`
}

// NewEvent returns an event as JSON.
func NewEvent(e admin.TimelineEntry) Event {
	v := Event{
		ID: e.ID, JobExec: e.JobExec, ItemKey: e.ItemKey, Anonymous: e.Anonymous, What: e.What,
		At: TimeOrNil(e.At), Slot: e.Slot,
		For: TimeOrNil(e.RequestedAt), By: e.By, App: e.App, Actor: e.Actor, Runner: e.Runner, Error: e.Error,
		Run: e.Run, OpenedAt: TimeOrNil(e.OpenedAt), ClosedAt: TimeOrNil(e.ClosedAt), Hindrance: e.Hindrance,
		MovedFrom: e.MovedFrom, MovedTo: e.MovedTo, KeyBefore: e.KeyBefore, KeyAfter: e.KeyAfter,
		Found: e.Found, LeftOut: e.LeftOut,
		Fired: append([]admin.Firing{}, e.Fired...), StepsLeftOut: append([]string{}, e.StepsLeftOut...),
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
	Number    int64           `json:"number"` // the order in which they are sent again
	ID        string          `json:"id"`
	Source    string          `json:"source"`
	Type      string          `json:"type"`
	Subject   string          `json:"subject"`
	Time      *time.Time      `json:"time"`
	Data      json.RawMessage `json:"data"`
	Refusals  int             `json:"refusals"` // 0: it is held back
	Error     string          `json:"error"`
	RefusedAt time.Time       `json:"refused_at"`
	DeadAt    time.Time       `json:"dead_at"`
}

// NewDeadLetter returns a dead letter as JSON.
func NewDeadLetter(d deadletter.Letter) DeadLetter {
	return DeadLetter{
		Number: d.Number, ID: d.ID, Source: d.Source, Type: d.Type, Subject: d.Subject,
		Time: TimeOrNil(d.Time), Data: d.Data,
		Refusals: d.Refusals, Error: d.Error, RefusedAt: d.RefusedAt, DeadAt: d.DeadAt,
	}
}
