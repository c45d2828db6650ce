package jobscmd

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

func newCmdPause(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "pause JOB",
		Short: "Hold back the checks of a job until it is resumed",
		Long: `Hold back the checks of a job until "jobs resume". Runs and catch-up skip them, and close slots without them. A
run that is under way finishes the checks that it has claimed, and claims no more. Checks can still be added, moved and
cancelled. "status" shows paused jobs, and does not count them as trouble.`,
		Example: `  prescient jobs pause order.unshipped`,
		Args:    cli.Exactly("JOB"),
		RunE:    func(c *cobra.Command, args []string) error { return pauseJob(c.Context(), f, args[0]) },
	})
}

func pauseJob(ctx context.Context, f *factory.Factory, job string) error {
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
		if err := checks.Require(ctx, f, db, c, job); err != nil {
			return err
		}
		var changed bool
		err := database.Change(ctx, db, func(tx *sqlx.Tx) (err error) {
			changed, err = admin.New(c).Pause(ctx, tx, job)
			return err
		})
		if err != nil {
			return err
		}
		view := struct {
			JobExec string `json:"job_exec"`
			Changed bool   `json:"changed"`
		}{job, changed}
		text := fmt.Sprintf("%s is paused; its checks wait until: %s jobs resume %s", job, f.Self(), spoken.Word(job))
		switch {
		case !changed:
			text = job + " is paused already"
		case job == schedule.JobExec:
			text = fmt.Sprintf("job %s is paused: no schedule publishes until: %s jobs resume %[1]s", job, f.Self())
		}
		return f.Say(view, text)
	})
}

func newCmdResume(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "resume JOB",
		Short: "End the pause of a job",
		Long: `End the pause of a job. Checks whose slots have passed meanwhile are overdue from now on.
Catch-up takes them, by the misfire policy of the job.`,
		Example: `  prescient jobs resume order.unshipped && prescient catch-up`,
		Args:    cli.Exactly("JOB"),
		RunE:    func(c *cobra.Command, args []string) error { return resumeJob(c.Context(), f, args[0]) },
	})
}

func resumeJob(ctx context.Context, f *factory.Factory, job string) error {
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
		var changed bool
		err := database.Change(ctx, db, func(tx *sqlx.Tx) (err error) {
			changed, err = admin.New(c).Resume(ctx, tx, job)
			return err
		})
		if err != nil {
			return err
		}
		v := struct {
			JobExec      string     `json:"job_exec"`
			Changed      bool       `json:"changed"`
			OverdueSince *time.Time `json:"overdue_since"` // null: catch-up has nothing to do for the job
		}{JobExec: job, Changed: changed}
		if changed {
			l, failed := database.Ledger(ctx, f, db)
			if failed != nil {
				return failed
			}
			v.OverdueSince, err = l.OverdueSince(ctx, admin.New(c), db, job)
		} else {
			err = checks.Require(ctx, f, db, c, job)
		}
		if err != nil {
			return err
		}
		text := job + " is resumed"
		switch {
		case !changed:
			text = job + " was not paused: nothing is changed"
		case v.OverdueSince != nil:
			text += fmt.Sprintf("; to run what has waited since %s: %s catch-up",
				spoken.Instant(*v.OverdueSince), f.Self())
		}
		return f.Say(v, text)
	})
}
