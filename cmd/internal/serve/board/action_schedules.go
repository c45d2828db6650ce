package board

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// TriggerSchedule publishes an event of a schedule now.
type TriggerSchedule struct {
	ID string `json:"id"`
}

// triggerScheduleForm is the form of TriggerSchedule.
var triggerScheduleForm = form(Form{
	Path: "trigger-schedule", Summary: "Publish an event of a schedule now",
	Title: "Publish now", Verb: "Publish",
	Lead:   "One event of the schedule is published at once. Its instants stay as they are.",
	Fields: []Field{idField},
}, func(in *Input) TriggerSchedule { return TriggerSchedule{ID: in.Text("id")} })

func (a TriggerSchedule) name() string   { return "trigger schedule" }
func (a TriggerSchedule) target() string { return a.ID }

func (a TriggerSchedule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	s, err := p.store.Get(ctx, p, a.ID)
	plan.Schedules, plan.Events = 1, 1
	does := "publishes an event of schedule " + a.ID
	switch act := s.Act; {
	case act.SQL != "":
		does = "runs the statement of schedule " + a.ID
	case act.Notify != "":
		does = fmt.Sprintf("sends the message of schedule %s to %s", a.ID, act.Notify)
	case act.Job != "":
		does = fmt.Sprintf("enqueues a check of job %s, as schedule %s does,", act.Job, a.ID)
	}
	if s.Act.SQL != "" || s.Act.Job != "" {
		plan.Events = 0
	}
	plan.Text = "It " + does + " now; its next instant is unchanged"
	plan.fingerprint = s.Version
	return plan, err
}

func (a TriggerSchedule) run(ctx context.Context, s *source, t *tools, _ web.Who) (string, error) {
	done, err := t.store.Trigger(ctx, s.cfg.DB, s.cfg.Publishing, a.ID)
	if err != nil {
		return "", err
	}
	return done.String(), nil
}

// BackfillSchedule publishes the instants of a schedule in [From, To). It goes on when Do has
// returned.
type BackfillSchedule struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// backfillScheduleForm is the form of BackfillSchedule.
var backfillScheduleForm = form(Form{
	Path: "backfill-schedule", Summary: "Publish the instants of a schedule that have passed",
	Title: "Backfill a schedule", Verb: "Backfill",
	Lead: "Instants that have passed are published. Each event has the id that a run would have given it.",
	Fields: []Field{
		idField,
		{Name: "from", Label: "From", Hint: pastHint, Required: true},
		{Name: "to", Label: "Up to, but not including", Hint: pastHint, Required: true},
	},
}, func(in *Input) BackfillSchedule {
	return BackfillSchedule{ID: in.Text("id"), From: in.past("from"), To: in.past("to")}
})

func (a BackfillSchedule) name() string   { return "backfill schedule" }
func (a BackfillSchedule) target() string { return a.ID }

// maxBackfill bounds the events of one backfill.
const maxBackfill = 100_000

func (a BackfillSchedule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	if a.From.IsZero() || !a.From.Before(a.To) {
		return plan, &jobs.FieldError{Field: "from", Message: "must be an instant before to"}
	}
	s, err := p.store.Get(ctx, p, a.ID)
	if err != nil {
		return plan, err
	}
	until := grid.Earlier(a.To, p.now())
	if s.State == schedule.Active {
		until = grid.Earlier(until, s.Next)
	}
	all, err := schedule.Preview(s.Spec, p.grid(), a.From, until)
	if err != nil {
		return plan, err
	}
	for range all {
		if plan.Events++; plan.Events > maxBackfill {
			return plan, &RefusedError{
				fmt.Sprintf("these are more than %d events: take a shorter time, or use the command: schedules backfill",
					maxBackfill),
			}
		}
	}
	plan.Schedules, plan.Nothing = 1, plan.Events == 0
	plan.Text = fmt.Sprintf("It publishes %s of schedule %s from %s until %s",
		spoken.Count(plan.Events, "event", "events"), a.ID, clock(a.From), clock(grid.Later(until, a.From)))
	plan.Warnings = []string{
		"Instants that the outbox has are left out. " +
			"Other destinations, and a pruned outbox, get events again, with the same ids.",
	}
	plan.fingerprint = s.Version
	return plan, nil
}

