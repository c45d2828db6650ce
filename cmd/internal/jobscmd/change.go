package jobscmd

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

type cancelOptions struct {
	key    jobs.Key
	many   action.CancelMany
	until  cli.Instant
	fields []string
	limit  cli.Count
	flags  perform.Flags
}

func newCmdCancel(f *factory.Factory) *cobra.Command {
	var o cancelOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "cancel [JOB [ENTITY KEY]]",
		Short: "End a waiting check as cancelled, or many of them",
		Long: `End the waiting check of JOB ENTITY KEY as cancelled. If no such check waits, there is nothing to
do: it prints 0 and exits 0, so that a repeated command succeeds.

Without ENTITY and KEY it ends all waiting checks of JOB, or of every job, that --entity, --key,
--group and --payload select. --job JOB is the same as JOB. It includes anonymous checks, but never
the checks of schedules, and those of a rule only if JOB is its name.
Without --yes it only prints their number, and the --until that leaves out checks that are enqueued
later. Checks that a transaction had enqueued by then, and commits later, are cancelled, too. It ends 1,000 checks in
each transaction. It skips and counts a check that another transaction has locked. It does not see a
check that a stores move is bringing to the store: repeat the command after the move.

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
			if len(args) == 1 {
				if o.many.JobExec != "" {
					return exit.Usagef("give JOB or --job, not both")
				}
				o.many.JobExec = args[0]
			}
			payload, err := admin.PayloadFields(o.fields...)
			if err != nil {
				return exit.Usagef("--payload: %w", err)
			}
			o.many.Payload = json.RawMessage(payload)
			return cancelMany(c.Context(), f, o)
		},
	})
	c.Flags().StringVar(&o.key.ItemKey, "item", "", "`KEY` of its item; needs JOB ENTITY KEY")
	cli.WordVar(c.Flags(), &o.many.JobExec, "job", "only this `JOB`")
	cli.WordVar(c.Flags(), &o.many.EntityName, "entity", "only entities of this `NAME`")
	cli.WordVar(c.Flags(), &o.many.EntityKey, "key", "only entities of this `KEY`, in which * stands for any text")
	cli.WordVar(c.Flags(), &o.many.GroupKey, "group", "only the group of this `KEY`")
	c.Flags().StringArrayVar(&o.fields, "payload", nil, "only payloads with this `FIELD=VALUE`; may be repeated")
	cli.SinceVar(c.Flags(), &o.until, "until", "only checks that were enqueued before")
	c.Flags().Var(&o.limit, "limit", "number of checks to cancel at most, those of the first slots; default: all")
	o.flags.Add(c, "cancel many checks")
	return c
}

func cancelJob(ctx context.Context, f *factory.Factory, o cancelOptions) error {
	m := o.many
	if m.JobExec+m.EntityName+m.EntityKey+m.GroupKey != "" || len(o.fields) > 0 || o.until.Given() || o.limit != 0 {
		return exit.Usagef("--job, --entity, --key, --group, --payload, --until and --limit are for many checks: " +
			"leave them out, or ENTITY and KEY")
	}
	return perform.Action(ctx, f, o.flags, func(*action.Store) (action.Action, error) {
		return action.Cancel{Key: o.key}, nil
	})
}

func cancelMany(ctx context.Context, f *factory.Factory, o cancelOptions) error {
	m := o.many
	switch {
	case o.key.ItemKey != "":
		return exit.Usagef("--item needs JOB ENTITY KEY")
	case m.JobExec+m.EntityName+m.EntityKey+m.GroupKey == "" && len(o.fields) == 0:
		return exit.Usagef("give JOB ENTITY KEY, or JOB, --entity, --key, --group or --payload")
	}
	err := perform.Action(ctx, f, o.flags, func(s *action.Store) (action.Action, error) {
		m.Until, m.Limit = o.until.From(s.Ledger.Now()), int64(o.limit)
		return m, nil
	})
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		err = &database.RoleError{Err: err, Role: pg.Runner} // cancelling one check needs fewer rights
	}
	return err
}

type rescheduleOptions struct {
	key      jobs.Key
	when     cli.When
	pushBack bool
	maxWait  time.Duration
	flags    perform.Flags
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
	o.flags.Add(c, "")
	return c
}

func rescheduleJob(ctx context.Context, f *factory.Factory, o *rescheduleOptions) error {
	if o.maxWait != 0 && !o.pushBack {
		return exit.Usagef("--max-wait needs --push-back")
	}
	return perform.Action(ctx, f, o.flags, func(s *action.Store) (action.Action, error) {
		return action.Reschedule{
			Key: o.key, At: o.when.From(s.Ledger.Now()), PushBack: o.pushBack, MaxWait: duration.Text(o.maxWait),
		}, nil
	})
}

type retryOptions struct {
	retry action.Retry
	since cli.Instant
	limit cli.Count
	when  cli.When
	item  string
	flags perform.Flags
}

func newCmdRetry(f *factory.Factory, runF factory.Run[*retryOptions]) *cobra.Command {
	var o retryOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "retry",
		Short: "Retry failed checks",
		Long: `Move failed checks back from history, with a clean error count, into the next slot or the
slot of --at or --in. If a key already waits, nothing changes for it: its failed check stays in
history. So does a check that was acknowledged with "alerts ack", unless --key names it. The checks
of job schedule also stay in history: they belong to schedules, see schedules resume and, for those
that publish events, schedules backfill.`,
		Example: `  prescient jobs retry --job order.unshipped --since 24h
  prescient jobs retry --entity orders --key 42
  prescient jobs retry --job order.late --entity orders --key 42 --item reminder
  prescient jobs retry --all --limit 100000 --in 1h`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("item") {
				o.retry.ItemKey = &o.item
			}
			return runF(c.Context(), f, &o)
		},
	})
	fs := c.Flags()
	keyVars(fs, &o.retry.JobExec, &o.retry.EntityName, &o.retry.EntityKey)
	cli.SinceVar(fs, &o.since, "since", "only what failed since")
	fs.StringVar(&o.item, "item", "", "only this item `KEY`; empty: only checks without an item")
	fs.Bool("all", false, "all failed checks without an acknowledgement")
	cli.CountVar(fs, &o.limit, "limit", action.DefaultRetry, "maximum number of checks")
	o.when.Flags(c)
	o.flags.Add(c, "")
	c.MarkFlagsOneRequired("job", "entity", "key", "since", "all")
	return c
}

func retryJobs(ctx context.Context, f *factory.Factory, o *retryOptions) error {
	return perform.Action(ctx, f, o.flags, func(s *action.Store) (action.Action, error) {
		now := s.Ledger.Now()
		o.retry.Since, o.retry.At, o.retry.Limit = o.since.From(now), o.when.From(now), int(o.limit)
		return o.retry, nil
	})
}
