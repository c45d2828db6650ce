package jobscmd

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
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
		Short: "List the rows that have ended, the latest first",
		Example: `  prescient jobs history --outcome failed --since 24h
  prescient jobs history --entity orders --key 42
  prescient jobs history --job order.unshipped --output json |
    jq '.items[].last_error'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	keyVars(c.Flags(), &o.filter.JobExec, &o.filter.EntityName, &o.filter.EntityKey)
	outcomes := jobs.Outcomes()
	c.Flags().Var(cli.Choice(&o.filter.Outcome, outcomes...), "outcome", "only this one: "+spoken.OrList(outcomes))
	o.span.Flags(c.Flags(), "only what ended since", "only what ended before")
	afterVar(c.Flags(), &o.after)
	cli.CountVar(c.Flags(), &o.limit, "limit", 100, "maximum number of checks")
	return c
}

func listEnded(ctx context.Context, f *factory.Factory, o *historyOptions) error {
	return perform.With(ctx, f, func(s *action.Store) (err error) {
		if o.filter.From, o.filter.To, err = o.span.At(s.Ledger.Now()); err != nil {
			return err
		}
		n := 0
		ended := readEach(ctx, f, o.limit, o.after,
			func(after admin.Position, limit int) ([]admin.HistoryRow, admin.Position, error) {
				o.filter.After, o.filter.Limit = after, limit
				return admin.New(s.Client).HistoryPage(ctx, s.DB, o.filter)
			})
		if err := printEnded(f, views(ended, &n)); err != nil {
			return err
		}
		if n == 0 {
			checks.Warn(ctx, f, s.DB, s.Client, o.filter.JobExec)
		}
		return nil
	})
}

// views counts the rows of a sequence, and returns them as JSON.
func views(all iter.Seq2[admin.HistoryRow, error], n *int) iter.Seq2[view.Ended, error] {
	return func(yield func(view.Ended, error) bool) {
		for row, err := range all {
			if err == nil {
				*n++
			}
			if !yield(view.NewEndedCheck(row), err) {
				return
			}
		}
	}
}

// printEnded prints each row as it comes, because a payload may have a megabyte. A table has no payloads.
func printEnded(f *factory.Factory, all iter.Seq2[view.Ended, error]) error {
	if f.Format == output.JSON {
		return output.Stream(f.Printer, all)
	}
	var list []view.Ended
	for v, err := range all {
		if err != nil {
			return err
		}
		v.Payload = nil
		list = append(list, v)
	}
	return endedTable(f, list)
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

// ofCheck returns a time of the check that ended a row, or nothing if no check did.
func ofCheck(o jobs.Outcome, d duration.Text) any {
	if !view.ByCheck(o) {
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
		Short: "Count ended rows by job and outcome, with their lateness and run time",
		Long: `Count ended rows by job and outcome, with the lateness and the run time of the checks that ended them. LATE
counts the checks that began later after their slot than the SLA of the job allows. Without --since it counts one day.`,
		Example: `  prescient jobs stats --since 7d`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	o.span.Flags(c.Flags(), "only what ended since; default: one day", "only what ended before")
	return c
}

// statsSpan is how far stats looks back without --since.
const statsSpan = 24 * time.Hour

func jobsStats(ctx context.Context, f *factory.Factory, o *statsOptions) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		now := s.Ledger.Now()
		from, to, err := o.span.At(now)
		if err != nil {
			return err
		}
		if from.IsZero() { // the whole history may take minutes
			from = cmp.Or(to, now).Add(-statsSpan)
			f.Log().InfoContext(ctx, "counting what ended lately; for more give --since", "since", spoken.Instant(from))
		}
		list, err := admin.New(s.Client).Stats(ctx, s.DB, from, to)
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
