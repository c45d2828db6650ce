package runcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// remainingView is the remaining work in a slot that catch-up has not finished, or would work on in a
// dry run.
type remainingView struct {
	Waiting *int64   `json:"waiting"`  // rows; null: nothing is left
	Jobs    []string `json:"jobs"`     // of these rows
	Live    bool     `json:"live"`     // a run works on the slot, and catch-up leaves it to that run
	AtLeast bool     `json:"at_least"` // counting stopped at waiting: there are that many or more
}

// addRemaining adds to a view the remaining work of its slots.
func addRemaining(ctx context.Context, f *factory.Factory, db *sqlx.DB, view *caughtView, o *catchUpOptions) error {
	remaining := map[time.Time]*remainingView{}
	for i := range view.Slots {
		s := &view.Slots[i]
		s.Jobs = []string{}
		if s.Result == nil || s.Result.State == slots.StateOpen {
			s.Waiting = new(int64)
			remaining[s.Slot.UTC()] = &s.remainingView
		}
	}
	if len(remaining) == 0 || ctx.Err() != nil {
		return nil
	}
	l, err := database.Ledger(ctx, f, db)
	if err != nil {
		return err
	}
	status, err := l.Status(ctx, o.since.From(l.Now()))
	sums := map[string]jobSum{}
	for _, t := range append(status.Trouble, status.Running...) {
		r := remaining[t.Slot]
		if r == nil {
			continue
		}
		r.Live = t.Live > 0
		for _, job := range t.Jobs {
			if o.job == "" || o.job == job.JobExec {
				*r.Waiting += job.Waiting.N
				r.AtLeast = r.AtLeast || job.Waiting.AtLeast
				r.Jobs = append(r.Jobs, job.JobExec)
				if !r.Live { // else its run takes them
					s := sums[job.JobExec]
					n := s.count().Plus(job.Waiting)
					sums[job.JobExec] = jobSum{job.JobExec, n.N, s.Slots + 1, n.AtLeast}
				}
			}
		}
	}
	for _, job := range slices.Sorted(maps.Keys(sums)) {
		view.Jobs = append(view.Jobs, sums[job])
	}
	return err
}

// was returns the state in which catch-up found a slot.
func (s caughtSlot) was() string {
	if s.Live {
		return "being run"
	}
	return view.StateWord(s.Was)
}

// printDryRun prints the slots that catch-up would work on, and how many it would only record. It
// prints nothing for none.
func printDryRun(f *factory.Factory, view caughtView) (err error) {
	if len(view.Slots) > 0 {
		err = printRemaining(f, view.Slots, len(view.Slots)+int(view.MoreSlots))
	}
	if len(view.Jobs) > 0 {
		err = errors.Join(err, f.Lines(""), printSums(f, view))
	}
	if view.Empty > 0 {
		err = errors.Join(err, f.Sentence(fmt.Sprintf("%s missed without rows: catch-up records %s as done",
			spoken.Count(view.Empty, "slot was", "slots were"), spoken.Noun(view.Empty, "it", "them"))))
	}
	return err
}

// printRemaining prints the remaining work of the first of n slots.
func printRemaining(f *factory.Factory, list []caughtSlot, n int) error {
	return output.Few(f.Printer, n, list, table.Row{"SLOT", "WAS", "WAITING", "JOBS"}, func(s caughtSlot) table.Row {
		return table.Row{s.Slot, s.was(), ledger.Count{N: *s.Waiting, AtLeast: s.AtLeast}, strings.Join(s.Jobs, ", ")}
	})
}

// printSums prints what catch-up would take in the listed slots, by job.
func printSums(f *factory.Factory, view caughtView) error {
	rows := make([]table.Row, len(view.Jobs))
	for i, s := range view.Jobs {
		rows[i] = table.Row{s.JobExec, s.count(), s.Slots}
	}
	err := f.Table(table.Row{"JOB", "WAITING", "SLOTS"}, rows...)
	if view.MoreSlots > 0 {
		err = errors.Join(err, f.Sentence(fmt.Sprintf("the rows of %s are not in these sums",
			spoken.Count(view.MoreSlots, "later slot", "later slots"))))
	}
	return err
}
