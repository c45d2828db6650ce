package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// shownSlots is how many slots in trouble are listed for people.
const shownSlots = 20

type statusOptions struct {
	since instant
	check bool
}

func newStatus(a *App) *cobra.Command {
	var o statusOptions
	c := a.withOutput(&cobra.Command{
		Use:   "status",
		Short: "Show the current slot, slots that are missed, left open or have stragglers, and paused jobs",
		Long: `Show the current slot, and every slot of the past that is in trouble:

  missed      no run has opened it
  left open   its runners died before it was done
  stragglers  rows were committed into it after it was closed

The rows of a paused job wait until "jobs resume", and are no trouble before that.

With --check the exit code is 3 when a slot is in trouble, or a lease has expired.`,
		Example: `  prescient status
  prescient status --since 24h --check
  prescient status --output json | jq '.missed[].slot'`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return status(c.Context(), a, &o) },
	})
	sinceVar(c.Flags(), &o.since, "since", "first slot to look at; default: the ledger's first")
	c.Flags().BoolVar(&o.check, "check", false, "exit with 3 when something is wrong")
	return c
}

func status(ctx context.Context, a *App, o *statusOptions) error {
	return a.withLedger(ctx, func(db *sqlx.DB, ledger *slots.Ledger, _ pgsql.Setting) error {
		s, err := ledger.Status(ctx, o.since.from(ledger.Now()))
		if err != nil {
			return err
		}
		paused, err := a.paused(ctx, db)
		if err != nil {
			return err
		}
		view := newStatusView(s, paused, a.Name+" catch-up")
		if err := a.print(view, func() error { return printStatus(a, view) }); err != nil {
			return err
		}
		if o.check && !view.OK {
			return &ExitError{Code: Found}
		}
		return nil
	})
}

// statusView is slots.Status as JSON.
type statusView struct {
	OK            bool          `json:"ok"`
	Now           time.Time     `json:"now"`
	Width         duration.Text `json:"width"`
	Since         time.Time     `json:"since"` // where the ledger begins
	CurrentSlot   time.Time     `json:"current_slot"`
	CurrentState  slots.State   `json:"current_state"` // empty: no run has opened it yet
	NextSlot      time.Time     `json:"next_slot"`
	Overdue       int64         `json:"overdue"`
	Missed        []troubleView `json:"missed"`
	LeftOpen      []troubleView `json:"left_open"`
	Stragglers    []troubleView `json:"stragglers"`
	Running       []troubleView `json:"running"`
	Paused        []pausedView  `json:"paused"`
	LeasesLive    int           `json:"leases_live"`
	LeasesExpired int           `json:"leases_expired"`
	Repair        string        `json:"repair"` // the command that repairs the trouble; empty when there is none

	trouble []slots.Trouble // all of it, in order
}

type troubleView struct {
	Slot    time.Time `json:"slot"`
	Waiting int64     `json:"waiting"`
}

func newStatusView(s slots.Status, paused []jobs.Paused, repair string) statusView {
	view := statusView{
		Now: s.Now.UTC(), Width: duration.Text(s.Grid.Width()), Since: s.Since,
		CurrentSlot: s.Current.Slot, CurrentState: s.Current.State, NextSlot: s.Grid.Next(s.Now),
		Overdue: s.Overdue(),
		Missed:  inState(s.Trouble, slots.StateMissed), LeftOpen: inState(s.Trouble, slots.StateOpen),
		Stragglers: inState(s.Trouble, slots.StateDone), Running: inState(s.Running, slots.StateOpen),
		Paused: []pausedView{}, trouble: s.Trouble,
	}
	for _, p := range paused {
		view.Paused = append(view.Paused, pausedView(p))
	}
	for _, lease := range s.Leases {
		switch {
		case lease.Live:
			view.LeasesLive++
		case lease.Until != nil:
			view.LeasesExpired++
		}
	}
	view.OK = s.OK() && view.LeasesExpired == 0
	if !view.OK {
		view.Repair = repair
	}
	return view
}

func inState(list []slots.Trouble, state slots.State) []troubleView {
	views := []troubleView{}
	for _, t := range list {
		if t.State == state {
			views = append(views, troubleView{t.Slot, t.Waiting})
		}
	}
	return views
}

func printStatus(a *App, v statusView) error {
	state := string(v.CurrentState)
	if state == "" {
		state = "not opened yet"
	}
	err := a.table(nil,
		table.Row{"current slot", fmt.Sprintf("%s, %s", v.CurrentSlot.Format(time.RFC3339), state)},
		table.Row{"next slot", v.NextSlot},
		table.Row{"width", v.Width.String()},
		table.Row{"ledger since", v.Since},
		table.Row{"missed", slotCount(v.Missed)},
		table.Row{"left open", slotCount(v.LeftOpen)},
		table.Row{"stragglers", slotCount(v.Stragglers)},
		table.Row{"overdue rows", fmt.Sprint(v.Overdue)},
		table.Row{"paused jobs", len(v.Paused)},
		table.Row{"leases", fmt.Sprintf("%d live, %d expired", v.LeasesLive, v.LeasesExpired)},
	)
	if err == nil && len(v.Paused) > 0 {
		err = errors.Join(a.lines(""), printTable(a, v.Paused, table.Row{"PAUSED JOB", "SINCE", "BY"},
			func(p pausedView) table.Row { return table.Row{p.JobExec, p.PausedAt, p.PausedBy} }))
	}
	if err != nil || v.OK {
		return err
	}
	return printTrouble(a, v)
}

func slotCount(list []troubleView) string {
	if len(list) == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", len(list))
}

func printTrouble(a *App, v statusView) error {
	var err error
	if len(v.trouble) > 0 {
		shown := v.trouble[:min(len(v.trouble), shownSlots)]
		header := table.Row{"SLOT", "STATE", "WAITING"}
		err = errors.Join(a.lines(""), printTable(a, shown, header, func(t slots.Trouble) table.Row {
			return table.Row{t.Slot, stateWord(t.State), t.Waiting}
		}))
	}
	if n := len(v.trouble) - shownSlots; n > 0 {
		err = errors.Join(err, a.lines(fmt.Sprintf("and %d more", n)))
	}
	return errors.Join(err, a.lines("", "repair it with: "+v.Repair))
}
