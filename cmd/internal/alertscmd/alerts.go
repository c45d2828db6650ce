// Package alertscmd has the commands that show which findings a person was told of, that silence them, and that
// acknowledge rows that gave up.
package alertscmd

import (
	"context"
	"errors"
	"time"

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
	"github.com/prescient-go/prescient/internal/alert"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/slots/health"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdAlerts returns the command alerts, with those below it.
func NewCmdAlerts(f *factory.Factory) *cobra.Command {
	return cli.Group("alerts", "Show which findings a person was told of, silence them, and acknowledge rows that gave up",
		newCmdList(f), newCmdSilence(f), newCmdAck(f))
}

func newCmdList(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List the findings that alerts.receiver was told of, and those that are silenced",
		Long: `List the findings of "status" that alerts.receiver was told of and that are not over, and those that are
silenced.`,
		Example: `  prescient alerts list`,
		Args:    cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return database.With(c.Context(), f, func(db *sqlx.DB, setting pgsql.Setting) error {
				list, err := alert.List(c.Context(), db, f.Schema())
				if err != nil {
					return err
				}
				return printAlerts(f, view.NewAlerts(list, setting.Now()))
			})
		},
	})
}

func printAlerts(f *factory.Factory, list []view.Alert) error {
	header := table.Row{"FINDING", "SINCE", "TOLD AT", "SILENCED UNTIL", "BY", "BECAUSE"}
	return output.List(f.Printer, list, header, func(v view.Alert) table.Row {
		return table.Row{v.Finding, v.Since, v.ToldAt, v.SilencedUntil, v.SilencedBy, v.Because}
	})
}

// unknown returns why there cannot be a finding, as far as the database can be asked.
func unknown(ctx context.Context, f *factory.Factory, finding string) error {
	if _, err := health.Named(finding); err != nil {
		return err
	}
	err := perform.With(ctx, f, func(s *action.Store) error {
		return database.Change(ctx, s.DB, func(tx *sqlx.Tx) error {
			return action.Tx{Store: s, Tx: tx}.KnowFinding(ctx, finding)
		})
	})
	if _, is := errors.AsType[*action.RefusedError](err); is {
		return err
	}
	return nil
}

func newCmdSilence(f *factory.Factory) *cobra.Command {
	var a action.Silence
	var span time.Duration
	var flags perform.Flags
	c := f.WithOutput(&cobra.Command{
		Use:   "silence FINDING",
		Short: "Tell no person of a finding for a while",
		Long: `Tell no person of a finding of "status" for a while. FINDING is the condition and, if the finding is about
one job, a destination, a consumer or a receiver, a slash and its name. "alerts list" has those that were told.
"status --check" still finds it. --for 0s ends the silence.`,
		Example: `  prescient alerts silence failing/order.late --for 2h --because "a move"
  prescient alerts silence destinations/receiver:mail --because "it moves"`,
		Args: cli.Exactly("FINDING"),
		RunE: func(c *cobra.Command, args []string) error {
			a.Finding, a.For = args[0], duration.Text(span)
			if because := checkBecause(a.Because); span > 0 && because != nil {
				return exit.Usagef("%w", errors.Join(unknown(c.Context(), f, a.Finding), because))
			}
			return perform.Action(c.Context(), f, flags, func(*action.Store) (action.Action, error) {
				if span == 0 {
					return action.EndSilence{Finding: a.Finding}, nil
				}
				return a, nil
			})
		},
	})
	duration.Var(c.Flags(), &span, "for", action.DefaultSilence, "for how long; 0s ends the silence")
	c.Flags().StringVar(&a.Because, "because", "", "why: `TEXT` for colleagues")
	flags.Add(c, "")
	return c
}
