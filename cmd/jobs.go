package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/jobs"
)

func newJobs(a *App) *cobra.Command {
	return group("jobs", "Read, add and change checks that wait",
		newJobsList(a), newJobsShow(a), newJobsRegistered(a),
		newJobsAdd(a), newJobsCancel(a), newJobsReschedule(a), newJobsRetry(a),
		newJobsPause(a), newJobsResume(a))
}

type jobsListOptions struct {
	job, entity string
	from, to    instant
	limit       count
}

func newJobsList(a *App) *cobra.Command {
	var o jobsListOptions
	c := a.withOutput(&cobra.Command{
		Use:   "list",
		Short: "List waiting checks in the order of their slots",
		Example: `  prescient jobs list --job order.unshipped
  prescient jobs list --to 2026-03-02 --output json | jq '.[].entity_key'`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return listJobs(c.Context(), a, &o) },
	})
	c.Flags().StringVar(&o.job, "job", "", "only this `JOB`")
	c.Flags().StringVar(&o.entity, "entity", "", "only entities of this `NAME`")
	sinceVar(c.Flags(), &o.from, "from", "first slot")
	sinceVar(c.Flags(), &o.to, "to", "slot to stop before")
	countVar(c.Flags(), &o.limit, "limit", 100, "number of checks at the most")
	return c
}

func listJobs(ctx context.Context, a *App, o *jobsListOptions) error {
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		if err := inOrder(now, "from", "to", o.from, o.to); err != nil {
			return err
		}
		list, err := c.List(ctx, db, jobs.Filter{
			JobExec: o.job, EntityName: o.entity, From: o.from.from(now), To: o.to.from(now), Limit: int(o.limit),
		})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			a.warnNoSuchJob(ctx, db, c, o.job)
		}
		views, err := waitingJobs(ctx, db, c, list)
		if err != nil {
			return err
		}
		return a.print(views, func() error { return waitingTable(a, views) })
	})
}

func newJobsShow(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:   "show ENTITY KEY",
		Short: "Show what waits for one entity, and then its history",
		Long: `Show what waits for one entity, but not anonymous checks, and then everything that ended for it,
the oldest first: of each 1,000 at the most, those that are next and those that ended last.`,
		Example: `  prescient jobs show order 42`,
		Args:    exactly("ENTITY", "KEY"),
		RunE:    func(c *cobra.Command, args []string) error { return showJobs(c.Context(), a, args[0], args[1]) },
	})
}

func showJobs(ctx context.Context, a *App, entity, key string) error {
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
		list, err := c.Show(ctx, db, entity, key)
		if err != nil {
			return err
		}
		waiting, err := waitingJobs(ctx, db, c, list)
		if err != nil {
			return err
		}
		ended, err := c.Trace(ctx, db, entity, key)
		if err != nil {
			return err
		}
		if max(len(list), len(ended)) >= jobs.MostRows {
			a.log.WarnContext(ctx, "there may be more rows than are shown", "waiting", len(list), "ended", len(ended))
		}
		v := struct {
			Waiting []view.Check `json:"waiting"`
			History []view.Ended `json:"history"`
		}{waiting, view.NewEnded(ended)}
		return a.print(v, func() error {
			return errors.Join(waitingTable(a, v.Waiting), a.lines(""), endedTable(a, v.History))
		})
	})
}

func waitingJobs(ctx context.Context, db *sqlx.DB, c *jobs.Client, list []jobs.FutureJob) ([]view.Check, error) {
	paused, err := c.Paused(ctx, db)
	views := []view.Check{}
	for _, j := range list {
		views = append(views, view.NewCheck(j, paused))
	}
	return views, err
}

func waitingTable(a *App, list []view.Check) error {
	header := table.Row{
		"NEXT CHECK", "STATE", "JOB", optional("ENTITY"), "KEY", optional("ITEM"), optional("CHECKS"), optional("ERRORS"), "LAST ERROR",
	}
	return printTable(a, list, header, func(v view.Check) table.Row {
		return table.Row{
			v.NextCheckAt, string(v.State), v.JobExec, v.EntityName, v.EntityKey, v.ItemKey, v.CheckCount, v.ErrorCount,
			v.LastError,
		}
	})
}
