package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/layout"
	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newSlots(a *App) *cobra.Command {
	return cli.Group("slots", "Read the ledger of slots, and change their width", newSlotsList(a), newSlotsShow(a), newSlotsSetWidth(a), newSlotsRewind(a))
}

type slotsListOptions struct {
	since, until cli.Instant
	limit        cli.Count
}

func newSlotsList(a *App) *cobra.Command {
	var o slotsListOptions
	c := a.withOutput(&cobra.Command{
		Use:     "list",
		Short:   "List slots that were opened, the newest first",
		Example: `  prescient slots list --since 24h --limit 200`,
		Args:    cli.Exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return listSlots(c.Context(), a, &o) },
	})
	cli.SinceVar(c.Flags(), &o.since, "since", "first slot")
	cli.SinceVar(c.Flags(), &o.until, "until", "slot to stop before")
	cli.CountVar(c.Flags(), &o.limit, "limit", 50, "maximum number of slots")
	return c
}

func listSlots(ctx context.Context, a *App, o *slotsListOptions) error {
	return a.withLedger(ctx, func(_ *sqlx.DB, l *slots.Ledger, _ pgsql.Setting) error {
		now := l.Now()
		if err := inOrder(now, o.since, o.until); err != nil {
			return err
		}
		runs, err := l.List(ctx, o.since.From(now), o.until.From(now), int(o.limit))
		if err != nil {
			return err
		}
		var views []view.Slot
		for _, run := range runs {
			views = append(views, view.NewSlot(run))
		}
		header := table.Row{
			"SLOT", "STATE", layout.Droppable("KIND"), "PLANNED", "CHECKED", "FINISHED", layout.Droppable("RESCHEDULED"), "FAILED",
			layout.Droppable("TAKE-OVERS"), layout.Droppable("FINISHED AT"),
		}
		return printList(a, views, header, func(v view.Slot) table.Row {
			return table.Row{
				v.Slot, string(v.State), string(v.Kind), v.Planned, v.Checked, v.Finished, v.Rescheduled, v.Failed, v.TakeOvers, v.FinishedAt,
			}
		})
	})
}

func newSlotsShow(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:   "show SLOT",
		Short: "Show one slot: its ledger row, its claims, and what waits in it",
		Long: `Show one slot: its ledger row, its claims, and what waits in it by job, counted up to 100,000 rows.
A claim is the rows that a runner works on, under a lease. A claim without jobs belongs to a runner that may claim more.
A job that is not registered in this binary is marked.
The state of a slot without a ledger row is "missed" if the next slot has begun. Before that, and before the ledger
began, it is "not opened".`,
		Example: `  prescient slots show 2026-03-01T13:15:00Z`,
		Args:    cli.Exactly("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			var slot cli.Instant
			if err := slot.Set(args[0]); err != nil {
				return usagef("slot %q: %w", args[0], err)
			}
			return showSlot(c.Context(), a, slot.At)
		},
	})
}

func showSlot(ctx context.Context, a *App, slot time.Time) error {
	return a.withLedger(ctx, func(db *sqlx.DB, l *slots.Ledger, s pgsql.Setting) error {
		if !l.Grid().Contains(slot) {
			return notSlot(l.Grid(), slot)
		}
		run, err := l.Show(ctx, slot)
		if errors.Is(err, slots.ErrNoSlot) {
			run, err = slots.SlotRun{Slot: slot, State: view.NotOpened}, nil
			if !slot.Before(s.Since) && slot.Before(l.Grid().Floor(l.Now())) {
				run.State = slots.StateMissed
			}
		}
		if err != nil {
			return err
		}
		claims, err := l.Claims(ctx, slot)
		if err != nil {
			return err
		}
		waiting, err := l.Waiting(ctx, slot)
		if err != nil {
			return err
		}
		paused, err := a.paused(ctx, db)
		if err != nil {
			return err
		}
		return printSlot(a, view.SlotDetail{
			Slot: view.NewSlot(run), Claims: view.NewClaims(claims), Waiting: view.NewWaiting(waiting, paused, a.has),
		})
	})
}

// notSlot returns the error of an instant that is off the grid.
func notSlot(g grid.Grid, at time.Time) error {
	return usagef("%s is not a slot: the width is %s; the slots around it are %s and %s", at.Format(time.RFC3339Nano),
		duration.Text(g.Width()), g.Floor(at).Format(time.RFC3339), g.Next(at).Format(time.RFC3339))
}

// claimRow returns a claim without its slot as a row of a table.
func claimRow(c view.Claim) table.Row {
	return table.Row{string(c.Kind), c.Runner, c.Until, c.Live, strings.Join(c.Jobs, ", ")}
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

func printSlot(a *App, v view.SlotDetail) error {
	return a.print(v, func() error {
		err := a.table(nil, table.Row{"slot", v.Slot.Slot}, table.Row{"state", string(v.State)}, table.Row{"kind", string(v.Kind)},
			table.Row{"planned", v.Planned}, table.Row{"checked", v.Checked}, table.Row{"finished", v.Finished},
			table.Row{"rescheduled", v.Rescheduled}, table.Row{"failed", v.Failed}, table.Row{"take-overs", v.TakeOvers},
			table.Row{"opened at", v.OpenedAt}, table.Row{"finished at", v.FinishedAt})
		if err == nil && len(v.Claims) > 0 {
			err = errors.Join(a.lines(""), printTable(a, v.Claims, table.Row{layout.Droppable("KIND"), "RUNNER", "UNTIL", "LIVE", "JOBS"}, claimRow))
		}
		if err == nil && len(v.Waiting) > 0 {
			header := table.Row{"JOB", "WAITING", "STATE"}
			err = errors.Join(a.lines(""), printTable(a, v.Waiting, header, func(w view.Waiting) table.Row {
				return table.Row{w.JobExec, layout.AtLeast(w.Waiting, slots.MostWaiting), w.Marked(string(w.State))}
			}))
		}
		if n := gone(v); n > 0 {
			err = errors.Join(err, a.sentence(spoken.Count(n, "planned row was", "planned rows were")+
				" not checked: cancelled, replaced or moved to another slot first"))
		}
		return err
	})
}
