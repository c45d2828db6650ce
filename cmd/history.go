package cmd

import (
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
)

func newHistory(a *App) *cobra.Command {
	return group("history", "Read what ended, and prune it",
		newHistoryList(a), newHistoryShow(a), newHistoryStats(a), newHistoryPrune(a))
}

type historyListOptions struct {
	job          string
	outcome      jobs.Outcome
	since, until instant
	limit        count
}

func newHistoryList(a *App) *cobra.Command {
	var o historyListOptions
	c := a.withOutput(&cobra.Command{
		Use:   "list",
		Short: "List ended checks, the latest first",
		Example: `  prescient history list --outcome failed --since 24h
  prescient history list --job order.unshipped --output json |
    jq '.[].last_error'`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return listHistory(c.Context(), a, &o) },
	})
	c.Flags().StringVar(&o.job, "job", "", "only this `JOB`")
	c.Flags().Var(choice(&o.outcome, jobs.Outcomes...), "outcome", "only this one: "+orList(jobs.Outcomes))
	sinceVar(c.Flags(), &o.since, "since", "only what ended since")
	sinceVar(c.Flags(), &o.until, "until", "only what ended before")
	countVar(c.Flags(), &o.limit, "limit", 100, "number of checks at the most")
	return c
}

func listHistory(ctx context.Context, a *App, o *historyListOptions) error {
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		if err := inOrder(now, "since", "until", o.since, o.until); err != nil {
			return err
		}
		list, err := c.History(ctx, db, jobs.HistoryFilter{
			JobExec: o.job, Outcome: o.outcome, From: o.since.from(now), To: o.until.from(now), Limit: int(o.limit),
		})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			a.warnNoSuchJob(ctx, db, c, o.job)
		}
		return printEnded(a, list)
	})
}

func newHistoryShow(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:     "show ENTITY KEY",
		Short:   "Show what ended for one entity, the oldest first",
		Example: `  prescient history show order 42`,
		Args:    exactly("ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
				list, err := c.Trace(ctx, db, args[0], args[1])
				if err != nil {
					return err
				}
				return printEnded(a, list)
			})
		},
	})
}

func printEnded(a *App, list []jobs.Ended) error {
	views := view.NewEnded(list)
	return a.print(views, func() error { return endedTable(a, views) })
}

func endedTable(a *App, list []view.Ended) error {
	header := table.Row{
		"FINISHED AT", "OUTCOME", optional("SLOT"), "JOB", optional("ENTITY"), "KEY", optional("ITEM"), optional("CHECKS"),
		optional("ERRORS"), optional("LATENESS"), optional("DURATION"), "LAST ERROR",
	}
	return printTable(a, list, header, func(v view.Ended) table.Row {
		return table.Row{
			v.FinishedAt, string(v.Outcome), v.Slot, v.JobExec, v.EntityName, v.EntityKey, v.ItemKey, v.CheckCount,
			v.ErrorCount, ofCheck(v.Outcome, v.Lateness), ofCheck(v.Outcome, v.Duration), v.Why(),
		}
	})
}

// ofCheck is a time of the check that ended a row with an outcome, and nothing where it ended without one: 0s would be a check in time.
func ofCheck(o jobs.Outcome, d duration.Text) any {
	switch o {
	case jobs.Cancelled, jobs.Replaced, jobs.DeadlinePassed, jobs.Skipped:
		return ""
	}
	return d
}

type historyStatsOptions struct {
	since, until instant
}

func newHistoryStats(a *App) *cobra.Command {
	var o historyStatsOptions
	c := a.withOutput(&cobra.Command{
		Use:   "stats",
		Short: "Count ended checks by job and outcome, with their lateness and run time",
		Long: `Count ended checks by job and outcome, with the lateness and the run time of their last check. LATE are those
whose last check began later after its slot than the SLA of the job.`,
		Example: `  prescient history stats --since 7d`,
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return historyStats(c.Context(), a, &o) },
	})
	sinceVar(c.Flags(), &o.since, "since", "only what ended since")
	sinceVar(c.Flags(), &o.until, "until", "only what ended before")
	return c
}

func historyStats(ctx context.Context, a *App, o *historyStatsOptions) error {
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		if err := inOrder(now, "since", "until", o.since, o.until); err != nil {
			return err
		}
		list, err := c.Stats(ctx, db, o.since.from(now), o.until.from(now))
		if err != nil {
			return err
		}
		header := table.Row{
			"JOB", "OUTCOME", "COUNT", "LATE", optional("LATENESS P50"), "LATENESS P99", optional("DURATION P50"), optional("DURATION P99"),
		}
		return printList(a, view.NewStats(list), header, func(v view.Stats) table.Row {
			return table.Row{
				v.JobExec, string(v.Outcome), v.Count, v.Late, ofCheck(v.Outcome, v.LatenessP50), ofCheck(v.Outcome, v.LatenessP99),
				ofCheck(v.Outcome, v.DurationP50), ofCheck(v.Outcome, v.DurationP99),
			}
		})
	})
}
