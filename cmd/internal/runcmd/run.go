// Package runcmd has the commands that run slots: run, catch-up and daemon.
package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/locked"
	"github.com/prescient-go/prescient/internal/retention"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

type runOptions struct {
	slot    cli.Instant
	catchUp bool
}

// NewCmdRun returns the command run.
func NewCmdRun(f *factory.Factory) *cobra.Command {
	var o runOptions
	c := factory.OnStores(factory.QuietInPipes(f.WithOutput(&cobra.Command{
		Use:   "run",
		Short: "Run the checks of one slot",
		Long: `Run the checks of one slot: the current one by default. --slot or the name of a Kubernetes Job selects
another. A run that starts up to run.start_tolerance before a boundary waits for the boundary.

Any number of runs may share a slot. Each claims rows of a job, up to run.page, then more, so an idle run claims
more rows. A claim belongs to its run until run.lease passes without a heartbeat. A run that finds nothing to do
exits 0.

The rows of a paused job wait until "jobs resume". A run does not check the rows of a job that its binary has not
registered: their slot stays open, for a binary that has the job. The exit code is 6 if no run of the last 7 days had
the job, or if a query of sql_jobs cannot run. All other rows are checked. The log names such jobs in an
error when their rows first keep a slot open. Later it names them once a day, in the first slot (UTC), so that cron
does not mail them in every slot. "status" and "doctor" always name them.

A row that another session has locked delays only the end of its slot. The run leaves it shortly before the next slot
begins, or after some seconds with --catch-up. It then exits 6, and names the session and how to end it. catch-up takes
the row.

SIGTERM, SIGINT and SIGHUP stop it gracefully: running checks get run.grace, and the rest of the slot is left to another
run, or to catch-up. It then exits 4.

With --catch-up it then does what "catch-up" does. So missed slots and stragglers wait for one more slot at most, and
need no operator. About once a day it also does what "jobs prune" and "events prune" do, if history.retention is
set: for 10 seconds at most, and the next run goes on. The outbox keeps what a consumer has not read.

It sends the events of the outbox to the destinations of the settings, and ends when they have them. A destination that
does not take them is a warning and a finding of "status", and the next run sends them.

If alerts.receiver is set, it then looks for findings of "status", and tells the receiver of each that is new, that has
stayed for alerts.repeat, or that is over. Any number of runs and daemons tell once. Failures that were told are no
warnings of the log.

It writes nothing to stdout without --output json. A line of the log sums up the run, if the log goes to a terminal or
--log-level is given. The log has a warning for each job with failed checks, with the first error. It has an error if
rows were given up.`,
		Example: `  # crontab: every slot of the default width
  */15 * * * * prescient run --catch-up

  prescient run --slot 2026-03-01T13:15:00Z
  prescient run --output json | jq .checked`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return pinged(c.Context(), f, func() error { return database.Each(c.Context(), f, o.run) })
		},
	})))
	c.Flags().Var(&o.slot, "slot", "the `SLOT` to run; default: the current slot")
	c.Flags().BoolVar(&o.catchUp, "catch-up", false, "then repair slots that were missed, left open, or have stragglers")
	config.RunFlags(c.Flags())
	return c
}

func (o runOptions) run(ctx context.Context, f *factory.Factory) error {
	return forwarding(ctx, f, slots.KindRun, func(b *checks.Bound) error {
		bars := newBars(f)
		b.QuietTold(ctx, f)
		cfg := b.Runner(f, showing(bars))
		cfg.LeaveLocked = o.catchUp
		runner, err := slots.NewRunner(ctx, cfg)
		if err != nil {
			return err
		}
		slot := o.slot.At
		if !o.slot.Given() {
			slot = runner.Due(f.Config().Run.JobName)
		} else if !runner.Grid().Contains(slot) {
			return cli.NotSlot(runner.Grid(), slot)
		}
		result, err := runner.Run(ctx, slot)
		bars.Close()
		if result.State != "" { // opened
			f.Log().LogAttrs(ctx, slog.LevelInfo, "slot run", slog.Any("", result))
		}
		locked, err := leftLocked(err)
		view := runView{resultView: newResultView(result)}
		var left unregistered
		left.add(result)
		if o.catchUp && ctx.Err() == nil {
			store, failed := perform.On(ctx, f, b.DB, b.Setting)
			if failed != nil {
				return errors.Join(err, failed)
			}
			c := catchUp{f: f, b: b, store: store, runner: runner, a: action.CatchUp{Mode: slots.ModeRun}, left: &left}
			caught, still, failed := c.run(ctx)
			view.CatchUp, locked, err = &caught, still, errors.Join(err, failed)
			prune(ctx, f, b)
		}
		if result.State == "" && view.CatchUp == nil {
			return err
		}
		found := cannotRun(ctx, f, b, runner.Now(), left, newsOfRun(ctx, b.DB, f.Schema(), slot, view))
		return cmp.Or(errors.Join(err, f.Print(view, func() error { return nil })), locked, found)
	})
}

// leftLocked divides the error of a run or a catch-up. If it has done all but rows that other sessions have locked, its
// code is Left.
func leftLocked(err error) (left, failed error) {
	if locked.Only(err) {
		return &exit.Error{Code: exit.Left, Err: err}, nil
	}
	return nil, err
}

// pruneTime bounds how long a run or a catch-up drops what is older than history.retention. The next run goes on.
const pruneTime = 10 * time.Second

// prune drops what is older than history.retention, about once a day, for run with --catch-up and for catch-up. It only
// warns, because all checks were run.
func prune(ctx context.Context, f *factory.Factory, b *checks.Bound) {
	c := retention.Config{DB: b.DB, Schema: pgsql.Schema(f.Config().Database.Schema), Keep: f.Config().History.Retention}
	if c.Keep == 0 || ctx.Err() != nil {
		return
	}
	due, err := retention.Due(ctx, c)
	var done retention.Pruned
	if due {
		done, err = retention.Prune(ctx, c, pruneTime)
	}
	switch {
	case errors.Is(err, admin.ErrHistoryInUse):
		f.Log().InfoContext(ctx, "history was not pruned; the next run tries again", "error", err)
	case err != nil && ctx.Err() == nil:
		f.Log().WarnContext(ctx, "history was not pruned; the next run tries again", "error", err)
	case done != retention.Pruned{}:
		f.Log().InfoContext(ctx, "history pruned", "partitions", done.Partitions, "slots", done.Slots, "events", done.Events)
	}
}

// runView is the JSON of run.
type runView struct {
	resultView
	CatchUp *caughtView `json:"catch_up"` // null: without --catch-up
}

// stoppedBy returns the error of a command that ended because ctx did, also while it connected or
// waited for its boundary.
func stoppedBy(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, slots.ErrStopped) && !errors.Is(err, slots.ErrAbandoned) {
		return fmt.Errorf("%w: %w", slots.ErrStopped, err)
	}
	return err
}

// resultView is a slots.Result as JSON.
type resultView struct {
	slots.Result
	Took duration.Text `json:"took"` // how long this runner worked on the slot
}

func newResultView(r slots.Result) resultView {
	r.Slot = r.Slot.UTC()
	r.Unknown, r.Failures = append([]string{}, r.Unknown...), append([]slots.Failure{}, r.Failures...)
	return resultView{r, duration.Text(r.Took)}
}