func (a BackfillSchedule) run(ctx context.Context, s *source, t *tools, _ web.Who) (string, error) {
	done, err := t.store.Backfill(ctx, s.cfg.DB, s.cfg.Publishing, a.ID, a.From, a.To)
	text := fmt.Sprintf("%s published until %s, and %d were in the outbox already",
		spoken.Count(done.Published, "event was", "events were"), clock(done.Until), done.Present)
	if err != nil {
		text += ": " + err.Error()
	}
	return text, err
}

// PauseSchedule stops the events of a schedule.
type PauseSchedule struct {
	ID string `json:"id"`
}

// pauseScheduleForm is the form of PauseSchedule.
var pauseScheduleForm = form(Form{
	Path: "pause-schedule", Summary: "Let a schedule publish nothing",
	Title: "Pause a schedule", Verb: "Pause",
	Lead:   "It publishes nothing until it is resumed.",
	Fields: []Field{idField},
}, func(in *Input) PauseSchedule { return PauseSchedule{ID: in.Text("id")} })

func (a PauseSchedule) name() string   { return "pause schedule" }
func (a PauseSchedule) target() string { return a.ID }

func (a PauseSchedule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	s, err := p.store.Get(ctx, p, a.ID)
	plan.Schedules, plan.Nothing = 1, s.Paused
	plan.Text = fmt.Sprintf("It pauses schedule %s, which publishes nothing until it is resumed", a.ID)
	switch {
	case s.Paused:
		plan.Text = "schedule " + a.ID + " is paused already"
	case s.State == schedule.Active:
		plan.Text += fmt.Sprintf("; its next instant would have been %s", clock(s.Next))
	}
	plan.fingerprint = s.Version
	return plan, err
}

func (a PauseSchedule) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	_, err := t.store.Pause(ctx, tx, a.ID, schedule.AnyVersion)
	return "schedule " + a.ID + " is paused", err
}

// ResumeSchedule ends the pause of a schedule. The next instant is the first one after now.
type ResumeSchedule struct {
	ID string `json:"id"`
}

// resumeScheduleForm is the form of ResumeSchedule.
var resumeScheduleForm = form(Form{
	Path: "resume-schedule", Summary: "End the pause of a schedule",
	Title: "Resume a schedule", Verb: "Resume",
	Lead:   "It goes on from now. Events that it would have published meanwhile are left out.",
	Fields: []Field{idField},
}, func(in *Input) ResumeSchedule { return ResumeSchedule{ID: in.Text("id")} })

func (a ResumeSchedule) name() string   { return "resume schedule" }
func (a ResumeSchedule) target() string { return a.ID }

func (a ResumeSchedule) plan(ctx context.Context, p *planner) (plan Plan, err error) {
	s, err := p.store.Get(ctx, p, a.ID)
	if err != nil {
		return plan, err
	}
	plan.Schedules, plan.Nothing = 1, !s.Paused
	if plan.Nothing {
		plan.Text = "schedule " + a.ID + " is not paused"
		plan.fingerprint = s.Version
		return plan, nil
	}
	plan.Text = fmt.Sprintf("It ends the pause of schedule %s", a.ID)
	all, err := schedule.Preview(s.Spec, p.grid(), p.now(), p.now().AddDate(100, 0, 0))
	if err != nil {
		return plan, err
	}
	for at := range all {
		plan.Text += "; its next instant is " + clock(at)
		break
	}
	plan.fingerprint = s.Version
	return plan, nil
}

func (a ResumeSchedule) do(ctx context.Context, tx *sqlx.Tx, t *tools) (string, error) {
	s, err := t.store.Resume(ctx, tx, a.ID, schedule.AnyVersion)
	text := "schedule " + a.ID + " is resumed"
	if s.State == schedule.Active {
		text += ", and waits for " + clock(s.Next)
	}
	return text, err
}
