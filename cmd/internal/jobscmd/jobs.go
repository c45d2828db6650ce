// Package jobscmd has the commands that read, add and change checks: jobs list, jobs add, jobs
// cancel and others.
package jobscmd

import (
	"context"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// NewCmdJobs returns the command jobs, with those below it.
func NewCmdJobs(f *factory.Factory) *cobra.Command {
	return cli.Group("jobs", "Read, add and change checks that wait, and read what ended",
		newCmdList(f, listJobs), newCmdHistory(f, listEnded), newCmdStats(f, jobsStats), newCmdRegistered(f),
		newCmdAdd(f, addJob), newCmdCancel(f), newCmdReschedule(f, rescheduleJob), newCmdRetry(f, retryJobs),
		newCmdRun(f),
		newCmdPause(f), newCmdResume(f), newCmdPrune(f, pruneHistory))
}

// keyVars adds the flags by which commands select checks.
func keyVars(fs *pflag.FlagSet, job, entity, key *string) {
	cli.WordVar(fs, job, "job", "only this `JOB`")
	cli.WordVar(fs, entity, "entity", "only entities of this `NAME`")
	cli.WordVar(fs, key, "key", "only entities of this `KEY`")
}

type listOptions struct {
	filter admin.Filter
	span   cli.Span
	after  position
	limit  cli.Count
}

func newCmdList(f *factory.Factory, runF factory.Run[*listOptions]) *cobra.Command {
	var o listOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List waiting checks in the order of their slots",
		Example: `  prescient jobs list --job order.unshipped
  prescient jobs list --entity orders --key 42
  prescient jobs list --until 2026-03-02 -o json | jq '.items[].entity_key'`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	keyVars(c.Flags(), &o.filter.JobExec, &o.filter.EntityName, &o.filter.EntityKey)
	o.span.Flags(c.Flags(), "first slot", "slot to stop before")
	afterVar(c.Flags(), &o.after)
	cli.CountVar(c.Flags(), &o.limit, "limit", 100, "maximum number of checks")
	return c
}

func listJobs(ctx context.Context, f *factory.Factory, o *listOptions) error {
	return perform.With(ctx, f, func(s *action.Store) (err error) {
		if o.filter.From, o.filter.To, err = o.span.At(s.Ledger.Now()); err != nil {
			return err
		}
		list, err := seq.Collect(readEach(ctx, f, o.limit, o.after,
			func(after admin.Position, limit int) ([]jobs.FutureJob, admin.Position, error) {
				o.filter.After, o.filter.Limit = after, limit
				return admin.New(s.Client).ListPage(ctx, s.DB, o.filter)
			}))
		if err != nil {
			return err
		}
		if len(list) == 0 {
			checks.Warn(ctx, f, s.DB, s.Client, o.filter.JobExec)
		}
		views, err := waitingJobs(ctx, s.DB, s.Client, list)
		if err != nil {
			return err
		}
		return f.Print(views, func() error { return waitingTable(f, views) })
	})
}

func waitingJobs(ctx context.Context, db *sqlx.DB, c *jobs.Client, list []jobs.FutureJob) ([]view.Check, error) {
	paused, err := admin.New(c).Paused(ctx, db)
	return seq.Map(list, func(j jobs.FutureJob) view.Check { return view.NewCheck(j, paused) }), err
}

func waitingTable(f *factory.Factory, list []view.Check) error {
	header := table.Row{
		"NEXT CHECK", "STATE", "JOB", output.Droppable("ENTITY"), "KEY", output.Droppable("ITEM"), output.Droppable("CHECKS"),
		output.Droppable("ERRORS"), "LAST ERROR",
	}
	return output.Rows(f.Printer, list, header, func(v view.Check) table.Row {
		return table.Row{
			v.NextCheckAt, string(v.State), v.JobExec, v.EntityName, v.EntityKey, v.ItemKey, v.CheckCount, v.ErrorCount,
			spoken.Error(v.LastError),
		}
	})
}
