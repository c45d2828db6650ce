package action

import (
	"context"
	"fmt"
	"time"
)

// TriggerSchedule does now what a schedule does at each instant. It goes on when Do has returned.
type TriggerSchedule struct {
	ID string `json:"id"`
}

var triggerScheduleForm = form(Form{
	Name: "trigger schedule", Summary: "Do now what a schedule does at each instant",
	Title: "Trigger a schedule", Verb: "Trigger",
	Lead:   "The schedule does now what it does at each instant. Its instants stay as they are.",
	Fields: []Field{idField},
}, func(in *Input) TriggerSchedule { return TriggerSchedule{ID: in.Text("id")} })

// Target is the schedule.
func (a TriggerSchedule) Target() string { return a.ID }

func (a TriggerSchedule) check(*Store) error { return CheckText("id", a.ID) }

func (a TriggerSchedule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	s, err := tx.Schedules.Get(ctx, tx.Tx, a.ID)
	plan.Schedules, plan.Events = 1, 1
	does := "Publishes an event of schedule " + a.ID
	switch act := s.Act; {
	case act.SQL != "":
		does = "Runs the statement of schedule " + a.ID
	case act.Notify != "":
		does = fmt.Sprintf("Sends the message of schedule %s to %s", a.ID, act.Notify)
	case act.Job != "":
		does = fmt.Sprintf("Enqueues a check of job %s, as schedule %s does,", act.Job, a.ID)
	}
	if s.Act.SQL != "" || s.Act.Job != "" {
		plan.Events = 0
	}
	plan.Text = does + " now; its next instant is unchanged"
	plan.Fingerprint = s.Version
	return plan, err
}

func (a TriggerSchedule) run(ctx context.Context, s *Store, _ string) (Report, error) {
	done, err := s.Schedules.Trigger(ctx, s.DB, s.Publishing, a.ID)
	if err != nil {
		return nil, err
	}
	report := Triggered{ID: a.ID, says: done.String()}
	switch {
	case done.Event != nil:
		report.Event, report.Time = done.Event.ID, done.Event.Time
	case done.Act.Job != "":
		report.Check = done.ID
	default:
		report.Rows = &done.Rows
	}
	return report, nil
}

// Triggered reports on TriggerSchedule.
type Triggered struct {
	ID    string    `json:"id"`              // of the schedule
	Event string    `json:"event,omitempty"` // the id of the event
	Time  time.Time `json:"time,omitzero"`   // of the event
	Check string    `json:"check,omitempty"` // the item key of the enqueued check
	Rows  *int64    `json:"rows"`            // that the statement changed or returned; null: the schedule has no statement
	says  string
}

// String says what was done, such as "published report-42-trigger-1772438400000000".
func (t Triggered) String() string { return t.says }
