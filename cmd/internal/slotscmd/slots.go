// Package slotscmd has the commands about the ledger of slots.
package slotscmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// NewCmdSlots returns the command slots, with those below it.
func NewCmdSlots(f *factory.Factory) *cobra.Command {
	return cli.Group("slots", "Read the ledger of slots, and change their width", newCmdList(f), newCmdShow(f),
		newCmdSetWidth(f), newCmdRewind(f))
}

type listOptions struct {
	span  cli.Span
	after cli.Instant
	limit cli.Count
}

func newCmdList(f *factory.Factory) *cobra.Command {
	var o listOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List slots that were opened, the newest first",
		Long: `List slots that were opened, the newest first. OPENED LATE says how long after its beginning a slot was opened,
if that was more than a minute. The KIND catch_up tells that the slot was missed before. Without --until and --after,
the last line says how many slots were missed. "status" lists them.`,
		Example: `  prescient slots list --since 24h --limit 200`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return listSlots(c.Context(), f, &o) },
	})
	o.span.Flags(c.Flags(), "first slot", "slot to stop before")
	cli.SinceVar(c.Flags(), &o.after, "after", "begin behind this slot, with the next older one")
	cli.CountVar(c.Flags(), &o.limit, "limit", 50, "maximum number of slots")
	return c
}

func listSlots(ctx context.Context, f *factory.Factory, o *listOptions) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		l := s.Ledger
		from, to, err := o.span.At(l.Now())
		if err != nil {
			return err
		}
		if after := o.after.From(l.Now()); !after.IsZero() && (to.IsZero() || after.Before(to)) {
			to = after
		}
		runs, err := seq.Collect(l.List(ctx, from, to, output.OneMore(o.limit)))
		if err != nil {
			return err
		}
		runs = output.Limited(ctx, f.Log(), runs, o.limit, func(r ledger.SlotRun) string { return spoken.Instant(r.Slot) })
		header := table.Row{
			"SLOT", "STATE", output.Droppable("KIND"), "OPENED LATE", "PLANNED", "CHECKED", "FINISHED",
			output.Droppable("RESCHEDULED"), "FAILED",
			output.Droppable("TAKE-OVERS"), output.Droppable("FINISHED AT"),
		}
		err = output.List(f.Printer, runs, header, func(v ledger.SlotRun) table.Row {
			return table.Row{
				v.Slot, string(v.State), string(v.Kind), late(v), v.Planned, v.Checked, v.Finished, v.Rescheduled, v.Failed,
				v.TakeOvers, v.FinishedAt,
			}
		})
		if err == nil && to.IsZero() && !f.IsJSON() {
			err = printMissed(ctx, f, s, from)
		}
		return err
	})
}

// printMissed prints how many slots since an instant were missed, and prints nothing if none was.
func printMissed(ctx context.Context, f *factory.Factory, s *action.Store, since time.Time) error {
	var state health.State
	err := pgsql.ReadTx(ctx, s.DB, func(tx *sqlx.Tx) (err error) {
		if _, err = tx.ExecContext(ctx, pg.SlotIndexOnly.In(s.Schema)); err == nil {
			state.Status, err = s.Ledger.In(reserved.Caller{}, tx).Status(ctx, since)
		}
		return err
	})
	missed, _, _, _ := state.Slots()
	if err != nil || missed == 0 {
		return err
	}
	return f.Sentence(fmt.Sprintf("%s missed and %s not in this list, because no run has opened %s: %s status",
		spoken.Count(missed, "slot was", "slots were"), spoken.Noun(missed, "is", "are"),
		spoken.Noun(missed, "it", "them"), f.Self()))
}

// late says how long after its beginning a slot was opened, if that is long. Else it is empty.
func late(v ledger.SlotRun) string {
	if v.OpenedAt == nil || v.OpenedAt.Sub(v.Slot) <= health.Prompt {
		return ""
	}
	return spoken.Duration(v.OpenedAt.Sub(v.Slot).Round(time.Second))
}

