package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

func newSlots(a *App) *cobra.Command {
	return group("slots", "Read the ledger of slots, and change their width", newSlotsList(a), newSlotsShow(a), newSlotsSetWidth(a))
}

type slotsListOptions struct {
	from, to instant
	limit    count
}

func newSlotsList(a *App) *cobra.Command {
	var o slotsListOptions
	c := a.withOutput(&cobra.Command{
		Use:     "list",
		Short:   "List slots that were opened, the newest first",
		Example: `  prescient slots list --from 24h --limit 200`,
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return listSlots(c.Context(), a, &o) },
	})
	sinceVar(c.Flags(), &o.from, "from", "first slot")
	sinceVar(c.Flags(), &o.to, "to", "slot to stop before")
	countVar(c.Flags(), &o.limit, "limit", 50, "number of slots at the most")
	return c
}

func listSlots(ctx context.Context, a *App, o *slotsListOptions) error {
	return a.withLedger(ctx, func(_ *sqlx.DB, l *slots.Ledger, _ pgsql.Setting) error {
		runs, err := l.List(ctx, o.from.from(l.Now()), o.to.from(l.Now()), int(o.limit))
		if err != nil {
			return err
		}
		var views []slotView
		for _, run := range runs {
			views = append(views, newSlotView(run))
		}
		header := table.Row{
			"SLOT", "STATE", optional("KIND"), "PLANNED", "CHECKED", "FINISHED", optional("RESCHEDULED"), "FAILED",
			optional("TAKE-OVERS"), optional("FINISHED AT"),
		}
		return printList(a, views, header, func(v slotView) table.Row {
			return table.Row{
				v.Slot, string(v.State), string(v.Kind), v.Planned, v.Checked, v.Finished, v.Rescheduled, v.Failed, v.TakeOvers, v.FinishedAt,
			}
		})
	})
}

// slotView is slots.SlotRun as JSON.
type slotView struct {
	Slot        time.Time   `json:"slot"`
	State       slots.State `json:"state"`
	Kind        slots.Kind  `json:"kind"`
	Planned     int64       `json:"planned"`
	Checked     int64       `json:"checked"`
	Finished    int64       `json:"finished"`
	Rescheduled int64       `json:"rescheduled"`
	Failed      int64       `json:"failed"`
	TakeOvers   int64       `json:"take_overs"`
	OpenedAt    *time.Time  `json:"opened_at"`   // null: not opened
	FinishedAt  *time.Time  `json:"finished_at"` // null: not done
}

func newSlotView(r slots.SlotRun) slotView {
	v := slotView{
		Slot: r.Slot.UTC(), State: r.State, Kind: r.Kind, Planned: r.Planned, Checked: r.Checked, Finished: r.Finished,
		Rescheduled: r.Rescheduled, Failed: r.Failed, TakeOvers: r.TakeOvers, FinishedAt: r.FinishedAt,
	}
	if !r.OpenedAt.IsZero() {
		v.OpenedAt = &r.OpenedAt
	}
	return v
}

func newSlotsShow(a *App) *cobra.Command {
	return a.withOutput(&cobra.Command{
		Use:   "show SLOT",
		Short: "Show one slot: its ledger row, its claims, and what waits in it",
		Long: `Show one slot: its ledger row, its claims, and what waits in it by job, counted up to 100,000 rows.
A claim is the rows that a runner works on, under a lease. One without jobs: the runner is at the slot, and may claim
more. A job that is not registered in this binary is marked.
The state of a slot without a ledger row is "missed" when the next slot has begun, and "not opened" before that or
where the ledger had not begun.`,
		Example: `  prescient slots show 2026-03-01T13:15:00Z`,
		Args:    exactly("SLOT"),
		RunE: func(c *cobra.Command, args []string) error {
			var slot instant
			if err := slot.Set(args[0]); err != nil {
				return usagef("slot %q: %w", args[0], err)
			}
			return showSlot(c.Context(), a, slot.at)
		},
	})
}

// notOpened is the state of a slot that no run has opened, where that is no miss.
const notOpened slots.State = "not opened"

