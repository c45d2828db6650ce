package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/deadletter"
	pgsql "github.com/prescient-go/prescient/sql"
)

func withList(ctx context.Context, f *factory.Factory, fn func(db *sqlx.DB, list *deadletter.List) error) error {
	return database.With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error {
		return fn(db, deadletter.NewList(db, f.Schema()))
	})
}

func filterFlags(c *cobra.Command, filter *deadletter.Filter) {
	cli.WordVar(c.Flags(), &filter.Subject, "subject", "only events of this `SUBJECT`, such as the id of a schedule")
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
refusal. Without these settings no event is given up. 0 refusals: the event is held back behind an
earlier dead letter of its subject, unless events.after_dead_letter is continue.`,
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
				header := table.Row{"DEAD SINCE", "REFUSALS", "SUBJECT", "ID", "ERROR"}
				return output.List(f.Printer, letters, header, func(v view.DeadLetter) table.Row {
					return table.Row{v.DeadAt, v.Refusals, v.Subject, v.ID, v.Error}
				})
			})
		},
	})
	filterFlags(c, &filter)
	cli.CountVar(c.Flags(), &limit, "limit", 100, "list at most N events")
	return c
}

type selection struct {
	filter deadletter.Filter
	all    bool
}

func (s *selection) flags(c *cobra.Command) {
	filterFlags(c, &s.filter)
	c.Flags().BoolVar(&s.all, "all", false, "every dead letter")
}

func (s selection) validate() error {
	if (s.filter == deadletter.Filter{}) != s.all {
		return exit.Usagef("give either --subject or --id, or --all")
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
	var yes bool
	c := f.WithOutput(&cobra.Command{
		Use:   "resend",
		Short: "Send dead letters again, to events.destination",
		Long: `Send dead letters again, to events.destination, in their order, and remove those that it accepts. It prints the
destination before it sends anything. After a refusal, the later letters of the subject stay in the list. The command
exits with 1 if any letter stays.

The outbox refuses no event. So if events.destination is the outbox, another destination has refused the letters, such
as that of the daemon. The command then sends nothing without --yes, and prints a refusal.`,
		Example: `  prescient events resend --all
  prescient events resend --subject report-42`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.validate(); err != nil {
				return err
			}
			return resend(c.Context(), f, s, yes)
		},
	})
	s.flags(c)
	c.Flags().BoolVar(&yes, "yes", false, "send to the outbox what another destination has refused")
	return c
}

func resend(ctx context.Context, f *factory.Factory, s selection, yes bool) error {
	return withList(ctx, f, func(db *sqlx.DB, list *deadletter.List) (err error) {
		found, err := list.Count(ctx, s.filter)
		if err == nil {
			err = s.found(ctx, f, list, found.Letters)
		}
		if err != nil {
			return err
		}
		publisher, err := checks.OpenPublisher(ctx, f, db)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, publisher.Close()) }()
		to := f.Config().Events.Destination.String()
		if _, box := publisher.(event.TxPublisher); box && !yes {
			if err := refusedElsewhere(ctx, f, list, s.filter); err != nil {
				return err
			}
		}
		if !f.IsJSON() {
			if err := f.Lines(fmt.Sprintf("sending %s to %s (%s)", spoken.Count(found.Letters, "dead letter", "dead letters"),
				to, f.Origin("events.destination"))); err != nil {
				return err
			}
		}
		sent, err := list.Send(ctx, publisher, s.filter)
		v := struct {
			Destination string `json:"destination"`
			Sent        int64  `json:"sent"`
			Refused     int64  `json:"refused"`
			Held        int64  `json:"held"` // behind a refused one of their subject
		}{to, sent.Sent, sent.Refused, sent.Held}
		err = errors.Join(err, f.Pairs(v, table.Row{"destination", v.Destination}, table.Row{"sent", v.Sent},
			table.Row{"refused again", v.Refused}, table.Row{"held back", v.Held}))
		if err == nil && sent.Refused+sent.Held > 0 {
			err = fmt.Errorf("%s did not take all dead letters; see the errors with: %s events dead", to, f.Self())
		}
		return err
	})
}

// refusedElsewhere returns an error if there are letters. They would go to the outbox, which refuses
// no event: another destination has refused them.
func refusedElsewhere(ctx context.Context, f *factory.Factory, list *deadletter.List, filter deadletter.Filter) error {
	found, err := list.Count(ctx, filter)
	if err != nil || found.Letters == 0 {
		return err
	}
	page, err := list.Page(ctx, filter, 0, 100)
	if err != nil {
		return err
	}
	said := ""
	for _, letter := range page { // an event that was only held back has no error
		if letter.Error != "" {
			said = fmt.Sprintf(" (%s)", letter.Error)
			break
		}
	}
	return exit.Usagef("this sends %s to %s (%s), but another destination refused %s%s. Nothing was sent. "+
		"Set events.destination to that destination, or add --yes to send %[4]s to the outbox",
		spoken.Count(found.Letters, "dead letter", "dead letters"), f.Config().Events.Destination,
		f.Origin("events.destination"), spoken.Noun(found.Letters, "it", "them"), said)
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
	return exit.Usagef("this deletes %s: add --until %s --yes to delete %s, and none that follows",
		spoken.Count(found.Letters, "dead letter", "dead letters"), found.Until.Format(time.RFC3339Nano),
		spoken.Noun(found.Letters, "it", "them"))
}
