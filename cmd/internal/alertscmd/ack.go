package alertscmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

func newCmdAck(f *factory.Factory) *cobra.Command {
	var a action.Ack
	var item string
	var since, until cli.Instant
	var all bool
	var flags perform.Flags
	c := f.WithOutput(&cobra.Command{
		Use:   "ack",
		Short: "Acknowledge rows that gave up and that no operator will retry",
		Long: `Acknowledge rows that gave up and that no operator will retry, with who and why. The finding gave-up of their
job counts them no more. A row that gives up later makes the finding again. The rows stay in history, and "why" and
"jobs history" show the acknowledgement. "jobs retry" takes an acknowledged row only by its --key.

Without --yes the command only prints their number, and the --until that leaves out rows that give up later.`,
		Example: `  prescient alerts ack --job order.late --because "the shop has closed"
  prescient alerts ack --entity orders --key 42 --because "sent by hand" --yes
  prescient alerts ack --all --since 24h --because "an outage of the bank" --yes`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("item") {
				a.ItemKey = &item
			}
			if err := checkBecause(a.Because); err != nil {
				return err
			}
			return perform.Action(c.Context(), f, flags, func(s *action.Store) (action.Action, error) {
				a.Since, a.Until = since.From(s.Ledger.Now()), until.From(s.Ledger.Now())
				return a, nil
			})
		},
	})
	fs := c.Flags()
	cli.WordVar(fs, &a.JobExec, "job", "only this `JOB`")
	cli.WordVar(fs, &a.EntityName, "entity", "only entities of this `NAME`")
	cli.WordVar(fs, &a.EntityKey, "key", "only entities of this `KEY`")
	fs.StringVar(&item, "item", "", "only this item `KEY`; empty: only checks without an item")
	cli.SinceVar(fs, &since, "since", "only what gave up since")
	cli.SinceVar(fs, &until, "until", "only what gave up before")
	fs.BoolVar(&all, "all", false, "all rows that gave up")
	fs.StringVar(&a.Because, "because", "", "why: `TEXT` for colleagues")
	flags.Add(c, "acknowledge them")
	c.MarkFlagsOneRequired("job", "entity", "key", "since", "all")
	return c
}

// checkBecause returns an error of usage for a reason that is empty or too long.
func checkBecause(because string) error {
	err := admin.ValidateBecause(because)
	if field, bad := errors.AsType[*jobs.FieldError](err); bad {
		return exit.Usagef("--because %s, such as --because \"the warehouse moves\"", field.Message)
	}
	return err
}