func newCmdShow(f *factory.Factory) *cobra.Command {
	return f.WithOutput(&cobra.Command{
		Use:   "show SLOT",
		Short: "Show one slot: its ledger row, its claims, and what waits in it",
		Long: `Show one slot: its ledger row, its claims, and what waits in it by job. SLOT is its instant, or "latest": the
newest slot that a run or catch-up has opened. A count that ended early says so: 100,000+.
A claim is the rows that a runner works on, under a lease. A claim without jobs belongs to a runner that may claim more.
If it is not live, that runner died, or lost the database. It holds no rows, and goes when the slot is done.
A job that is not registered in this binary is marked. A slot of an earlier width is shown if the ledger has it.
The state of a slot without a ledger row is "missed" if the next slot has begun, and "due" before that. It is "ahead" of
a slot that has not begun, and "no ledger" before the ledger began.`,
		Example: `  prescient slots show latest
  prescient slots show 2026-03-01T13:15:00Z`,
		Args: cli.Exactly("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			var slot cli.Instant
			if args[0] == latest {
				return showSlot(c.Context(), f, time.Time{})
			}
			if err := slot.Set(args[0]); err != nil {
				return exit.Usagef("slot %q: %w, or %s", args[0], err, latest)
			}
			return showSlot(c.Context(), f, slot.At)
		},
	})
}

// latest stands for the newest slot that was opened.
const latest = "latest"

// showSlot shows a slot, or the newest one that was opened for the zero time.
func showSlot(ctx context.Context, f *factory.Factory, slot time.Time) error {
	return perform.With(ctx, f, func(s *action.Store) error {
		l := s.Ledger
		if slot.IsZero() {
			newest, err := seq.Collect(l.List(ctx, slot, l.Grid().Next(l.Now()), 1))
			if err != nil {
				return err
			}
			if len(newest) == 0 {
				return errors.New(view.NeverRun)
			}
			slot = newest[0].Slot
		}
		run, err := l.Show(ctx, slot)
		if errors.Is(err, ledger.ErrNoSlot) {
			if !l.Grid().Contains(slot) {
				return cli.NotSlot(l.Grid(), slot)
			}
			state := view.Unopened(slot, s.Setting.Since, l.Grid().Floor(l.Now()))
			run, err = ledger.SlotRun{Slot: slot, State: state, Runners: []string{}}, nil
		}
		if err != nil {
			return err
		}
		knows, err := checks.Knows(ctx, f, l)
		if err != nil {
			return err
		}
		v, err := view.ReadSlot(ctx, l, run, knows)
		if err != nil {
			return err
		}
		return printSlot(f, v)
	})
}

// mostCounted bounds the rows of a job that are counted when a slot is opened; more are estimated.
const mostCounted = 1000

// gone returns how many rows left a slot that is done before their check. It returns 0 if their number is not known.
func gone(v view.SlotDetail) int64 {
	if v.State != slots.StateDone || v.Planned > mostCounted {
		return 0
	}
	n := v.Planned - v.Checked
	for _, w := range v.Waiting {
		n -= w.Waiting
	}
	return n
}

func printSlot(f *factory.Factory, v view.SlotDetail) error {
	return f.Print(v, func() error {
		err := f.Table(nil, table.Row{"slot", v.Slot}, table.Row{"state", string(v.State)},
			table.Row{"kind", string(v.Kind)},
			table.Row{"planned", v.Planned}, table.Row{"checked", v.Checked}, table.Row{"finished", v.Finished},
			table.Row{"rescheduled", v.Rescheduled}, table.Row{"failed", v.Failed}, table.Row{"take-overs", v.TakeOvers},
			table.Row{"opened at", v.OpenedAt}, table.Row{"finished at", v.FinishedAt}, table.Row{"took", v.Took},
			table.Row{"runners", strings.Join(v.Runners, ", ")}, table.Row{"rows waited for", v.WaitedFor})
		if err == nil && len(v.Claims) > 0 {
			header := table.Row{output.Droppable("KIND"), "RUNNER", "UNTIL", "LIVE", "JOBS"}
			err = errors.Join(f.Lines(""),
				output.Rows(f.Printer, v.Claims, header, func(c ledger.Claim) table.Row { return view.ClaimRow(c) }))
		}
		if err == nil && len(v.Waiting) > 0 {
			header := table.Row{"JOB", "WAITING", "STATE"}
			err = errors.Join(f.Lines(""), output.Rows(f.Printer, v.Waiting, header, func(w view.Waiting) table.Row {
				return table.Row{w.JobExec, w.Count(), w.Marked(string(w.State))}
			}))
		}
		if n := gone(v); n > 0 {
			err = errors.Join(err, f.Sentence(spoken.Count(n, "planned row was", "planned rows were")+
				" not checked: cancelled, replaced or moved to another slot first"))
		}
		return err
	})
}
