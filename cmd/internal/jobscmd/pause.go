package jobscmd

import (
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
)

func newCmdPause(f *factory.Factory) *cobra.Command {
	return perform.OnNamed(f, &cobra.Command{
		Use:   "pause JOB",
		Short: "Hold back the checks of a job until it is resumed",
		Long: `Hold back the checks of a job until "jobs resume". Runs and catch-up skip them, and close slots without them. A
run that is under way finishes the checks that it has claimed, and claims no more. Checks can still be added, moved and
cancelled. "status" shows paused jobs, and does not count them as trouble.`,
		Example: `  prescient jobs pause order.unshipped`,
	}, "JOB", "", func(job string) action.Action { return action.PauseJob{JobExec: job} })
}

func newCmdResume(f *factory.Factory) *cobra.Command {
	return perform.OnNamed(f, &cobra.Command{
		Use:   "resume JOB",
		Short: "End the pause of a job",
		Long: `End the pause of a job. Checks whose slots have passed meanwhile are overdue from now on.
Catch-up takes them, by the misfire policy of the job.`,
		Example: `  prescient jobs resume order.unshipped && prescient catch-up`,
	}, "JOB", "", func(job string) action.Action { return action.ResumeJob{JobExec: job} })
}
