package jobscmd

import (
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

type historyOptions struct {
	filter admin.HistoryFilter
	span   cli.Span
	after  position
	limit  cli.Count
}

func newCmdHistory(f *factory.Factory, runF factory.Run[*historyOptions]) *cobra.Command {
	var o historyOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "history",
		Short: "List ended checks, the latest first",
		Example: `  prescient jobs history --outcome failed --since 24h
  prescient jobs history --entity orders --key 42
  prescient jobs history --job order.unshipped --output json |
    jq '.[].last_error'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	keyVars(c.Flags(), &o.filter.JobExec, &o.filter.EntityName, &o.filter.EntityKey)
	c.Flags().Var(cli.Choice(&o.filter.Outcome, jobs.Outcomes...), "outcome", "only this one: "+cli.OrList(jobs.Outcomes))
	o.span.Flags(c.Flags(), "only what ended since", "only what ended before")
	afterVar(c.Flags(), &o.after)
	cli.CountVar(c.Flags(), &o.limit, "limit", 100, "maximum number of checks")
	return c
}

func listEnded(ctx context.Context, f *factory.Factory, o *historyOptions) error {
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		var err error
		if o.filter.From, o.filter.To, err = o.span.At(now); err != nil {
			return err
		}
		list, err := readList(ctx, f, o.limit, o.after,
			func(after admin.Position, limit int) ([]admin.HistoryRow, admin.Position, error) {
				o.filter.After, o.filter.Limit = after, limit
				return admin.New(c).HistoryPage(ctx, db, o.filter)
			})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			checks.Warn(ctx, f, db, c, o.filter.JobExec)
		}
		return printEnded(f, list)
	})
}

func printEnded(f *factory.Factory, list []admin.HistoryRow) error {
	views := view.NewEnded(list)
	return f.Print(views, func() error { return endedTable(f, views) })
}

func endedTable(f *factory.Factory, list []view.Ended) error {
	header := table.Row{
		"FINISHED AT", "OUTCOME", output.Droppable("SLOT"), "JOB", output.Droppable("ENTITY"), "KEY",
		output.Droppable("ITEM"), output.Droppable("CHECKS"),
		output.Droppable("ERRORS"), output.Droppable("LATENESS"), output.Droppable("DURATION"), "LAST ERROR",
	}
	return output.Rows(f.Printer, list, header, func(v view.Ended) table.Row {
		return table.Row{
			v.FinishedAt, string(v.Outcome), v.Slot, v.JobExec, v.EntityName, v.EntityKey, v.ItemKey, v.CheckCount,
			v.ErrorCount, ofCheck(v.Outcome, v.Lateness), ofCheck(v.Outcome, v.Duration), v.Why(),
		}
	})
}

// ofCheck returns a time of the check that ended a row, or nothing if no check did: 0s would mean a
// check in time.
func ofCheck(o jobs.Outcome, d duration.Text) any {
	switch o {
	case jobs.OutcomeCancelled, jobs.OutcomeReplaced, jobs.OutcomeDeadline, jobs.OutcomeSkipped:
		return ""
	}
	return d
}

type statsOptions struct {
	span cli.Span
}

func newCmdStats(f *factory.Factory, runF factory.Run[*statsOptions]) *cobra.Command {
	var o statsOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "stats",
		Short: "Count ended checks by job and outcome, with their lateness and run time",
		Long: `Count ended checks by job and outcome, with the lateness and the run time of their last check. LATE counts the
checks that began later after their slot than the SLA of the job allows.`,
		Example: `  prescient jobs stats --since 7d`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	o.span.Flags(c.Flags(), "only what ended since", "only what ended before")
	return c
}

func jobsStats(ctx context.Context, f *factory.Factory, o *statsOptions) error {
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		from, to, err := o.span.At(now)
		if err != nil {
			return err
		}
		list, err := admin.New(c).Stats(ctx, db, from, to)
		if err != nil {
			return err
		}
		header := table.Row{
			"JOB", "OUTCOME", "COUNT", "LATE", output.Droppable("LATENESS P50"), "LATENESS P99",
			output.Droppable("DURATION P50"), output.Droppable("DURATION P99"),
		}
		return output.List(f.Printer, list, header, func(v admin.Stats) table.Row {
			return table.Row{
				v.JobExec, string(v.Outcome), v.Count, v.Late, ofCheck(v.Outcome, v.LatenessP50), ofCheck(v.Outcome, v.LatenessP99),
				ofCheck(v.Outcome, v.DurationP50), ofCheck(v.Outcome, v.DurationP99),
			}
		})
	})
}
