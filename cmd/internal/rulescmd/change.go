package rulescmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
)

// onRule completes the command of an action on a rule. yes is the usage of --yes, or empty.
func onRule(f *factory.Factory, c *cobra.Command, yes string, of func(name string) action.Action) *cobra.Command {
	var flags perform.Flags
	c.Args = cli.Exactly("NAME")
	c.RunE = func(c *cobra.Command, args []string) error { return onNamed(c.Context(), f, flags, args[0], of) }
	flags.Add(c, yes)
	return f.WithOutput(c)
}

func onNamed(
	ctx context.Context, f *factory.Factory, flags perform.Flags, name string, of func(name string) action.Action,
) error {
	show, end := progressOf(ctx, f)
	defer end()
	return perform.Action(ctx, f, flags, func(s *action.Store) (action.Action, error) {
		s.Progress = show
		_, err := s.Rules.Get(ctx, name)
		return of(name), missing(ctx, s.Rules, name, err)
	})
}

func newCmdPause(f *factory.Factory) *cobra.Command {
	return onRule(f, &cobra.Command{
		Use:   "pause NAME",
		Short: "Hold back the steps of a rule until it is resumed",
		Long: `Hold back the steps of a rule until "rules resume", as "jobs pause" does. New rows of the table still
begin to wait. A run that is under way finishes the rows that it has claimed.`,
		Example: `  prescient rules pause order.unshipped`,
	}, "", func(name string) action.Action { return action.PauseJob{JobExec: name} })
}

func newCmdResume(f *factory.Factory) *cobra.Command {
	return onRule(f, &cobra.Command{
		Use:   "resume NAME",
		Short: "End the pause of a rule",
		Long: `End the pause of a rule. Steps that were due meanwhile are overdue from now on. Catch-up fires them, unless the
expected thing has happened.`,
		Example: `  prescient rules resume order.unshipped && prescient catch-up`,
	}, "", func(name string) action.Action { return action.ResumeJob{JobExec: name} })
}

func newCmdRemove(f *factory.Factory) *cobra.Command {
	return onRule(f, &cobra.Command{
		Use:   "remove NAME",
		Short: "Drop the triggers of a rule, cancel its waiting rows, and forget it",
		Long: `Drop the triggers of a rule and their functions, cancel the rows that wait, in bounded
transactions, and forget what has fired. A pause of the rule ends. Rows that a run checks meanwhile
end without a step. The table stays as it is. If it is interrupted, or another session keeps a check locked, repeat the
command: it goes on where it was. Without --yes it only prints how many rows it would cancel.

If the rule is applied again, no step counts as fired: its "overdue" decides about steps that have passed. "rules pause"
holds a rule back.`,
		Example: `  prescient rules remove order.unshipped        # tells how many rows wait
  prescient rules remove order.unshipped --yes  # cancels them`,
	}, "remove the rule", func(name string) action.Action { return action.RemoveRule{Rule: name} })
}
