package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// CatchUp says which missed slots to catch up on, and how. The zero value runs all of them.
type CatchUp struct {
	Mode slots.Mode // default slots.ModeRun
	// Since and Until bound the slots: from Since up to but not including Until. Zero: no bound.
	Since, Until time.Time
	// DryRun only lists the slots.
	DryRun bool
}

// Missed is a slot of the past that has executables in its directory.
type Missed struct {
	Slot time.Time
	// Waiting is how many there are, those included that are never run.
	Waiting int
	// Result of this catch-up; nil when it was a dry run, or stopped before.
	Result *Result
}

// CatchUp goes through the missed slots, oldest first and one at a time. The current slot belongs to its run. A slot
// with an error does not keep it from the next one. It returns what it has done beside any error.
func (s *Spool) CatchUp(ctx context.Context, c CatchUp) ([]Missed, error) {
	judge, err := s.judge(c.Mode)
	if err != nil {
		return nil, err
	}
	missed, err := s.missed(c)
	if err != nil {
		return nil, fmt.Errorf("find missed slots: %w", err)
	}
	if c.DryRun {
		return missed, nil
	}
	var errs []error
	for i := range missed {
		if ctx.Err() != nil {
			return missed, errors.Join(append(errs, slots.ErrStopped)...)
		}
		result, err := s.run(ctx, missed[i].Slot, slots.KindCatchUp, judge)
		missed[i].Result = &result
		errs = append(errs, err)
	}
	return missed, errors.Join(errs...)
}

// judge is what a mode does with an executable.
func (s *Spool) judge(mode slots.Mode) (judge, error) {
	switch mode {
	case "", slots.ModeRun:
		return check, nil
	case slots.ModeDefer:
		return func(_ *jobs.Definition, m guard.Moment) (guard.Verdict, action) {
			return guard.Defer(m), actRecord
		}, nil
	case slots.ModeExpire:
		return func(d *jobs.Definition, m guard.Moment) (guard.Verdict, action) {
			if guard.PastDeadline(d, m) {
				return guard.Verdict{Outcome: jobs.DeadlinePassed}, actRecord
			}
			return guard.Verdict{}, actLeave
		}, nil
	}
	return nil, fmt.Errorf("catch up: mode %q: must be %s, %s or %s", mode, slots.ModeRun, slots.ModeDefer, slots.ModeExpire)
}

// missed lists the slots before the current one that have executables, oldest first.
func (s *Spool) missed(c CatchUp) ([]Missed, error) {
	entries, err := readDir(s.dir)
	if err != nil {
		return nil, err
	}
	var list []Missed
	current := s.current()
	for _, info := range entries { // their names sort like their slots
		slot, ok := parseSlot(info.Name())
		if !ok || s.slotRefusal(info) != "" || !slot.Before(current) || slot.Before(c.Since) || !c.Until.IsZero() && !slot.Before(c.Until) {
			continue
		}
		content, err := s.files(info.Name())
		if err != nil {
			return nil, err
		}
		if len(content) > 0 {
			list = append(list, Missed{Slot: slot, Waiting: len(content)})
		}
	}
	return list, nil
}
