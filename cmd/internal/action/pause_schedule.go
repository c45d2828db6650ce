package action

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// PauseSchedule stops the events of a schedule.
type PauseSchedule struct {
	ID string `json:"id"`
	// of the schedule, or else nothing is done; 0: any version
	Version int `json:"version,omitempty"`
}

var pauseScheduleForm = form(Form{
	Name: "pause schedule", Summary: "Let a schedule publish nothing",
	Title: "Pause a schedule", Verb: "Pause",
	Lead:   "publishes nothing until it is resumed.",
	Fields: []Field{idField},
}, func(in *Input) PauseSchedule { return PauseSchedule{ID: in.Text("id")} })

// Target is the schedule.
func (a PauseSchedule) Target() string { return a.ID }

func (a PauseSchedule) check(*Store) error { return CheckText("id", a.ID) }

func (a PauseSchedule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	s, err := tx.Schedules.Get(ctx, tx.Tx, a.ID)
	if err == nil {
		err = checkVersion(s, a.Version)
	}
	plan.Schedules, plan.Nothing = 1, s.Paused
	plan.Text = fmt.Sprintf("Pauses schedule %s, which publishes nothing until it is resumed", a.ID)
	switch {
	case s.Paused:
		plan.Text = "schedule " + a.ID + " is paused already"
	case s.State == schedule.Active:
		plan.Text += fmt.Sprintf("; its next instant would have been %s", clock(s.Next))
	}
	plan.Fingerprint = s.Version
	return plan, err
}

// checkVersion refuses an action on another version of a schedule; 0: on any.
func checkVersion(s schedule.Schedule, wanted int) error {
	if wanted == 0 || wanted == s.Version {
		return nil
	}
	return refusef("schedule %s was changed, and has version %d now: look at it, and try again", s.ID, s.Version)
}

func (a PauseSchedule) do(ctx context.Context, tx Tx) (Report, error) {
	before, err := tx.Schedules.Get(ctx, tx.Tx, a.ID)
	if err != nil {
		return nil, err
	}
	s, err := tx.Schedules.Pause(ctx, tx.Tx, a.ID, a.Version)
	text := "schedule " + a.ID + " is paused"
	if before.Paused {
		text += " already"
	}
	return ChangedSchedule{scheduleapi.NewView(s), text}, err
}

// ChangedSchedule reports on PauseSchedule and ResumeSchedule.
type ChangedSchedule struct {
	scheduleapi.View
	says string
}

// String says what the schedule does now.
func (c ChangedSchedule) String() string { return c.says }
