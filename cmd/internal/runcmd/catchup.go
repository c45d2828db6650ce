package runcmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

type catchUpOptions struct {
	mode   slots.Mode
	span   cli.Span
	job    string
	limit  cli.Count
	spread cli.Count
	dryRun bool
}

// NewCmdCatchUp returns the command catch-up.
func NewCmdCatchUp(f *factory.Factory) *cobra.Command {
	o := catchUpOptions{mode: slots.ModeRun}
	c := factory.OnStores(factory.QuietInPipes(f.WithOutput(&cobra.Command{
		Use:   "catch-up",
		Short: "Repair slots that were missed, left open, or have stragglers",
		Long: `Repair slots that were missed, left open by a runner that died, or have stragglers: rows committed after
their slot was closed. It takes the oldest slot first, and the next one once the rows of the slots before are being
checked or are locked. Together the slots have the bounds of one run. Concurrent catch-ups share the slots. It does not
touch a slot that is being run. It does not check the rows of a job that this binary has not registered: their slot
stays open, for a binary that has the job.

If only rows that other sessions have locked are left in a slot, it leaves them after some seconds, and looks at them
again at the end. If they are still locked, it exits 6, and names the session and how to end it. The next catch-up takes
them.

  --mode run     check each row now, or defer or skip it, as the misfire policy of its job says
  --mode defer   move every row to the next slot, unchecked; --spread over several slots
  --mode expire  end the rows that are past the deadline of their job, and leave the other rows

With --job, the call for a group gets only the rows of that job. Catch-up finishes the last group, so it may check more
rows than --limit.

The rows of a paused job wait until "jobs resume". If no slot needs repair, it prints nothing and exits 0. It exits 6 if
a job cannot run, as "run" does. Signals stop it as they stop "run".

Unless --dry-run is given, it then drops what is older than history.retention, about once a day, as "run" with
--catch-up does.`,
		Example: `  prescient catch-up --dry-run
  prescient catch-up
  prescient catch-up --mode defer --spread 4
  prescient catch-up --since 6h --job order.unshipped --limit 10000`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			work := func() error { return database.Each(c.Context(), f, o.run) }
			if o.dryRun { // it runs nothing
				return work()
			}
			return pinged(c.Context(), f, work)
		},
	})))
	fs := c.Flags()
	fs.Var(cli.Choice(&o.mode, slots.ModeRun, slots.ModeDefer, slots.ModeExpire), "mode",
		"what to do with the rows: run, defer or expire")
	o.span.Flags(fs, "first slot to repair", "slot to stop before")
	cli.WordVar(fs, &o.job, "job", "take only the rows of this `JOB`")
	fs.Var(&o.limit, "limit", "number of rows to check at most, with the rest of the last group; default: no limit")
	cli.CountVar(fs, &o.spread, "spread", 1, "number of slots over which --mode defer spreads the rows")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only list the slots, and sum up their rows by job")
	config.RunFlags(fs)
	return c
}

func (o *catchUpOptions) run(ctx context.Context, f *factory.Factory) error {
	if o.spread > 1 && o.mode != slots.ModeDefer {
		return exit.Usagef("--spread works only with --mode %s", slots.ModeDefer)
	}
	work := func(b *checks.Bound) error {
		store, err := perform.On(ctx, f, b.DB, b.Setting)
		if err == nil {
			err = checks.Require(ctx, f, b.DB, store.Client, o.job)
		}
		if err != nil {
			return err
		}
		bars := newBars(f)
		store.Runner = b.Runner(f, showing(bars))
		runner, err := slots.NewRunner(ctx, store.Runner)
		if err != nil {
			return err
		}
		since, until, err := o.span.At(runner.Now())
		if err != nil {
			return err
		}
		a := action.CatchUp{
			Mode: o.mode, Since: since, Until: until, Job: o.job, Limit: int64(o.limit), Spread: int(o.spread),
		}
		if o.dryRun {
			defer bars.Close()
			return dryRun(ctx, f, store, a)
		}
		var left unregistered
		c := catchUp{f: f, b: b, store: store, runner: runner, bars: bars, a: a, left: &left}
		view, locked, err := c.run(ctx)
		prune(ctx, f, b)
		return cmp.Or(errors.Join(err, printCaught(f, view)), locked,
			cannotRun(ctx, f, b, runner.Now(), left, newsOfCatchUp(ctx, f, b.DB, runner.Now())))
	}
	if o.dryRun {
		return stoppedBy(ctx, checks.With(ctx, f, nil, work))
	}
	return forwarding(ctx, f, slots.KindCatchUp, work)
}

