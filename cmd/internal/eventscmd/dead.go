package eventscmd

import (
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/seq"
	pgsql "github.com/prescient-go/prescient/sql"
)

func lettersFlags(c *cobra.Command, l *action.Letters) {
	cli.WordVar(c.Flags(), &l.Subject, "subject", "only events of this `SUBJECT`, such as the id of a schedule")
	cli.WordVar(c.Flags(), &l.Destination, "destination", "only events of this `DESTINATION`")
	cli.WordVar(c.Flags(), &l.ID, "id", "only the event with this `ID`")
}

func newCmdDead(f *factory.Factory) *cobra.Command {
	var l action.Letters
	var limit cli.Count
	var after int64
	c := f.WithOutput(&cobra.Command{
		Use:   "dead",
		Short: "List the dead letters: events that were given up because their destination refused them",
		Long: `List the dead letters, in the order in which they are sent again. An event becomes one
after events.max_refusals refusals, or if it is refused events.max_refused_for after its first
refusal. Without these settings no event is given up: it is tried again for ever. 0 refusals: the event is
held back behind an earlier dead letter of its subject, unless events.after_dead_letter is continue.`,
		Example: `  prescient events dead
  prescient events dead --subject report-42 --output json`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return database.With(c.Context(), f, func(db *sqlx.DB, _ pgsql.Setting) error {
				list := deadletter.NewList(db, f.Schema())
				page, err := seq.Collect(seq.Pages(after, output.OneMore(limit),
					func(after int64, limit int) ([]deadletter.Letter, int64, error) {
						return list.Page(c.Context(), l.Filter(), after, limit)
					}))
				if err != nil {
					return err
				}
				page = output.Limited(c.Context(), f.Log(), page, limit, func(l deadletter.Letter) string {
					return strconv.FormatInt(l.Number, 10)
				})
				header := table.Row{"DEAD SINCE", "DESTINATION", "REFUSALS", "SUBJECT", "ID", "ERROR"}
				return output.List(f.Printer, seq.Map(page, view.NewDeadLetter), header, func(v view.DeadLetter) table.Row {
					return table.Row{v.DeadAt, v.Destination, v.Refusals, v.Subject, v.ID, v.Error}
				})
			})
		},
	})
	lettersFlags(c, &l)
	c.Flags().Int64Var(&after, "after", 0, "begin behind the event of this `NUMBER`, which the page before names")
	cli.CountVar(c.Flags(), &limit, "limit", 100, "list at most N events")
	return c
}

// onLetters completes the command of an action on dead letters.
func onLetters(
	f *factory.Factory, c *cobra.Command, yes string, of func(l action.Letters, s *action.Store) action.Action,
) *cobra.Command {
	var l action.Letters
	var all bool
	var flags perform.Flags
	c.Args = cli.Exactly()
	c.RunE = func(c *cobra.Command, _ []string) error {
		if (l == action.Letters{}) != all {
			return exit.Usagef("give --destination, --subject or --id, or --all")
		}
		return perform.Action(c.Context(), f, flags, func(s *action.Store) (action.Action, error) { return of(l, s), nil })
	}
	lettersFlags(c, &l)
	c.Flags().BoolVar(&all, "all", false, "every dead letter")
	flags.Add(c, yes)
	return f.WithOutput(c)
}

func newCmdResend(f *factory.Factory) *cobra.Command {
	return onLetters(f, &cobra.Command{
		Use:   "resend",
		Short: "Let dead letters be sent again",
		Long: `Let dead letters be sent again, to the destination that refused them, in their order. They leave
the list. A daemon, the next run or "events forward" sends them. One that is refused once more may become a
dead letter again, with the later ones of its subject.`,
		Example: `  prescient events resend --all
  prescient events resend --subject report-42`,
	}, "", func(l action.Letters, _ *action.Store) action.Action { return action.ResendEvents{Letters: l} })
}

func newCmdDiscard(f *factory.Factory) *cobra.Command {
	var until cli.Instant
	c := onLetters(f, &cobra.Command{
		Use:   "discard",
		Short: "Delete dead letters",
		Long: `Delete dead letters. Without --yes the command only prints their number, and the --until
that leaves out events that are given up later. An event that a run was giving up during the count
may be among the deleted ones. Events that were held back behind a discarded one stay in the list:
send them with "events resend".`,
		Example: `  prescient events discard --id report-42-1772438400 --yes`,
	}, "delete them", func(l action.Letters, s *action.Store) action.Action {
		return action.DiscardEvents{Letters: l, Until: until.From(s.Ledger.Now())}
	})
	c.Flags().Var(&until, "until", "only events that were given up before")
	return c
}
