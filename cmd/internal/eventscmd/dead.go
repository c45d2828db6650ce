package eventscmd

import (
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

func withList(ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, list *deadletter.List) error) error {
	return database.With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error {
		return fn(db, deadletter.NewList(db, f.Schema()))
	})
}

func filterFlags(c *cobra.Command, filter *deadletter.Filter) {
	cli.WordVar(c.Flags(), &filter.Subject, "subject", "only events of this `SUBJECT`, such as the id of a schedule")
	cli.WordVar(c.Flags(), &filter.Consumer, "destination", "only events of this `DESTINATION`")
	cli.WordVar(c.Flags(), &filter.ID, "id", "only the event with this `ID`")
}

func newCmdDead(f *factory.Factory) *cobra.Command {
	var filter deadletter.Filter
	var limit cli.Count
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
			return withList(c.Context(), f, func(_ *sqlx.DB, list *deadletter.List) error {
				page, err := list.Page(c.Context(), filter, 0, output.OneMore(limit))
				if err != nil {
					return err
				}
				page = output.Limited(c.Context(), f.Log(), page, limit, "give a larger --limit")
				letters := make([]view.DeadLetter, len(page))
				for i, d := range page {
					letters[i] = view.NewDeadLetter(d)
				}
				header := table.Row{"DEAD SINCE", "DESTINATION", "REFUSALS", "SUBJECT", "ID", "ERROR"}
				return output.List(f.Printer, letters, header, func(v view.DeadLetter) table.Row {
					return table.Row{v.DeadAt, v.Destination, v.Refusals, v.Subject, v.ID, v.Error}
				})
			})
		},
	})
	filterFlags(c, &filter)
	cli.CountVar(c.Flags(), &limit, "limit", 100, "list at most N events")
	return c
}

type selection struct{ filter deadletter.Filter }

func (s *selection) flags(c *cobra.Command) {
	filterFlags(c, &s.filter)
	c.Flags().BoolVar(&s.filter.All, "all", false, "every dead letter")
}

func (s selection) validate() error {
	narrow := s.filter
	narrow.All = false
	if (narrow == deadletter.Filter{}) != s.filter.All {
		return exit.Usagef("give --destination, --subject or --id, or --all")
	}
	return nil
}

// found returns an error of usage if the selection names a dead letter by --id and n, their number, is 0.
func (s selection) found(ctx context.Context, f *factory.Factory, list *deadletter.List, n int64) error {
	if n > 0 || s.filter.ID == "" {
		return nil
	}
	page, err := list.Page(ctx, deadletter.Filter{}, 0, 100)
	if err != nil {
		return err
	}
	if len(page) == 100 {
		return exit.Usagef("there is no dead letter %s; list them with: %s events dead", s.filter.ID, f.Self())
	}
	ids := make([]string, len(page))
	for i, letter := range page {
		ids[i] = letter.ID
	}
	return exit.Usagef("there is no dead letter %s%s", s.filter.ID, cli.Known("dead letter", ids))
}

func newCmdResend(f *factory.Factory) *cobra.Command {
	var s selection
	c := f.WithOutput(&cobra.Command{
		Use:   "resend",
		Short: "Let dead letters be sent again",
		Long: `Let dead letters be sent again, to the destination that refused them, in their order. They leave
the list. A daemon, the next run or "events forward" sends them. One that is refused once more may become a
dead letter again, with the later ones of its subject.`,
		Example: `  prescient events resend --all
  prescient events resend --subject report-42`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.validate(); err != nil {
				return err
			}
			return withList(c.Context(), f, func(_ *sqlx.DB, list *deadletter.List) error {
				n, err := list.Retry(c.Context(), s.filter)
				if err == nil {
					err = s.found(c.Context(), f, list, n)
				}
				if err != nil {
					return err
				}
				v := struct {
					Again int64 `json:"again"`
				}{n}
				return f.Pairs(v, table.Row{"sent again", n})
			})
		},
	})
	s.flags(c)
	return c
}

func newCmdDiscard(f *factory.Factory) *cobra.Command {
	var s selection
	var until cli.Instant
	var yes bool
	c := f.WithOutput(&cobra.Command{
		Use:   "discard",
		Short: "Delete dead letters",
		Long: `Delete dead letters. Without --yes the command only prints their number, and the --until
that leaves out events that are given up later. An event that a run was giving up during the count
may be among the deleted ones. Events that were held back behind a discarded one stay in the list:
send them with "events resend".`,
		Example: `  prescient events discard --id report-42-1772438400 --yes`,
		Args:    cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.validate(); err != nil {
				return err
			}
			s.filter.Until = until.At
			return discard(c.Context(), f, s, yes)
		},
	})
	s.flags(c)
	c.Flags().Var(&until, "until", "only events that were given up before")
	c.Flags().BoolVar(&yes, "yes", false, "delete them")
	return c
}

func discard(ctx context.Context, f *factory.Factory, s selection, yes bool) error {
	return withList(ctx, f, func(_ *sqlx.DB, list *deadletter.List) (err error) {
		var n int64
		if yes {
			if n, err = list.Discard(ctx, s.filter); err == nil && s.filter.Until.IsZero() {
				err = s.found(ctx, f, list, n)
			}
		} else {
			err = previewDiscard(ctx, f, list, s)
		}
		if err != nil {
			return err
		}
		v := struct {
			Discarded int64 `json:"discarded"`
		}{n}
		return f.Pairs(v, table.Row{"discarded", n})
	})
}

// previewDiscard returns an error that counts the dead letters, if there are any.
func previewDiscard(ctx context.Context, f *factory.Factory, list *deadletter.List, s selection) error {
	found, err := list.Count(ctx, s.filter)
	if err != nil {
		return err
	}
	if found.Letters == 0 {
		return s.found(ctx, f, list, 0)
	}
	return exit.Usagef("this deletes %s. To delete exactly %[3]s: --until %[2]s --yes",
		spoken.Count(found.Letters, "dead letter", "dead letters"), found.Until.Format(time.RFC3339Nano),
		spoken.Noun(found.Letters, "it", "them"))
}
