package health

import (
	"context"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// State tells which rows wait in the slots of a store at one moment, and which slots were missed or left open.
type State struct {
	ledger.Status
	// Due counts the overdue rows by job: rows of slots that are missed, left open or done, and those of the
	// current slot if no run has opened it for longer than Prompt. It leaves out paused jobs.
	Due map[string]ledger.Count
	// unopened counts the rows of the current slot, if no run has opened it yet.
	unopened  []ledger.JobCount
	ahead     ledger.Ahead
	dead      int64 // letters
	deadSince time.Time
}

// Read reads the state. since is the first slot to search for missed or open slots; the zero time means the
// ledger's first. A ledger of one transaction at repeatable read reads all of it in one snapshot.
func Read(ctx context.Context, l *ledger.Ledger, since time.Time) (s State, err error) {
	if s.Status, err = l.Status(ctx, since); err != nil {
		return s, err
	}
	if s.Current.State == "" {
		if s.unopened, err = l.Waiting(ctx, s.Current.Slot); err != nil {
			return s, err
		}
	}
	s.Due = map[string]ledger.Count{}
	for _, c := range s.Overdue() {
		s.Due[c.JobExec] = s.Due[c.JobExec].Plus(c.Waiting)
	}
	if s.ahead, err = l.Ahead(ctx); err != nil {
		return s, err
	}
	s.dead, s.deadSince, err = l.DeadLetters(ctx)
	return s, err
}

// OverdueRows counts overdue rows of a job in slots of one state: slots.StateMissed, slots.StateOpen,
// slots.StateDone or StateDue.
type OverdueRows struct {
	ledger.JobCount
	State slots.State
}

// Overdue returns the overdue rows of each slot, by job.
func (s *State) Overdue() (list []OverdueRows) {
	for _, t := range s.Trouble {
		for _, c := range t.Jobs {
			list = append(list, OverdueRows{c, t.State})
		}
	}
	if s.Now.Sub(s.Current.Slot) > Prompt {
		for _, c := range s.unopened {
			if !c.Paused {
				list = append(list, OverdueRows{c, StateDue})
			}
		}
	}
	return list
}

// OverdueCount returns the number of overdue rows.
func (s *State) OverdueCount() (n ledger.Count) {
	for _, c := range s.Due {
		n = n.Plus(c)
	}
	n.AtLeast = n.AtLeast || s.MoreRows
	return n
}

// Slots returns how many slots are missed, left open, have stragglers, or are being run.
func (s *State) Slots() (missed, leftOpen, stragglers, running int64) {
	missed, leftOpen = s.MoreMissed, s.MoreOpen
	for _, t := range s.Trouble {
		switch t.State {
		case slots.StateMissed:
			missed++
		case slots.StateOpen:
			leftOpen++
		default:
			stragglers++
		}
	}
	return missed, leftOpen, stragglers, int64(len(s.Running))
}

// Oldest returns the oldest slot that has begun and is not done, or has stragglers. It returns the zero time if
// there is none.
func (s *State) Oldest() (oldest time.Time) {
	if s.Current.State == "" {
		oldest = s.Current.Slot
	}
	for _, t := range slices.Concat(s.Trouble, s.Running) {
		if oldest.IsZero() || t.Slot.Before(oldest) {
			oldest = t.Slot
		}
	}
	return oldest
}

// Ahead returns how far the ledger lies beyond the current slot, because the clock was ahead.
func (s *State) Ahead() time.Duration { return s.ahead.By(s.Current.Slot) }

// DeadLetters returns the number of dead letters.
func (s *State) DeadLetters() int64 { return s.dead }
