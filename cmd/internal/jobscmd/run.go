package jobscmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
)

func newCmdRun(f *factory.Factory) *cobra.Command {
	var key jobs.Key
	var flags perform.Flags
	c := factory.QuietInPipes(f.WithOutput(&cobra.Command{
		Use:   "run JOB ENTITY KEY",
		Short: "Do now what a waiting check does in its slot",
		Long: `Do now what a waiting check does in its slot. The check moves into the current slot, and runs there under a
lease like every other one. It is due earlier because you ask for it, and no other runner holds it. Other due checks of
the job in the current slot run, too. The command prints the answer of the check and its next slot. To publish an event
of a schedule now: schedules trigger.

A check that does not wait, a paused job, a job that is not registered here, and a due check that another runner may
hold are refused with exit code 2. If the check fails, or its outcome cannot be recorded, the exit code is 1. If
another session has locked the check, or other runners work on the current slot, it may not be checked: the exit code
is 6, and catch-up takes it. The exit code is also 6 if another session has locked other due checks of the job, and 4
if a signal stops the command.`,
		Example: `  prescient jobs run order.unshipped orders 42`,
		Args:    cli.Exactly("JOB", "ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			key.JobExec, key.EntityName, key.EntityKey = args[0], args[1], args[2]
			return runCheck(c.Context(), f, flags, action.RunCheck{Key: key})
		},
	}))
	c.Flags().StringVar(&key.ItemKey, "item", "", "`KEY` of its item")
	flags.Add(c, "")
	config.RunFlags(c.Flags())
	return c
}

func runCheck(ctx context.Context, f *factory.Factory, flags perform.Flags, a action.RunCheck) error {
	return checks.With(ctx, f, nil, func(b *checks.Bound) error {
		return perform.With(ctx, f, func(s *action.Store) error {
			s.Runner = b.Runner(f, nil)
			if flags.DryRun {
				plan, err := perform.Preview(ctx, s, a)
				if err != nil {
					return err
				}
				return perform.Print(f, plan)
			}
			report, err := perform.Do(ctx, s, a)
			ran, is := report.(action.Ran)
			if !is {
				return err
			}
			printed := f.Print(ran, func() error { return f.Sentence(ran.String()) })
			switch {
			case printed != nil:
				return errors.Join(printed, err)
			case err == nil && ran.Error != "":
				return &exit.Error{Code: exit.Failure}
			case ran.Left():
				return &exit.Error{Code: exit.Left, Err: err}
			}
			return err
		})
	})
}
