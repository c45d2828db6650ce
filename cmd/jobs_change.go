package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

type jobsCancelOptions struct {
	key jobs.Key
}

func newJobsCancel(a *App) *cobra.Command {
	var o jobsCancelOptions
	c := a.withOutput(&cobra.Command{
		Use:   "cancel ENTITY KEY",
		Short: "End the waiting checks of an entity, or one of them, as cancelled",
		Example: `  prescient jobs cancel order 42
  prescient jobs cancel order 42 --job order.unshipped`,
		Args: exactly("ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			o.key.EntityName, o.key.EntityKey = args[0], args[1]
			return cancelJobs(c.Context(), a, o)
		},
	})
	c.Flags().StringVar(&o.key.JobExec, "job", "", "only the check of this `JOB`")
	c.Flags().StringVar(&o.key.ItemKey, "item", "", "`KEY` of its item; needs --job")
	return c
}

// errOfSchedule refuses to change the check of a schedule, which would end or move the schedule unseen.
func (a *App) errOfSchedule(key jobs.Key) error {
	return fmt.Errorf("nothing was changed: the checks of job %q belong to schedules; use: %s schedules pause %s, or: %[2]s schedules delete %[3]s",
		schedule.JobExec, a.self(), spoken.Word(key.EntityKey))
}

// errOfFailedSchedule refuses to put failed checks of schedules back. They could publish an event a second time.
func (a *App) errOfFailedSchedule(id string) error {
	word := "ID"
	if id != "" {
		word = spoken.Word(id)
	}
	return fmt.Errorf("nothing was put back: the checks of job %q belong to schedules; give a schedule a new check with: %s schedules resume %s, "+
		"and publish what it has missed with: %[2]s schedules backfill %[3]s", schedule.JobExec, a.self(), word)
}

func cancelJobs(ctx context.Context, a *App, o jobsCancelOptions) error {
	if o.key.ItemKey != "" && o.key.JobExec == "" {
		return usagef("--item needs --job")
	}
	if o.key.JobExec == schedule.JobExec {
		return a.errOfSchedule(o.key)
	}
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
		var view struct {
			Cancelled int64 `json:"cancelled"`
		}
		err := change(ctx, db, func(tx *sqlx.Tx) (err error) {
			if o.key.JobExec == "" {
				view.Cancelled, err = c.CancelEntity(ctx, tx, o.key.EntityName, o.key.EntityKey)
				return err
			}
			found, err := c.Cancel(ctx, tx, o.key)
			if found {
				view.Cancelled = 1
			}
			return err
		})
		if err == nil && view.Cancelled == 0 && o.key.JobExec == "" && o.key.EntityName == schedule.EntityName {
			return a.errOfSchedule(o.key)
		}
		if err == nil && view.Cancelled == 0 {
			err = a.known(ctx, db, c, o.key.JobExec)
		}
		if err != nil {
			return err
		}
		return a.print(view, func() error { return a.table(nil, table.Row{"cancelled", view.Cancelled}) })
	})
}

type jobsRescheduleOptions struct {
	key      jobs.Key
	when     when
	pushBack bool
	cap      time.Duration
}

func newJobsReschedule(a *App) *cobra.Command {
	var o jobsRescheduleOptions
	c := a.withOutput(&cobra.Command{
		Use:   "reschedule JOB ENTITY KEY",
		Short: "Move a waiting check to another slot",
		Example: `  prescient jobs reschedule order.unshipped order 42 --at 2026-03-02
  prescient jobs reschedule chat.idle chat 7 --in 1h --push-back --cap 24h`,
		Args: exactly("JOB", "ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			o.key.JobExec, o.key.EntityName, o.key.EntityKey = args[0], args[1], args[2]
			return rescheduleJob(c.Context(), a, &o)
		},
	})
	o.when.flags(c)
	c.MarkFlagsOneRequired("at", "in")
	c.Flags().StringVar(&o.key.ItemKey, "item", "", "`KEY` of its item")
	c.Flags().BoolVar(&o.pushBack, "push-back", false, "only ever later")
	duration.Var(c.Flags(), &o.cap, "cap", 0, "how far from the first check --push-back may go; 0: no limit")
	return c
}

