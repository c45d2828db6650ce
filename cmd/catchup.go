package cmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/layout"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

type catchUpOptions struct {
	mode         slots.Mode
	since, until cli.Instant
	job          string
	limit        cli.Count
	spread       cli.Count
	dryRun       bool
}

func newCatchUp(a *App) *cobra.Command {
	o := catchUpOptions{mode: slots.ModeRun}
	c := overAll(a.verboseFlag(a.withOutput(&cobra.Command{
		Use:   "catch-up",
		Short: "Repair slots that were missed, left open, or have stragglers",
		Long: `Repair slots that were missed, left open by a runner that died, or have stragglers: rows committed after
their slot was closed. It takes one slot at a time, the oldest first. Concurrent catch-ups share the slot. It leaves a
slot that is being run to its runners. It leaves a slot with rows of a job that this binary has not registered open, for
a binary that has the job.

  --mode run     check each row now, or defer or skip it, as the misfire policy of its job says
  --mode defer   move every row to the next slot, unchecked; --spread over several slots
  --mode expire  archive the rows past the deadline of their job, and leave the other rows

With --job, the call for a group gets only the rows of that job. With --limit, the groups of the last rows are checked
whole, so more rows than the limit may be checked.

The rows of a paused job wait until "jobs resume". If no slot needs repair, it prints nothing and exits 0. It exits 3 if
a job cannot run, as "run" does.`,
		Example: `  prescient catch-up --dry-run
  prescient catch-up
  prescient catch-up --mode defer --spread 4
  prescient catch-up --since 6h --job order.unshipped --limit 10000`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.pinged(c.Context(), func() error {
				return a.over(c.Context(), func(ctx context.Context, a *App) error { return catchUp(ctx, a, &o) })
			})
		},
	})))
	fs := c.Flags()
	fs.Var(cli.Choice(&o.mode, slots.ModeRun, slots.ModeDefer, slots.ModeExpire), "mode", "what to do with the rows: run, defer or expire")
	cli.SinceVar(fs, &o.since, "since", "first slot to repair")
	cli.SinceVar(fs, &o.until, "until", "slot to stop before")
	fs.StringVar(&o.job, "job", "", "take only the rows of this `JOB`")
	fs.Var(&o.limit, "limit", "number of rows to take at most, besides the other rows of their groups; default: no limit")
	cli.CountVar(fs, &o.spread, "spread", 1, "number of slots over which --mode defer spreads the rows")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only list the slots")
	config.RunFlags(fs)
	eventFlags(c)
	return c
}

// addRunFlags adds the run flags that a command uses.
func addRunFlags(fs *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.RunFlags(all)
	for _, name := range names {
		fs.AddFlag(all.Lookup(name))
	}
}

func catchUp(ctx context.Context, a *App, o *catchUpOptions) error {
	if o.spread > 1 && o.mode != slots.ModeDefer {
		return usagef("--spread works only with --mode %s", slots.ModeDefer)
	}
	work := func(db *sqlx.DB, registry *jobs.Registry) error {
		client, err := a.client(ctx, db)
		if err == nil {
			err = a.known(ctx, db, client, o.job)
		}
		if err != nil {
			return err
		}
		bars := a.bars()
		runner, err := slots.NewRunner(ctx, a.runnerConfig(db, registry, bars))
		if err != nil {
			return err
		}
		if err := inOrder(runner.Now(), o.since, o.until); err != nil {
			return err
		}
		var left unregistered
		view, err := a.catchUp(ctx, db, runner, bars, o, &left)
		return cmp.Or(errors.Join(err, printCaught(a, view)), a.cannotRun(ctx, db, runner.Now(), left, a.newsOfCatchUp(ctx, db, runner.Now())))
	}
	if o.dryRun {
		return stoppedBy(ctx, a.withChecks(ctx, work))
	}
	return a.measured(ctx, slots.KindCatchUp, work)
}

// catchUp runs a catch-up and logs its results. It adds to left the jobs whose rows it has left.
func (a *App) catchUp(
	ctx context.Context, db *sqlx.DB, runner *slots.Runner, bars *bars, o *catchUpOptions, left *unregistered,
) (caughtView, error) {
	now := runner.Now()
	caught, err := runner.CatchUp(ctx, slots.CatchUp{
		Mode: o.mode, Since: o.since.From(now), Until: o.until.From(now),
		Job: o.job, Limit: int64(o.limit), Spread: int(o.spread), DryRun: o.dryRun, After: left.add,
	})
	bars.close()
	view := newCaughtView(caught, o)
	err = errors.Join(err, a.lookAtLeft(ctx, db, &view, o))
	a.done(len(view.Slots) > 0 || view.Empty > 0).LogAttrs(ctx, slog.LevelInfo, "catch-up", slog.Any("mode", o.mode), slog.Bool("dry_run", o.dryRun),
		slog.Int64("slots", int64(len(view.Slots))+view.MoreSlots), slog.Int64("empty", view.Empty), slog.Int64("checked", view.Checked), slog.Int64("failed", view.Failed))
	if a.metrics != nil {
		a.metrics.Ended(slots.KindCatchUp, err)
	}
	return view, err
}

// printCaught prints a table of the slots, or nothing if there are none.
func printCaught(a *App, view caughtView) error {
	return a.print(view, func() error {
		if view.DryRun {
			return printDryRun(a, view)
		}
		if len(view.Slots) == 0 {
			return nil
		}
		header := table.Row{"SLOT", "WAS", "NOW", "CHECKED", "FINISHED", layout.Droppable("RESCHEDULED"), "FAILED", layout.Droppable("YIELDED"), layout.Droppable("TOOK")}
		return printFewOf(a, len(view.Slots)+int(view.MoreSlots), view.Slots, header, func(s caughtSlot) table.Row {
			if s.Result == nil {
				return table.Row{s.Slot, s.was(), "", "", "", "", "", "", ""}
			}
			r := s.Result
			return table.Row{s.Slot, s.was(), string(r.State), r.Checked, r.Finished, r.Rescheduled, r.Failed, r.Yielded, r.Took}
		})
	})
}

// stateWord names the state of a slot in trouble.
func stateWord(state slots.State) string {
	switch state {
	case slots.StateOpen:
		return "left open"
	case slots.StateDone:
		return "stragglers"
	}
	return string(state)
}

// caughtView is slots.Caught as JSON.
type caughtView struct {
	Mode      slots.Mode   `json:"mode"`
	DryRun    bool         `json:"dry_run"`
	Empty     int64        `json:"empty"`
	Checked   int64        `json:"checked"`
	Failed    int64        `json:"failed"`
	Slots     []caughtSlot `json:"slots"`
	MoreSlots int64        `json:"more_slots"` // slots with rows that slots leaves out
}

type caughtSlot struct {
	Slot   time.Time   `json:"slot"`
	Was    slots.State `json:"was"`
	Result *resultView `json:"result"` // null: not worked on
	leftView
}

func newCaughtView(caught slots.Caught, o *catchUpOptions) caughtView {
	view := caughtView{Mode: o.mode, DryRun: o.dryRun, Empty: caught.Empty, Slots: []caughtSlot{}, MoreSlots: caught.MoreSlots, Checked: caught.Total.Checked, Failed: caught.Total.Failed}
	for i, missed := range caught.Slots {
		slot := caughtSlot{Slot: missed.Slot, Was: missed.State}
		if i < len(caught.Results) {
			slot.Result = new(newResultView(caught.Results[i]))
		}
		view.Slots = append(view.Slots, slot)
	}
	return view
}
