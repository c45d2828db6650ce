package action

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
)

// ResumeJob ends the pause of a job.
type ResumeJob struct {
	JobExec string `json:"job_exec"`
}

var resumeJobForm = form(Form{
	Name: "resume job", Summary: "End the pause of a job",
	Title: "Resume a job", Verb: "Resume",
	Lead:   "Its rows run in their slots again. Catch-up takes the rows whose slots have passed.",
	Fields: []Field{jobField},
}, func(in *Input) ResumeJob { return ResumeJob{JobExec: in.Text("job")} })

// Target is the job.
func (a ResumeJob) Target() string { return a.JobExec }

func (a ResumeJob) check(*Store) error { return CheckText("job_exec", a.JobExec) }

func (a ResumeJob) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	paused, err := tx.paused(ctx, a.JobExec)
	if err != nil {
		return plan, err
	}
	if plan.Nothing = paused == nil; plan.Nothing {
		plan.Text = a.JobExec + " is not paused"
		return plan, nil
	}
	plan.Fingerprint = paused.PausedAt
	plan.Text = "Ends the pause of " + a.JobExec
	plan.Warnings = []string{fmt.Sprintf("%s has paused it at %s.", paused.PausedBy, spoken.Instant(paused.PausedAt))}
	since, err := tx.overdueSince(ctx, a.JobExec)
	if since != nil {
		plan.Warnings = append(plan.Warnings, "Then: "+toCatchUp(*since, tx.Self))
	}
	return plan, err
}

// overdueSince returns the slot from which on checks of a job are overdue once it is not paused, or nil.
func (tx Tx) overdueSince(ctx context.Context, job string) (*time.Time, error) {
	return tx.Ledger.In(reserved.Caller{}, tx.Tx).OverdueSince(ctx, admin.New(tx.Client), tx.Tx, job)
}

func toCatchUp(since time.Time, self string) string {
	return fmt.Sprintf("to run what has waited since %s: %s catch-up", spoken.Instant(since), self)
}

func (a ResumeJob) do(ctx context.Context, tx Tx) (Report, error) {
	done := Resumed{JobExec: a.JobExec, self: tx.Self}
	var err error
	if done.Changed, err = admin.New(tx.Client).Resume(ctx, tx.Tx, a.JobExec); err != nil {
		return nil, err
	}
	if !done.Changed {
		return done, tx.requireJob(ctx, a.JobExec)
	}
	done.OverdueSince, err = tx.overdueSince(ctx, a.JobExec)
	return done, err
}

// Resumed reports on ResumeJob.
type Resumed struct {
	JobExec      string     `json:"job_exec"`
	Changed      bool       `json:"changed"`
	OverdueSince *time.Time `json:"overdue_since"` // the first past slot with rows for catch-up; null: there are none
	self         string
}

// String says what is left for catch-up.
func (r Resumed) String() string {
	switch {
	case !r.Changed:
		return r.JobExec + " is not paused: nothing was changed"
	case r.OverdueSince != nil:
		return r.JobExec + " is resumed; " + toCatchUp(*r.OverdueSince, r.self)
	}
	return r.JobExec + " is resumed"
}
