package jobscmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
)

type addOptions struct {
	key        jobs.Key
	when       cli.When
	within     time.Duration
	payload    string
	group      string
	anonymous  bool
	onConflict string
	maxWait    time.Duration
	unless     time.Duration
}

func newCmdAdd(f *factory.Factory, runF factory.Run[*addOptions]) *cobra.Command {
	var o addOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "add JOB ENTITY KEY",
		Short: "Ask for a check",
		Long: `Enqueue a check of an entity, at the first slot at or after an instant. With --within, any
slot from that one on and before the end of the window will do, and the key chooses it. If the key
already waits, nothing changes, unless --on-conflict is given:

  keep       leave the waiting check
  replace    end it as "replaced" and put this one in its place
  push-back  move it to this slot when that is later, but at most --max-wait later than its first slot
  error      fail

A check whose slot has begun is not moved. With error, the command fails. Otherwise it records the request on the
check, and the runner honours the request when it records the outcome. With keep, the runner drops the request if the
check does not end.

With --unless-ended-within, nothing is added if the key does not wait, and its last check that ended as done did so in
that time. The action is then "recent", with the slot and the id of that check.`,
		Example: `  prescient jobs add order.unshipped orders 42 --in 48h
  prescient jobs add order.unshipped orders 42 --at 2026-03-01T13:05:00Z \
    --payload '{"priority": 1}'
  prescient jobs add report.daily customer 7 --at 2026-03-02 --within 8h
  prescient jobs add chat.idle chat 7 --in 1h --on-conflict push-back \
    --max-wait 24h
  prescient jobs add survey.send customer 7 --in 15m --unless-ended-within 720h`,
		Args: cli.Exactly("JOB", "ENTITY", "KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			o.key.JobExec, o.key.EntityName, o.key.EntityKey = args[0], args[1], args[2]
			return runF(c.Context(), f, &o)
		},
	})
	fs := c.Flags()
	o.when.Flags(c)
	c.MarkFlagsOneRequired("at", "in")
	duration.Var(fs, &o.within, "within", 0,
		"how long after the instant any slot will do; 0: the first slot at or after it")
	fs.StringVar(&o.payload, "payload", "", "a `JSON` value for the check; - reads it from stdin")
	fs.StringVar(&o.key.ItemKey, "item", "", "`KEY` that distinguishes two checks of one job on one entity")
	fs.StringVar(&o.group, "group", "", "`KEY` of the group; default: each entity is a group")
	fs.BoolVar(&o.anonymous, "anonymous", false, "without a key: it cannot be found, cancelled or moved by key")
	o.onConflict = "keep"
	fs.Var(cli.Choice(&o.onConflict, "keep", "replace", "push-back", "error"), "on-conflict",
		"for a key that waits already: keep, replace, push-back or error")
	duration.Var(fs, &o.maxWait, "max-wait", 0, "how long after its first slot push-back may move a check; 0: no limit")
	duration.Var(fs, &o.unless, "unless-ended-within", 0,
		"add nothing if the key does not wait and ended as done in that time; 0: no condition")
	return c
}

func addJob(ctx context.Context, f *factory.Factory, o *addOptions) error {
	job := jobs.Request{
		JobExec: o.key.JobExec, EntityName: o.key.EntityName, EntityKey: o.key.EntityKey, ItemKey: o.key.ItemKey,
		Anonymous: o.anonymous, GroupKey: o.group, Within: o.within, UnlessEndedWithin: o.unless,
	}
	if o.maxWait != 0 && o.onConflict != "push-back" {
		return exit.Usagef("--max-wait works only with --on-conflict push-back")
	}
	if job.JobExec == schedule.JobExec {
		return fmt.Errorf("nothing was added: the checks of job %q belong to schedules; use: %s schedules create ID "+
			"--crontab EXPR, or to publish an event now: %[2]s schedules trigger ID", schedule.JobExec, f.Self())
	}
	payload, err := cli.Payload(f.In, o.payload)
	if err != nil {
		return err
	}
	job.Payload = payload
	return perform.With(ctx, f, func(s *action.Store) error {
		job.CheckAt = o.when.From(s.Ledger.Now())
		var added jobs.EnqueueResult
		err := database.Change(ctx, s.DB, func(tx *sqlx.Tx) (err error) {
			added, err = s.Client.Enqueue(ctx, tx, job, conflict(o))
			return err
		})
		if err != nil {
			return err
		}
		if err := warnUnknown(ctx, f, s.DB, s.Client, job.JobExec); err != nil {
			return err
		}
		view := addedView{added.ID, added.Slot, added.Action}
		return f.Print(view, func() error {
			return f.Table(table.Row{"SLOT", "ACTION", "ID"}, table.Row{view.Slot, string(view.Action), view.ID})
		})
	})
}

// addedView is jobs.EnqueueResult as JSON.
type addedView struct {
	ID   int64     `json:"id"`   // of the row
	Slot time.Time `json:"slot"` // of the check; UTC
	// Action is inserted, kept, replaced, pushed_back, recorded or, with the id and the slot of the row that ended as
	// done, recent.
	Action jobs.EnqueueAction `json:"action"`
}

// warnUnknown warns of a job that neither this binary nor a run knows, because its name may be
// wrong.
func warnUnknown(ctx context.Context, f *factory.Factory, db *sqlx.DB, c *jobs.Client, job string) error {
	if checks.Has(f, job) {
		return nil
	}
	at, err := admin.New(c).ServedAt(ctx, db, job)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return nil // an app's role may not read this
	}
	if err != nil || !at.IsZero() {
		return err
	}
	names, err := admin.New(c).JobNames(ctx, db, action.MostNames)
	if err != nil {
		return err
	}
	attrs := []any{"job", job}
	if meant := strings.TrimPrefix(checks.Meant(f, job, names), ": "); meant != "" {
		attrs = append(attrs, "hint", meant)
	}
	f.Log().WarnContext(ctx,
		"no run has ever registered this job: the check waits until one does. If the name is wrong, cancel it", attrs...)
	return nil
}

func conflict(o *addOptions) jobs.OnConflict {
	switch o.onConflict {
	case "replace":
		return jobs.Replace
	case "push-back":
		return jobs.PushBack(o.maxWait)
	case "error":
		return jobs.Reject
	}
	return jobs.Keep
}
