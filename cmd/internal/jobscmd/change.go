package jobscmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

type cancelOptions struct {
	key    jobs.Key
	filter admin.CancelFilter
	until  cli.Instant
	fields []string
	limit  cli.Count
	yes    bool
}

func newCmdCancel(f *factory.Factory) *cobra.Command {
	var o cancelOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "cancel [JOB [ENTITY KEY]]",
		Short: "End a waiting check as cancelled, or many of them",
		Long: `End the waiting check of JOB ENTITY KEY as cancelled. If no such check waits, there is nothing to
do: it prints 0 and exits 0, so that a repeated command succeeds.

Without ENTITY and KEY it ends all waiting checks of JOB, or of every job, that --entity, --key,
--group and --payload select. It includes anonymous checks, but never the checks of schedules.
Without --yes it only prints their number, and the --until that leaves out checks that are enqueued
later. Checks that a transaction had enqueued by then, and commits later, are cancelled, too. It ends 1,000 checks in
each transaction. It skips and counts a check that another transaction has locked.

--payload merchant=42 selects the checks whose payload is an object with the field merchant of the
value 42. The value is JSON: true, null, or a text in quotation marks. Anything that is not JSON is
a text: country=DE. A JSON object does the same: --payload '{"merchant": 42}'. A check must have
every field that is given. No index helps to find a payload, so the command reads all rows of the
job. The checks of a rule do not have its payload: select them by --key.`,
		Example: `  prescient jobs cancel order.unshipped orders 42
  prescient jobs cancel oder.unshiped        # counts them, of a misspelt job
  prescient jobs cancel oder.unshiped --yes  # cancels them
  prescient jobs cancel --entity orders --key '42-*' --yes
  prescient jobs cancel order.unshipped --group merchant-7 --yes
  prescient jobs cancel order.unshipped --payload merchant=42 --limit 1000 --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0, 1:
				return nil
			case 2:
				return errors.New("missing argument: want JOB ENTITY KEY, or JOB and --entity")
			}
			return cli.Exactly("JOB", "ENTITY", "KEY")(nil, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 3 {
				o.key.JobExec, o.key.EntityName, o.key.EntityKey = args[0], args[1], args[2]
				return cancelJob(c.Context(), f, o)
			}
			o.filter.JobExec = strings.Join(args, "")
			var err error
			if o.filter.Payload, err = admin.PayloadFields(o.fields...); err != nil {
				return exit.Usagef("--payload: %w", err)
			}
			return cancelMany(c.Context(), f, o)
		},
	})
	c.Flags().StringVar(&o.key.ItemKey, "item", "", "`KEY` of its item; needs JOB ENTITY KEY")
	cli.WordVar(c.Flags(), &o.filter.EntityName, "entity", "only entities of this `NAME`")
	cli.WordVar(c.Flags(), &o.filter.EntityKey, "key", "only entities of this `KEY`, in which * stands for any text")
	cli.WordVar(c.Flags(), &o.filter.GroupKey, "group", "only the group of this `KEY`")
	c.Flags().StringArrayVar(&o.fields, "payload", nil, "only payloads with this `FIELD=VALUE`; may be repeated")
	cli.SinceVar(c.Flags(), &o.until, "until", "only checks that were enqueued before")
	c.Flags().Var(&o.limit, "limit", "number of checks to cancel at most, those of the first slots; default: all")
	c.Flags().BoolVar(&o.yes, "yes", false, "cancel many checks")
	return c
}

func cancelJob(ctx context.Context, f *factory.Factory, o cancelOptions) error {
	if !o.filter.IsZero() || len(o.fields) > 0 || o.until.Given() || o.limit != 0 {
		return exit.Usagef("--entity, --key, --group, --payload, --until and --limit are for many checks: " +
			"leave them out, or ENTITY and KEY")
	}
	if o.key.JobExec == schedule.JobExec {
		return errors.New(view.OfSchedule(f.Self(), o.key.EntityKey))
	}
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, _ time.Time) error {
		var view admin.Cancelled
		err := database.Change(ctx, db, func(tx *sqlx.Tx) error {
			found, err := c.Cancel(ctx, tx, o.key)
			if found {
				view.Cancelled = 1
			}
			return err
		})
		if err == nil && view.Cancelled == 0 {
			err = checks.Require(ctx, f, db, c, o.key.JobExec)
		}
		if err != nil {
			return err
		}
		return printCancelled(ctx, f, db, o.key.JobExec, view)
	})
}

// ofRule reports whether a job is that of a rule. It is false if the login may not read the rules:
// it may not cancel their checks either.
func ofRule(ctx context.Context, f *factory.Factory, db *sqlx.DB, job string) bool {
	store, err := rulestore.New(ctx, db, rulestore.Config{Schema: f.Config().Database.Schema})
	if err == nil {
		_, err = store.Get(ctx, job)
	}
	return err == nil
}

func printCancelled(ctx context.Context, f *factory.Factory, db *sqlx.DB, job string, view admin.Cancelled) error {
	rows := []table.Row{{"cancelled", view.Cancelled}}
	if view.Left > 0 {
		rows = append(rows, table.Row{"left, because another transaction has locked them", view.Left})
	}
	return f.Print(view, func() error {
		err := f.Table(nil, rows...)
		if view.Cancelled > 0 && ofRule(ctx, f, db, job) {
			err = errors.Join(err, f.Lines(fmt.Sprintf("%s is a rule: "+
				"its cancelled rows wait again after: %s rules apply --again -f FILE", job, f.Self())))
		}
		return err
	})
}

func cancelMany(ctx context.Context, f *factory.Factory, o cancelOptions) error {
	switch {
	case o.key.ItemKey != "":
		return exit.Usagef("--item needs JOB ENTITY KEY")
	case o.filter.IsZero():
		return exit.Usagef("give JOB ENTITY KEY, or JOB, --entity, --key, --group or --payload")
	case o.filter.JobExec == schedule.JobExec || o.filter.JobExec == "" && o.filter.EntityName == schedule.EntityName:
		return errors.New(view.OfSchedule(f.Self(), o.filter.EntityKey))
	}
	err := database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		o.filter.Until = o.until.From(now)
		var view admin.Cancelled
		var err error
		if o.yes {
			view, err = admin.New(c).CancelAll(ctx, db, o.filter,
				admin.CancelOptions{Limit: int64(o.limit), Actor: database.Actor()})
		} else {
			err = countFound(ctx, db, admin.New(c), o)
		}
		if err == nil && view == (admin.Cancelled{}) {
			err = checks.Require(ctx, f, db, c, o.filter.JobExec)
		}
		if err != nil && view.Cancelled == 0 {
			return err
		}
		return errors.Join(err, printCancelled(ctx, f, db, o.filter.JobExec, view))
	})
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		err = &database.RoleError{Err: err, Role: pg.Runner} // cancelling one check needs fewer rights
	}
	return err
}

// countFound returns an error of usage with the number of checks that --yes would cancel. It returns
// nil if there are none.
func countFound(ctx context.Context, db *sqlx.DB, c *admin.Client, o cancelOptions) error {
	found, err := c.CountCancel(ctx, db, o.filter)
	if err != nil || found.Checks == 0 {
		return err
	}
	what := spoken.Count(found.Checks, "waiting check", "waiting checks")
	if limit := int64(o.limit); limit > 0 && found.Checks > limit {
		what = fmt.Sprintf("%d of %s", limit, what)
	}
	return exit.Usagef("this cancels %s. To cancel exactly %[3]s: --until %[2]s --yes",
		what, found.Until.Format(time.RFC3339Nano), spoken.Noun(found.Checks, "it", "them"))
}

type rescheduleOptions struct {
	key      jobs.Key
	when     cli.When
	pushBack bool
	maxWait  time.Duration
}

func newCmdReschedule(f *factory.Factory, runF factory.Run[*rescheduleOptions]) *cobra.Command {
	var o rescheduleOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "reschedule JOB ENTITY KEY",
		Short: "Move a waiting check to another slot",
		Example: `  prescient jobs reschedule order.unshipped orders 42 --at 2026-03-02
  prescient jobs reschedule chat.idle chat 7 --in 1h --push-back --max-wait 24h`,
		Args: cli.Exactly("JOB", "ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			o.key.JobExec, o.key.EntityName, o.key.EntityKey = args[0], args[1], args[2]
			return runF(c.Context(), f, &o)
		},
	})
	o.when.Flags(c)
	c.MarkFlagsOneRequired("at", "in")
	c.Flags().StringVar(&o.key.ItemKey, "item", "", "`KEY` of its item")
	c.Flags().BoolVar(&o.pushBack, "push-back", false, "only ever later")
	duration.Var(c.Flags(), &o.maxWait, "max-wait", 0,
		"how long after its first slot --push-back may move a check; 0: no limit")
	return c
}

func rescheduleJob(ctx context.Context, f *factory.Factory, o *rescheduleOptions) error {
	if o.maxWait != 0 && !o.pushBack {
		return exit.Usagef("--max-wait needs --push-back")
	}
	if o.key.JobExec == schedule.JobExec {
		return errors.New(view.OfSchedule(f.Self(), o.key.EntityKey))
	}
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		var slot time.Time
		var found bool
		err := database.Change(ctx, db, func(tx *sqlx.Tx) (err error) {
			if o.pushBack {
				slot, found, err = c.PushBack(ctx, tx, o.key, o.when.From(now), o.maxWait)
			} else {
				slot, found, err = c.Reschedule(ctx, tx, o.key, o.when.From(now))
			}
			return err
		})
		if err == nil && !found {
			err = checks.Require(ctx, f, db, c, o.key.JobExec)
		}
		if err != nil {
			return err
		}
		if !found {
			return exit.Usagef("no check %s waits: it has ended or was never requested; see its history with: %s why %s %s",
				o.key, f.Self(), spoken.Word(o.key.EntityName), spoken.Word(o.key.EntityKey))
		}
		view := struct {
			Slot time.Time `json:"slot"`
		}{slot}
		return f.Pairs(view, table.Row{"slot", view.Slot})
	})
}

type retryOptions struct {
	filter admin.RetryFilter
	since  cli.Instant
	limit  cli.Count
	when   cli.When
	item   string
}

func newCmdRetry(f *factory.Factory, runF factory.Run[*retryOptions]) *cobra.Command {
	var o retryOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "retry",
		Short: "Retry failed checks",
		Long: `Move failed checks back from history, with a clean error count, into the next slot or the
slot of --at or --in. A key that waits already stays unchanged, and its failed check stays in
history. The checks of job schedule also stay in history: they belong to schedules, see schedules
resume and schedules backfill.`,
		Example: `  prescient jobs retry --job order.unshipped --since 24h
  prescient jobs retry --entity orders --key 42
  prescient jobs retry --job order.late --entity orders --key 42 --item reminder
  prescient jobs retry --all --limit 100000 --in 1h`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("item") {
				o.filter.ItemKey = &o.item
			}
			return runF(c.Context(), f, &o)
		},
	})
	fs := c.Flags()
	keyVars(fs, &o.filter.JobExec, &o.filter.EntityName, &o.filter.EntityKey)
	cli.SinceVar(fs, &o.since, "since", "only what failed since")
	fs.StringVar(&o.item, "item", "", "only this item `KEY`; empty: only checks without an item")
	fs.BoolVar(&o.filter.All, "all", false, "all failed checks")
	cli.CountVar(fs, &o.limit, "limit", 1000, "maximum number of checks")
	o.when.Flags(c)
	c.MarkFlagsOneRequired("job", "entity", "key", "since", "all")
	return c
}

func retryJobs(ctx context.Context, f *factory.Factory, o *retryOptions) error {
	if o.filter.JobExec == schedule.JobExec {
		return errors.New(view.OfFailedSchedule(f.Self(), o.filter.EntityKey))
	}
	return database.WithClient(ctx, f, func(db *sqlx.DB, c *jobs.Client, now time.Time) error {
		o.filter.Since, o.filter.Limit = o.since.From(now), int(o.limit)
		var retried, waiting int64
		err := database.Change(ctx, db, func(tx *sqlx.Tx) (err error) {
			retried, waiting, err = admin.New(c).Retry(ctx, tx, o.filter, o.when.From(now))
			return err
		})
		if err == nil && retried+waiting == 0 && o.filter.JobExec == "" && o.filter.EntityName == schedule.EntityName {
			err = errors.New(view.OfFailedSchedule(f.Self(), o.filter.EntityKey))
		}
		if err == nil && retried+waiting == 0 {
			err = checks.Require(ctx, f, db, c, o.filter.JobExec)
		}
		if err != nil {
			return err
		}
		view := struct {
			Retried int64 `json:"retried"`
			Waiting int64 `json:"waiting"`
		}{retried, waiting}
		return f.Pairs(view, table.Row{"retried", retried}, table.Row{"left, since the key waits already", waiting})
	})
}
