package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/spool"
)

type spoolCatchUpOptions struct {
	mode         slots.Mode
	since, until instant
	dryRun       bool
}

func newSpoolCatchUp(a *App, width *time.Duration) *cobra.Command {
	o := spoolCatchUpOptions{mode: slots.ModeRun}
	c := a.verboseFlag(a.withOutput(&cobra.Command{
		Use:   "catch-up",
		Short: "Run the executables of slots that were missed, or left by a run that died",
		Long: `Run the executables of slots that were missed, or left by a run that died. The oldest slot comes first, one at
a time. A slot that another run is at is left to it.

  --mode run     run each now, or defer or skip it, as its --on-misfire says
  --mode defer   move every one to the next slot
  --mode expire  move those past their --deadline to history, and leave the others

Nothing to catch up on is success, and prints nothing.`,
		Example: `  prescient spool catch-up --dir /var/spool/checks --dry-run
  prescient spool catch-up --dir /var/spool/checks --since 6h`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return catchUpSpool(c.Context(), a, width, &o) },
	}))
	fs := c.Flags()
	fs.Var(choice(&o.mode, slots.ModeRun, slots.ModeDefer, slots.ModeExpire), "mode", "what to do: run, defer or expire")
	sinceVar(fs, &o.since, "since", "first slot to look at")
	sinceVar(fs, &o.until, "until", "slot to stop before")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only list the slots")
	addRunFlags(fs, "workers", "grace")
	return c
}

func catchUpSpool(ctx context.Context, a *App, width *time.Duration, o *spoolCatchUpOptions) error {
	s, err := a.openSpool(*width)
	if err != nil {
		return err
	}
	now := s.Now()
	if err := inOrder(now, "since", "until", o.since, o.until); err != nil {
		return err
	}
	missed, err := s.CatchUp(ctx, spool.CatchUp{
		Mode: o.mode, Since: o.since.from(now), Until: o.until.from(now), DryRun: o.dryRun,
	})
	view := newSpoolCaughtView(missed, o)
	a.done(len(view.Slots) > 0).InfoContext(ctx, "spool catch-up", "mode", o.mode, "dry_run", o.dryRun,
		"slots", len(view.Slots), "checked", view.Checked, "failed", view.Failed)
	return errors.Join(err, a.print(view, func() error {
		if len(view.Slots) == 0 {
			return nil
		}
		header := table.Row{"SLOT", "WAITING", "NOW", "CHECKED", "FINISHED", optional("RESCHEDULED"), "FAILED", optional("RUNNING"), optional("REFUSED"), optional("TOOK")}
		return printTable(a, view.Slots, header, func(s spoolCaughtSlot) table.Row {
			if s.Result == nil {
				return table.Row{s.Slot, s.Waiting, "", "", "", "", "", "", "", ""}
			}
			r := s.Result
			return table.Row{s.Slot, s.Waiting, string(r.State), r.Checked, r.Finished, r.Rescheduled, r.Failed, r.Running, r.Refused, r.Took}
		})
	}))
}

// spoolCaughtView is what a catch-up did as JSON.
type spoolCaughtView struct {
	Mode    slots.Mode        `json:"mode"`
	DryRun  bool              `json:"dry_run"`
	Checked int               `json:"checked"`
	Failed  int               `json:"failed"`
	Slots   []spoolCaughtSlot `json:"slots"`
}

type spoolCaughtSlot struct {
	Slot    time.Time        `json:"slot"`
	Waiting int              `json:"waiting"`
	Result  *spoolResultView `json:"result"` // null: not worked on
}

func newSpoolCaughtView(missed []spool.Missed, o *spoolCatchUpOptions) spoolCaughtView {
	view := spoolCaughtView{Mode: o.mode, DryRun: o.dryRun, Slots: []spoolCaughtSlot{}}
	for _, m := range missed {
		slot := spoolCaughtSlot{Slot: m.Slot, Waiting: m.Waiting}
		if m.Result != nil {
			slot.Result = new(newSpoolResultView(*m.Result))
			view.Checked += m.Result.Checked
			view.Failed += m.Result.Failed
		}
		view.Slots = append(view.Slots, slot)
	}
	return view
}