func rescheduleJob(ctx context.Context, a *App, o *jobsRescheduleOptions) error {
	if o.cap != 0 && !o.pushBack {
		return usagef("--cap needs --push-back")
	}
	if o.key.JobExec == schedule.JobExec {
		return a.errOfSchedule(o.key)
	}
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		var slot time.Time
		var found bool
		err := change(ctx, db, func(tx *sqlx.Tx) (err error) {
			if o.pushBack {
				slot, found, err = c.PushBack(ctx, tx, o.key, o.when.from(now), o.cap)
			} else {
				slot, found, err = c.Reschedule(ctx, tx, o.key, o.when.from(now))
			}
			return err
		})
		if err == nil && !found {
			err = a.known(ctx, db, c, o.key.JobExec)
		}
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("no check %s waits: it has ended or was never asked for; see what became of it with: %s why %s %s",
				o.key, a.self(), spoken.Word(o.key.EntityName), spoken.Word(o.key.EntityKey))
		}
		view := struct {
			Slot time.Time `json:"slot"`
		}{slot}
		return a.print(view, func() error { return a.table(nil, table.Row{"slot", view.Slot}) })
	})
}

type jobsRetryOptions struct {
	filter admin.RetryFilter
	since  instant
	limit  count
	when   when
	all    bool
}

func newJobsRetry(a *App) *cobra.Command {
	var o jobsRetryOptions
	c := a.withOutput(&cobra.Command{
		Use:   "retry",
		Short: "Put failed checks back",
		Long: `Put failed checks back from history, with a clean error count, into the next slot or the one that --at or --in
names. A key that waits already stays as it is, and its failed check stays in history. So do the checks of job schedule:
they belong to schedules, see schedules resume and schedules backfill.`,
		Example: `  prescient jobs retry --job order.unshipped --since 24h
  prescient jobs retry --entity order --key 42
  prescient jobs retry --all --limit 100000 --in 1h`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return retryJobs(c.Context(), a, &o) },
	})
	fs := c.Flags()
	fs.StringVar(&o.filter.JobExec, "job", "", "only this `JOB`")
	fs.StringVar(&o.filter.EntityName, "entity", "", "only entities of this `NAME`")
	fs.StringVar(&o.filter.EntityKey, "key", "", "only entities of this `KEY`")
	sinceVar(fs, &o.since, "since", "only what failed since")
	fs.BoolVar(&o.all, "all", false, "whatever failed")
	countVar(fs, &o.limit, "limit", 1000, "number of checks at the most")
	o.when.flags(c)
	c.MarkFlagsOneRequired("job", "entity", "key", "since", "all")
	return c
}

func retryJobs(ctx context.Context, a *App, o *jobsRetryOptions) error {
	if o.filter.JobExec == schedule.JobExec {
		return a.errOfFailedSchedule(o.filter.EntityKey)
	}
	return a.withClient(ctx, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		o.filter.Since, o.filter.Limit = o.since.from(now), int(o.limit)
		var retried, waiting int64
		err := change(ctx, db, func(tx *sqlx.Tx) (err error) {
			retried, waiting, err = admin.New(c).Retry(ctx, tx, o.filter, o.when.from(now))
			return err
		})
		if err == nil && retried+waiting == 0 && o.filter.JobExec == "" && o.filter.EntityName == schedule.EntityName {
			err = a.errOfFailedSchedule(o.filter.EntityKey)
		}
		if err == nil && retried+waiting == 0 {
			err = a.known(ctx, db, c, o.filter.JobExec)
		}
		if err != nil {
			return err
		}
		view := struct {
			Retried int64 `json:"retried"`
			Waiting int64 `json:"waiting"`
		}{retried, waiting}
		return a.print(view, func() error {
			return a.table(nil, table.Row{"retried", retried}, table.Row{"left, since the key waits already", waiting})
		})
	})
}