// catchUp is a catch-up of one store.
type catchUp struct {
	f      *factory.Factory
	b      *checks.Bound
	store  *action.Store
	runner *slots.Runner
	bars   *output.Bars // nil: none
	a      action.CatchUp
	left   *unregistered // gets the jobs whose rows leave slots open
}

// run runs the catch-up and logs its results. locked is from leftLocked.
func (c catchUp) run(ctx context.Context) (view caughtView, locked, err error) {
	cfg := c.a.Config()
	cfg.After = c.left.add
	caught, err := c.runner.CatchUp(ctx, cfg)
	c.bars.Close()
	locked, err = leftLocked(err)
	view = newCaughtView(caught, c.a)
	err = errors.Join(err, addRemaining(ctx, c.store, c.a, &view))
	c.f.Log().LogAttrs(ctx, slog.LevelInfo, "catch-up", slog.Any("mode", c.a.Mode),
		slog.Int64("slots", int64(len(view.Slots))+view.MoreSlots), slog.Int64("empty", view.Empty),
		slog.Int64("rows", view.Checked), slog.Int64("failed", view.Failed))
	if c.b.Metrics != nil {
		c.b.Metrics.Ended(slots.KindCatchUp, err)
	}
	return view, locked, err
}

// printCaught prints a table of the slots, and how many slots without rows were closed, or nothing if there were none.
func printCaught(f *factory.Factory, view caughtView) error {
	return f.Print(view, func() error {
		err := printSlots(f, view)
		if view.Empty > 0 {
			err = errors.Join(err, f.Sentence("Closed "+action.EmptySlots(view.Empty)))
		}
		return err
	})
}

// printSlots prints a table of the slots, or nothing if there are none.
func printSlots(f *factory.Factory, view caughtView) error {
	if len(view.Slots) == 0 {
		return nil
	}
	// Not CHECKED: rows that are deferred or expire are not checked.
	header := table.Row{
		"SLOT", "WAS", "NOW", "ROWS", "FINISHED", output.Droppable("RESCHEDULED"), "FAILED", output.Droppable("YIELDED"),
		output.Droppable("TOOK"),
	}
	return output.Few(f.Printer, len(view.Slots)+int(view.MoreSlots), view.Slots, header, func(s caughtSlot) table.Row {
		if s.Result == nil {
			return table.Row{s.Slot, s.was(), "", "", "", "", "", "", ""}
		}
		r := s.Result
		return table.Row{s.Slot, s.was(), string(r.State), r.Checked, r.Finished, r.Rescheduled, r.Failed, r.Yielded, r.Took}
	})
}

// caughtView is slots.Caught as JSON.
type caughtView struct {
	Mode      slots.Mode   `json:"mode"` // run, defer or expire
	DryRun    bool         `json:"dry_run"`
	Empty     int64        `json:"empty"` // empty missed slots that were closed
	Checked   int64        `json:"checked"`
	Failed    int64        `json:"failed"`
	Slots     []caughtSlot `json:"slots"`      // the oldest 1,000
	MoreSlots int64        `json:"more_slots"` // slots with rows that Slots does not list
	// the rows of Slots that catch-up has left, or would take with --dry-run, by job
	Jobs []jobSum `json:"jobs"`
}

// jobSum is the remaining work of a job in all slots of the list.
type jobSum struct {
	JobExec string `json:"job_exec"`
	Waiting int64  `json:"waiting"`  // rows; those of each slot are counted as in status
	Slots   int64  `json:"slots"`    // in which the rows wait
	AtLeast bool   `json:"at_least"` // counting stopped at waiting: there are that many or more
}

func (s jobSum) count() ledger.Count { return ledger.Count{N: s.Waiting, AtLeast: s.AtLeast} }

type caughtSlot struct {
	Slot   time.Time   `json:"slot"`
	Was    slots.State `json:"was"`    // missed, open or done (with stragglers)
	Result *resultView `json:"result"` // null: not worked on
	remainingView
}

func newCaughtView(caught slots.Caught, a action.CatchUp) caughtView {
	view := caughtView{
		Mode: a.Mode, Empty: caught.Empty, Slots: []caughtSlot{}, MoreSlots: caught.MoreSlots,
		Jobs:    []jobSum{},
		Checked: caught.Total.Checked, Failed: caught.Total.Failed,
	}
	for i, missed := range caught.Slots {
		slot := caughtSlot{Slot: missed.Slot, Was: missed.State}
		if i < len(caught.Results) {
			slot.Result = new(newResultView(caught.Results[i]))
		}
		view.Slots = append(view.Slots, slot)
	}
	return view
}
