package action

import (
	"context"
	"fmt"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// ResumeSchedule ends the pause of a schedule, and lets one go on whose check was cancelled. The next instant is the
// first one after now.
type ResumeSchedule struct {
	ID string `json:"id"`
	// of the schedule, or else nothing is done; 0: any version
	Version int `json:"version,omitempty"`
}

var resumeScheduleForm = form(Form{
	Name: "resume schedule", Summary: "End the pause of a schedule",
	Title: "Resume a schedule", Verb: "Resume",
	Lead:   "goes on from now. Events that it would have published meanwhile are left out.",
	Fields: []Field{idField},
}, func(in *Input) ResumeSchedule { return ResumeSchedule{ID: in.Text("id")} })

// Target is the schedule.
func (a ResumeSchedule) Target() string { return a.ID }

func (a ResumeSchedule) check(*Store) error { return CheckText("id", a.ID) }

func (a ResumeSchedule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	s, err := tx.Schedules.Get(ctx, tx.Tx, a.ID)
	if err == nil {
		err = checkVersion(s, a.Version)
	}
	if err != nil {
		return plan, err
	}
	plan.Schedules, plan.Fingerprint = 1, s.Version
	if plan.Nothing = s.State == schedule.Active; plan.Nothing {
		plan.Text = "schedule " + a.ID + " is not paused"
		return plan, nil
	}
	plan.Text = "Ends the pause of schedule " + a.ID
	if !s.Paused {
		plan.Text = fmt.Sprintf("Resumes schedule %s, which has ended", a.ID)
	}
	all, err := schedule.Preview(s.Spec, tx.grid(), tx.now(), tx.now().AddDate(100, 0, 0))
	if err != nil {
		return plan, err
	}
	for at := range all {
		plan.Text += "; its next instant is " + clock(at)
		break
	}
	return plan, nil
}

func (a ResumeSchedule) do(ctx context.Context, tx Tx) (Report, error) {
	before, err := tx.Schedules.Get(ctx, tx.Tx, a.ID)
	if err != nil {
		return nil, err
	}
	s, err := tx.Schedules.Resume(ctx, tx.Tx, a.ID, a.Version)
	text := "schedule " + a.ID + " is resumed"
	switch {
	case before.State == schedule.Active:
		text = "schedule " + a.ID + " is not paused: nothing was changed"
	case s.State == schedule.Active:
		text += ", and waits for " + clock(s.Next)
	case !before.Paused:
		text = "schedule " + a.ID + " has ended: it has no further instant"
	}
	return ChangedSchedule{scheduleapi.NewView(s), text}, err
}
