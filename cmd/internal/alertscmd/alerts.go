// Package alertscmd has the commands that show which findings a person was told of, and that silence them.
package alertscmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/alert"
	"github.com/prescient-go/prescient/slots/health"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdAlerts returns the command alerts, with those below it.
func NewCmdAlerts(f *factory.Factory) *cobra.Command {
	return cli.Group("alerts", "Show which findings a person was told of, and silence them", newCmdList(f),
		newCmdSilence(f, silence))
}

// alertView is a finding that was told or is silenced, as JSON.
type alertView struct {
	Finding       string     `json:"finding"`
	Text          string     `json:"text"`
	Since         *time.Time `json:"since"`          // null: it is silenced, and not there
	ToldAt        *time.Time `json:"told_at"`        // null: no message has told it
	SilencedUntil *time.Time `json:"silenced_until"` // null: it is not silenced
	SilencedBy    string     `json:"silenced_by"`
	Because       string     `json:"because"`
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
				return printAlerts(f, list, setting.Now())
			})
		},
	})
}

func printAlerts(f *factory.Factory, list []alert.Known, now time.Time) error {
	views := []alertView{}
	for _, k := range list {
		v := alertView{
			Finding: k.Finding, Text: k.Text, Since: view.TimeOrNil(k.Since), ToldAt: view.TimeOrNil(k.ToldAt),
			SilencedUntil: view.TimeOrNil(k.SilencedUntil), SilencedBy: k.By, Because: k.Because,
		}
		if !k.SilencedUntil.After(now) {
			v.SilencedUntil, v.SilencedBy, v.Because = nil, "", ""
		}
		if v.Since != nil || v.SilencedUntil != nil {
			views = append(views, v)
		}
	}
	header := table.Row{"FINDING", "SINCE", "TOLD AT", "SILENCED UNTIL", "BY", "BECAUSE"}
	return output.List(f.Printer, views, header, func(v alertView) table.Row {
		return table.Row{v.Finding, v.Since, v.ToldAt, v.SilencedUntil, v.SilencedBy, v.Because}
	})
}

type silenceOptions struct {
	finding string
	span    time.Duration
	because string
}

func newCmdSilence(f *factory.Factory, runF factory.Run[silenceOptions]) *cobra.Command {
	var o silenceOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "silence FINDING",
		Short: "Tell no person of a finding for a while",
		Long: `Tell no person of a finding of "status" for a while. FINDING is the condition and, if the finding is about
one job, a slash and the job. "alerts list" has those that were told. "status --check" still finds it. --for 0s ends the
silence.`,
		Example: `  prescient alerts silence failing/order.late --for 2h --because "a move"`,
		Args:    cli.Exactly("FINDING"),
		RunE: func(c *cobra.Command, args []string) error {
			o.finding = args[0]
			name, _, _ := strings.Cut(o.finding, "/")
			if !slices.Contains(health.Names(), name) {
				return exit.Usagef("there is no condition %s%s", name, cli.Known("condition", health.Names()))
			}
			if strings.TrimSpace(o.because) == "" && o.span > 0 {
				return exit.Usagef("--because must say why, such as --because \"the warehouse moves\"")
			}
			return runF(c.Context(), f, o)
		},
	})
	duration.Var(c.Flags(), &o.span, "for", time.Hour, "for how long; 0s ends the silence")
	c.Flags().StringVar(&o.because, "because", "", "why: `TEXT` for colleagues")
	return c
}

func silence(ctx context.Context, f *factory.Factory, o silenceOptions) error {
	return database.With(ctx, f, func(db *sqlx.DB, _ pgsql.Setting) error {
		err := database.Change(ctx, db, func(tx *sqlx.Tx) error {
			return alert.Silence(ctx, tx, f.Schema(), o.finding, o.span, o.because)
		})
		if err != nil {
			return err
		}
		list, err := alert.List(ctx, db, f.Schema())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(k alert.Known) bool { return k.Finding == o.finding })
		if i < 0 {
			return fmt.Errorf("silence %s: another process has ended the silence", o.finding)
		}
		text := fmt.Sprintf("%s is silenced until %s", o.finding, spoken.Instant(list[i].SilencedUntil))
		if o.span == 0 {
			text = o.finding + " is silenced no more"
		}
		v := struct {
			Finding       string    `json:"finding"`
			SilencedUntil time.Time `json:"silenced_until"`
		}{o.finding, list[i].SilencedUntil}
		return f.Say(v, text)
	})
}
