package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/cmd/internal/perform"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// remainingView is the remaining work in a slot that catch-up has not finished, or would work on in a
// dry run.
type remainingView struct {
	Waiting *int64   `json:"waiting"`  // rows that are left in the slot, counted as in status; null: none is left
	Jobs    []string `json:"jobs"`     // the jobs of these rows
	Live    bool     `json:"live"`     // a run works on the slot, and catch-up leaves it to that run
	AtLeast bool     `json:"at_least"` // counting stopped at waiting: there are that many or more
}

// addRemaining adds to a view the remaining work of its slots.
func addRemaining(ctx context.Context, store *action.Store, a action.CatchUp, view *caughtView) error {
	open := []slots.MissedSlot{}
	at := []int{} // of these slots in the view
	for i, s := range view.Slots {
		view.Slots[i].Jobs = []string{}
		if s.Result == nil || s.Result.State == slots.StateOpen {
			open, at = append(open, slots.MissedSlot{Slot: s.Slot, State: s.Was}), append(at, i)
		}
	}
	if len(open) == 0 || ctx.Err() != nil {
		return nil
	}
	return pgsql.ReadTx(ctx, store.DB, func(tx *sqlx.Tx) error {
		found, err := a.Waiting(ctx, action.Tx{Store: store, Tx: tx}, open)
		for i, slot := range found {
			view.Slots[at[i]].add(slot)
		}
		view.Jobs = sum(found)
		return err
	})
}

func (r *remainingView) add(slot action.FoundSlot) {
	var n ledger.Count
	r.Live, r.Jobs = slot.Live, []string{}
	for _, job := range slot.Jobs {
		n = n.Plus(job.Waiting)
		r.Jobs = append(r.Jobs, job.JobExec)
	}
	r.Waiting, r.AtLeast = &n.N, n.AtLeast
}

// sum sums up the remaining work by job. The run that works on a slot takes the rows of that slot.
func sum(found []action.FoundSlot) []jobSum {
	sums := map[string]jobSum{}
	for _, slot := range found {
		for _, job := range slot.Jobs {
			if !slot.Live {
				s := sums[job.JobExec]
				n := s.count().Plus(job.Waiting)
				sums[job.JobExec] = jobSum{job.JobExec, n.N, s.Slots + 1, n.AtLeast}
			}
		}
	}
	list := slices.AppendSeq([]jobSum{}, maps.Values(sums)) // as JSON an empty list, not null
	slices.SortFunc(list, func(a, b jobSum) int { return cmp.Compare(a.JobExec, b.JobExec) })
	return list
}

// was returns the state in which catch-up found a slot.
func (s caughtSlot) was() string {
	if s.Live {
		return "being run"
	}
	return view.StateWord(s.Was)
}

// dryRun prints the slots that catch-up would work on, and what it would do. It prints nothing for none.
func dryRun(ctx context.Context, f *factory.Factory, store *action.Store, a action.CatchUp) error {
	var found action.Found
	var plan action.Plan
	err := pgsql.ReadTx(ctx, store.DB, func(tx *sqlx.Tx) (err error) {
		on := action.Tx{Store: store, Tx: tx}
		if plan, err = action.Preview(ctx, on, a); err == nil {
			found, err = a.Find(ctx, on)
		}
		return err
	})
	if err != nil {
		return err
	}
	v := caughtView{
		Mode: a.Mode, DryRun: true, Empty: found.Empty, Slots: make([]caughtSlot, len(found.Slots)),
		MoreSlots: found.MoreSlots, Jobs: sum(found.Slots),
	}
	for i, slot := range found.Slots {
		v.Slots[i] = caughtSlot{Slot: slot.Slot, Was: slot.State}
		v.Slots[i].add(slot)
	}
	return f.Print(v, func() error {
		if plan.Nothing && len(v.Slots) == 0 {
			return nil
		}
		return errors.Join(printDryRun(f, v), perform.Print(f, plan))
	})
}

// printDryRun prints the slots that catch-up would work on, and their rows by job.
func printDryRun(f *factory.Factory, view caughtView) (err error) {
	if len(view.Slots) > 0 {
		err = errors.Join(printRemaining(f, view.Slots, len(view.Slots)+int(view.MoreSlots)), f.Lines(""))
	}
	if len(view.Jobs) > 0 {
		err = errors.Join(err, printSums(f, view), f.Lines(""))
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
	err := output.Rows(f.Printer, view.Jobs, table.Row{"JOB", "WAITING", "SLOTS"},
		func(s jobSum) table.Row { return table.Row{s.JobExec, s.count(), s.Slots} })
	if view.MoreSlots > 0 {
		err = errors.Join(err, f.Sentence(fmt.Sprintf("the rows of %s are not in these sums",
			spoken.Count(view.MoreSlots, "later slot", "later slots"))))
	}
	return err
}