func showSlot(ctx context.Context, a *App, slot time.Time) error {
	return a.withLedger(ctx, func(db *sqlx.DB, l *slots.Ledger, s pgsql.Setting) error {
		if !l.Grid().Contains(slot) {
			return notSlot(l.Grid(), slot)
		}
		run, err := l.Show(ctx, slot)
		if errors.Is(err, slots.ErrNoSlot) {
			run, err = slots.SlotRun{Slot: slot, State: notOpened}, nil
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
		return printSlot(a, slotDetail{newSlotView(run), newClaimViews(claims), a.newWaitingViews(waiting, paused)})
	})
}

// notSlot is the error of an instant that is off the grid.
func notSlot(g grid.Grid, at time.Time) error {
	return usagef("%s is not a slot: the width is %s; the slots around it are %s and %s", at.Format(time.RFC3339Nano),
		duration.Text(g.Width()), g.Floor(at).Format(time.RFC3339), g.Next(at).Format(time.RFC3339))
}

// slotDetail is one slot as JSON.
type slotDetail struct {
	slotView
	Claims  []claimView   `json:"claims"`
	Waiting []waitingView `json:"waiting"`
}

// claimView is slots.Claim as JSON.
type claimView struct {
	Slot   time.Time  `json:"slot"`
	Token  int64      `json:"token,string"` // more digits than a number in JavaScript has
	Kind   slots.Kind `json:"kind"`
	Jobs   []string   `json:"jobs"` // none: its runner is at the slot, and may claim more
	Runner string     `json:"runner"`
	Until  *time.Time `json:"until"` // null: handed back
	Live   bool       `json:"live"`
}

func newClaimViews(claims []slots.Claim) []claimView {
	views := []claimView{}
	for _, c := range claims {
		v := claimView{Slot: c.Slot, Token: c.Token, Kind: c.Kind, Jobs: append([]string{}, c.Jobs...), Runner: c.Runner, Live: c.Live}
		if c.Until.Unix() > 0 {
			v.Until = &c.Until
		}
		views = append(views, v)
	}
	return views
}

// row is a claim without its slot as a line of a table.
func (c claimView) row() table.Row {
	return table.Row{string(c.Kind), c.Runner, c.Until, c.Live, strings.Join(c.Jobs, ", ")}
}

type waitingView struct {
	JobExec    string   `json:"job_exec"`
	Waiting    int64    `json:"waiting"`
	State      jobState `json:"state"`
	Registered bool     `json:"registered"` // false: this binary leaves the rows to one that has the job
}

func (a *App) newWaitingViews(list []slots.JobCount, paused []jobs.Paused) []waitingView {
	views := []waitingView{}
	for _, w := range list {
		views = append(views, waitingView{w.JobExec, w.Waiting, stateOf(w.JobExec, paused), a.has(w.JobExec)})
	}
	return views
}

// marked is a text about the job, with a mark where that is not registered.
func (w waitingView) marked(text string) string {
	if !w.Registered {
		text += " (not registered here)"
	}
	return text
}

func printSlot(a *App, v slotDetail) error {
	return a.print(v, func() error {
		err := a.table(nil, table.Row{"slot", v.Slot}, table.Row{"state", string(v.State)}, table.Row{"kind", string(v.Kind)},
			table.Row{"planned", v.Planned}, table.Row{"checked", v.Checked}, table.Row{"finished", v.Finished},
			table.Row{"rescheduled", v.Rescheduled}, table.Row{"failed", v.Failed}, table.Row{"take-overs", v.TakeOvers},
			table.Row{"opened at", v.OpenedAt}, table.Row{"finished at", v.FinishedAt})
		if err == nil && len(v.Claims) > 0 {
			err = errors.Join(a.lines(""), printTable(a, v.Claims, table.Row{optional("KIND"), "RUNNER", "UNTIL", "LIVE", "JOBS"}, claimView.row))
		}
		if err == nil && len(v.Waiting) > 0 {
			header := table.Row{"JOB", "WAITING", "STATE"}
			err = errors.Join(a.lines(""), printTable(a, v.Waiting, header, func(w waitingView) table.Row {
				return table.Row{w.JobExec, orMore(w.Waiting, slots.MostWaiting), w.marked(string(w.State))}
			}))
		}
		return err
	})
}
