package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// shown is how many lines of a list status prints for people.
const shown = 20

type statusOptions struct {
	since instant
	check bool
}

func newStatus(a *App) *cobra.Command {
	var o statusOptions
	c := a.withOutput(&cobra.Command{
		Use:   "status",
		Short: "Show the current slot, slots that are missed, left open or have stragglers, and paused jobs",
		Long: `Show the current slot, and every slot of the past that is in trouble, with the jobs whose rows wait in it:

  missed      no run has opened it
  left open   its runners died or were stopped before it was done, or have not registered a job with rows in it
  stragglers  rows were committed into it after it was closed

A job that this binary has not registered is marked: its rows, and with them the slot, are left to a binary that has
it. The rows of a paused job wait until "jobs resume", and are no trouble before that.

A claim is the rows of a slot that a runner works on, under a lease. One without jobs: the runner is at the slot, and
may claim more. With --check the exit code is 3 when a slot is in trouble, or the lease of a claim has expired.`,
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
	return a.withLedger(ctx, func(db *sqlx.DB, ledger *slots.Ledger, setting pgsql.Setting) error {
		s, err := ledger.Status(ctx, o.since.from(ledger.Now()))
		if err != nil {
			return err
		}
		paused, err := a.paused(ctx, db)
		if err != nil {
			return err
		}
		view := a.newStatusView(s, paused)
		if view.Database, err = a.newDatabaseView(setting); err != nil {
			return err
		}
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
	Database      databaseView  `json:"database"`
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
	Claims        []claimView   `json:"claims"`
	ClaimsLive    int           `json:"claims_live"` // of rows
	ClaimsExpired int           `json:"claims_expired"`
	NotRegistered []string      `json:"not_registered"` // jobs with rows in trouble that this binary has not
	Repair        string        `json:"repair"`         // the command that repairs the trouble; empty when there is none

	trouble []troubleView // all of it, in order
}

type troubleView struct {
	Slot    time.Time     `json:"slot"`
	Waiting int64         `json:"waiting"`
	Jobs    []waitingView `json:"jobs"`

	state slots.State
}

func (a *App) newStatusView(s slots.Status, paused []jobs.Paused) statusView {
	trouble := a.newTroubleViews(s.Trouble)
	view := statusView{
		Now: s.Now.UTC(), Width: duration.Text(s.Grid.Width()), Since: s.Since,
		CurrentSlot: s.Current.Slot, CurrentState: s.Current.State, NextSlot: s.Grid.Next(s.Now),
		Overdue: s.Overdue(),
		Missed:  inState(trouble, slots.StateMissed), LeftOpen: inState(trouble, slots.StateOpen),
		Stragglers: inState(trouble, slots.StateDone), Running: inState(a.newTroubleViews(s.Running), slots.StateOpen),
		Paused: []pausedView{}, Claims: newClaimViews(s.Claims), NotRegistered: notRegistered(trouble), trouble: trouble,
	}
	for _, p := range paused {
		view.Paused = append(view.Paused, pausedView(p))
	}
	for _, c := range view.Claims {
		switch {
		case len(c.Jobs) == 0: // its runner is at the slot, or was
		case c.Live:
			view.ClaimsLive++
		case c.Until != nil:
			view.ClaimsExpired++
		}
	}
	view.OK = s.OK() && view.ClaimsExpired == 0
	if !view.OK {
		view.Repair = a.Name + " catch-up"
	}
	return view
}

func (a *App) newTroubleViews(list []slots.Trouble) []troubleView {
	var views []troubleView
	for _, t := range list {
		views = append(views, troubleView{t.Slot, t.Waiting, a.newWaitingViews(t.Jobs, nil), t.State})
	}
	return views
}

func inState(list []troubleView, state slots.State) []troubleView {
	views := []troubleView{}
	for _, t := range list {
		if t.state == state {
			views = append(views, t)
		}
	}
	return views
}

// notRegistered is the jobs in trouble that no command of this binary can check, in order.
func notRegistered(list []troubleView) []string {
	names := []string{}
	for _, t := range list {
		for _, job := range t.Jobs {
			if !job.Registered {
				names = append(names, job.JobExec)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func printStatus(a *App, v statusView) error {
	state := string(v.CurrentState)
	if state == "" {
		state = "not opened yet"
	}
	err := a.table(nil,
		table.Row{"database", v.Database.String()},
		table.Row{"current slot", fmt.Sprintf("%s, %s", v.CurrentSlot.Format(time.RFC3339), state)},
		table.Row{"next slot", v.NextSlot},
		table.Row{"width", v.Width.String()},
		table.Row{"ledger since", v.Since},
		table.Row{"missed", slotCount(v.Missed)},
		table.Row{"left open", slotCount(v.LeftOpen)},
		table.Row{"stragglers", slotCount(v.Stragglers)},
		table.Row{"overdue rows", fmt.Sprint(v.Overdue)},
		table.Row{"paused jobs", len(v.Paused)},
		table.Row{"claims", fmt.Sprintf("%d live, %d expired", v.ClaimsLive, v.ClaimsExpired)},
	)
	if err == nil && len(v.Paused) > 0 {
		err = errors.Join(a.lines(""), printTable(a, v.Paused, table.Row{"PAUSED JOB", "SINCE", "BY"},
			func(p pausedView) table.Row { return table.Row{p.JobExec, p.PausedAt, p.PausedBy} }))
	}
	if err == nil && len(v.Claims) > 0 {
		header := table.Row{"SLOT", "KIND", "RUNNER", "UNTIL", "LIVE", "JOBS"}
		err = errors.Join(a.lines(""), printFew(a, v.Claims, header, func(c claimView) table.Row {
			return append(table.Row{c.Slot}, c.row()...)
		}))
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

// printTrouble prints a line for each job in each slot, and one for a slot without rows.
func printTrouble(a *App, v statusView) error {
	var lines []table.Row
	for _, t := range v.trouble {
		if len(t.Jobs) == 0 {
			lines = append(lines, table.Row{t.Slot, stateWord(t.state), t.Waiting, ""})
		}
		for _, job := range t.Jobs {
			lines = append(lines, table.Row{t.Slot, stateWord(t.state), job.Waiting, job.marked(job.JobExec)})
		}
	}
	var err error
	if len(lines) > 0 {
		header := table.Row{"SLOT", "STATE", "WAITING", "JOB"}
		err = errors.Join(a.lines(""), printFew(a, lines, header, func(line table.Row) table.Row { return line }))
	}
	err = errors.Join(err, a.lines("", "repair it with: "+v.Repair))
	if len(v.NotRegistered) > 0 {
		err = errors.Join(err, a.lines("which leaves what is not registered here to a binary that has it: "+strings.Join(v.NotRegistered, ", ")))
	}
	return err
}

// printFew is printTable for people, who do not want to read all of a long list.
func printFew[T any](a *App, list []T, header table.Row, row func(T) table.Row) error {
	err := printTable(a, list[:min(len(list), shown)], header, row)
	if n := len(list) - shown; n > 0 {
		err = errors.Join(err, a.lines(fmt.Sprintf("and %d more", n)))
	}
	return err
}
