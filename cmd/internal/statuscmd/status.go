// Package statuscmd has the commands that show the state of slots, and the history of one entity:
// status and why.
package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
)

type statusOptions struct {
	since      cli.Instant
	check      bool
	thresholds health.Thresholds
}

// NewCmdStatus returns the command status.
func NewCmdStatus(f *factory.Factory) *cobra.Command {
	var o statusOptions
	c := factory.OnStores(f.WithOutput(&cobra.Command{
		Use:   "status",
		Short: "Show the current slot, missed slots, failing and given-up checks, and paused jobs",
		Long: `Show the current slot, and every past slot that is in trouble, with the jobs whose rows wait in it:

  missed      no run has opened it
  left open   its runners died or were stopped before it was done, have not registered a job with rows in it, or left
              rows that other sessions have locked
  stragglers  rows were committed into it after it was closed

The line "opened late" has the slots of the last 24 hours that a run or catch-up has opened more than a minute after
they began. It tells of an outage that is over.

Runs of this binary do not check the rows of a job that it has not registered: they leave them to a binary that has the
job. Such a job is marked. The rows of a paused job wait until "jobs resume", and are no trouble before that.

A claim is the rows of a slot that a runner works on, under a lease. A claim without jobs belongs to a runner that may
claim more. If it is not live, that runner died, or lost the database. It holds no rows, and goes when the slot is done.

With --check, prints only problems, and exits with 3 if there are any. It looks for these, the conditions:

` + conditionsHelp() + `
--threshold changes the number of a condition, or turns the condition off. Conditions about jobs cover the slots of the
last day that are done.`,
		Example: `  prescient status
  prescient status --since 24h --check
  prescient status --check --threshold gave-up=10 --threshold slow=off
  prescient status --output json | jq '.missed[].slot'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return database.Look(c.Context(), f, o.run) },
	}))
	cli.SinceVar(c.Flags(), &o.since, "since", "first slot to show; default: the ledger's first")
	c.Flags().BoolVar(&o.check, "check", false, "print only problems, and exit with 3 if there are any")
	c.Flags().Func("threshold",
		"another number for a condition: `CONDITION=VALUE`, such as gave-up=10, or off; may be repeated", o.thresholds.Set)
	_ = c.RegisterFlagCompletionFunc("threshold",
		cobra.FixedCompletions(withSuffix(health.Names(), "="), cobra.ShellCompDirectiveNoSpace))
	return c
}

func withSuffix(list []string, suffix string) []string {
	for i := range list {
		list[i] += suffix
	}
	return list
}

// conditionsHelp returns a line for each condition.
func conditionsHelp() string {
	var text strings.Builder
	for _, c := range health.Conditions() {
		fmt.Fprintf(&text, "  %-14s  %s\n", c.Name, strings.ReplaceAll(c.Help, "THRESHOLD", c.Threshold()))
	}
	return text.String()
}

func (o *statusOptions) run(ctx context.Context, f *factory.Factory) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		knows, err := checks.Knows(ctx, f, s.Ledger)
		if err != nil {
			return err
		}
		var report health.Report
		var paused []admin.PausedJob
		err = pg.SnapshotTx(ctx, s.DB, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(ctx, pg.SlotIndexOnly.In(s.Schema)); err != nil {
				return err
			}
			l := s.Ledger.In(reserved.Caller{}, tx)
			report, err = health.Check(ctx, l, o.since.From(l.Now()), o.thresholds, knows)
			if err != nil {
				return err
			}
			paused, err = admin.New(s.Client).Paused(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		v := view.NewStatus(report, paused, f.Self(), knows)
		if v.Database, err = database.NewView(f, s.Setting); err != nil {
			return err
		}
		err = f.Print(v, func() error {
			if o.check {
				return printFindings(f, v)
			}
			err := errors.Join(printStatus(f, v), printJobs(f, v))
			if !v.OK {
				err = errors.Join(err, f.Lines(""), printFindings(f, v))
			}
			return err
		})
		if err != nil {
			return err
		}
		if o.check && !v.OK {
			return &exit.Error{Code: exit.Found}
		}
		return nil
	})
}

func printStatus(f *factory.Factory, v view.Status) error {
	err := f.Table(nil,
		table.Row{"database", v.Database.String()},
		table.Row{"current slot", v.Current()},
		table.Row{"last run", v.Last()},
		table.Row{"next slot", spoken.Since(v.NextSlot, v.Now)},
		table.Row{"width", v.Width.String()},
		table.Row{"ledger since", spoken.Since(v.Since, v.Now)},
		table.Row{"missed", spoken.Count(len(v.Missed)+int(v.MoreMissed), "slot", "slots")},
		table.Row{"left open", spoken.Count(len(v.LeftOpen)+int(v.MoreOpen), "slot", "slots")},
		table.Row{"opened late", v.OpenedLate.String()},
		table.Row{"stragglers", spoken.Count(len(v.Stragglers), "slot", "slots")},
		table.Row{"overdue rows", v.OverdueCount()},
		table.Row{"paused jobs", len(v.Paused)},
		table.Row{"claims", fmt.Sprintf("%d live, %d expired", v.ClaimsLive, v.ClaimsExpired)},
	)
	if err == nil && len(v.Paused) > 0 {
		err = errors.Join(f.Lines(""), output.Rows(f.Printer, v.Paused, table.Row{"PAUSED JOB", "SINCE", "BY"},
			func(p admin.PausedJob) table.Row { return table.Row{p.JobExec, p.PausedAt, p.PausedBy} }))
	}
	if err == nil && len(v.Claims) > 0 {
		header := table.Row{"SLOT", "KIND", "RUNNER", "UNTIL", "LIVE", "JOBS"}
		err = errors.Join(f.Lines(""), output.Few(f.Printer, len(v.Claims), v.Claims, header,
			func(c ledger.Claim) table.Row { return append(table.Row{c.Slot}, view.ClaimRow(c)...) }))
	}
	return err
}
