package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Mode is what catch-up does with the rows of missed slots.
type Mode string

// The modes.
const (
	// ModeRun checks each row, or defers or skips it, as its job's misfire policy says.
	ModeRun Mode = "run"
	// ModeDefer moves every row to the next slots, unchecked.
	ModeDefer Mode = "defer"
	// ModeExpire archives the rows past their job's deadline, and leaves the others.
	ModeExpire Mode = "expire"
)

// CatchUp selects the missed slots to repair, and how. The zero value runs all of them.
type CatchUp struct {
	Mode Mode // default ModeRun
	// Since and Until bound the slots: from Since up to but not including Until. Zero: no bound.
	Since, Until time.Time
	// Job restricts the catch-up to the rows of one job. A slot with rows of other jobs stays open. The call for a
	// group gets only the rows of this job.
	Job string
	// Limit bounds the rows to take; 0: no limit. The group of a row that is taken is checked whole, so more rows than
	// that may be checked.
	Limit int64
	// Spread is the number of slots, from the next one on, over which ModeDefer spreads the rows by their keys. Default 1.
	Spread int
	// DryRun only lists the slots.
	DryRun bool
	// Each is called before each slot that has rows. Optional.
	Each func(MissedSlot)
}

// MissedSlot is a slot in the past that has rows: it was missed, or left open by a runner that died, or it has
// stragglers.
type MissedSlot struct {
	Slot  time.Time
	State State // StateMissed, StateOpen or StateDone (stragglers)
}

// Caught is the result of a catch-up.
type Caught struct {
	Slots []MissedSlot // with rows, oldest first
	// Empty slots were missed and had nothing to do. They have ledger rows now, unless it was a dry run.
	Empty int64
	// Results has one entry for each of Slots that was worked on.
	Results []Result
}

// CatchUp goes through the missed slots, oldest first and one at a time, under the same leases as every run. Concurrent
// catch-ups share the work, and leave a slot that is being run to its runners. CatchUp takes the current slot only if
// a run has opened it: a slot that has just begun belongs to its run.
func (r *Runner) CatchUp(ctx context.Context, c CatchUp) (Caught, error) {
	sel, err := r.selection(c)
	if err != nil {
		return Caught{}, err
	}
	caught, err := r.missed(ctx, c)
	if err != nil || c.DryRun {
		return caught, err
	}
	var errs []error
	for _, missed := range caught.Slots {
		if ctx.Err() != nil {
			return caught, errors.Join(append(errs, ErrStopped)...)
		}
		if c.Each != nil {
			c.Each(missed)
		}
		result, err := r.run(ctx, missed.Slot, sel)
		caught.Results = append(caught.Results, result)
		if isEarly(err) || errors.Is(err, errOffGrid) { // the width was changed meanwhile
			continue
		}
		if err != nil && !errors.Is(err, ErrAbandoned) && !errors.Is(err, ErrRefused) {
			return caught, errors.Join(append(errs, err)...)
		}
		errs = append(errs, err)
		if sel.limit > 0 {
			if sel.limit -= result.Checked + result.Yielded + result.Refused; sel.limit <= 0 {
				break
			}
		}
	}
	return caught, errors.Join(errs...)
}

// selection checks a CatchUp and turns its mode into a judge.
func (r *Runner) selection(c CatchUp) (selection, error) {
	sel := selection{kind: KindCatchUp, job: c.Job, limit: c.Limit}
	switch {
	case c.Limit < 0:
		return sel, fmt.Errorf("catch up: limit %d: must not be negative", c.Limit)
	case c.Spread < 0 || c.Spread > 1 && c.Mode != ModeDefer:
		return sel, fmt.Errorf("catch up: spread %d: must be positive, and is for mode %s alone", c.Spread, ModeDefer)
	case c.Spread > maxSpread:
		return sel, fmt.Errorf("catch up: spread %d: must be at most %d slots", c.Spread, maxSpread)
	}
	switch c.Mode {
	case "", ModeRun:
		sel.judge = check
	case ModeDefer:
		sel.judge = deferAll(max(c.Spread, 1))
	case ModeExpire:
		sel.leave = true
		sel.judge = expire
	default:
		return sel, fmt.Errorf("catch up: mode %q: must be %s, %s or %s", c.Mode, ModeRun, ModeDefer, ModeExpire)
	}
	return sel, nil
}

// maxSpread keeps the total width of a spread within a time.Duration.
const maxSpread = 100_000

// deferAll returns the judge that moves rows to the next slots, each to the one that its key picks; its id picks that of
// an anonymous row.
func deferAll(over int) judge {
	return func(_ *engine.Definition, row *jobs.FutureJob, m guard.Moment) (*guard.Verdict, bool) {
		key, next := row.Key(), m.Grid.Next(m.Latest())
		if row.Anonymous {
			key.ItemKey = strconv.FormatInt(row.ID, 10)
		}
		next = spread.Key(key).Place(m.Grid, next, time.Duration(over)*m.Grid.Width(), next)
		return &guard.Verdict{Move: guard.MoveDefer, Next: next}, false
	}
}

func expire(d *engine.Definition, _ *jobs.FutureJob, m guard.Moment) (verdict *guard.Verdict, stays bool) {
	if guard.PastDeadline(d, m) {
		return &guard.Verdict{Outcome: jobs.DeadlinePassed}, false
	}
	return nil, true
}

// missed finds the slots to repair, and records those without rows in the ledger.
func (r *Runner) missed(ctx context.Context, c CatchUp) (Caught, error) {
	var caught Caught
	current := r.Grid().Floor(r.Now())
	since, until := r.Grid().Ceil(timeOr(c.Since, grid.Min)), timeOr(c.Until, r.Grid().Next(current))
	gaps := pgsql.LedgerFill
	if c.DryRun {
		gaps = pgsql.LedgerGaps
	}
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	m.Add(gaps.In(r.schema), []any{since, grid.Earlier(until, current)}, func(row *sql.Rows) error {
		return row.Scan(&caught.Empty, new(sql.NullTime), new(sql.NullTime)) // the first and the last of them
	})
	args := []any{since, grid.Earlier(until, r.Grid().Next(current))}
	m.Add(pgsql.PastSlots.In(r.schema), args, func(row *sql.Rows) error {
		var m MissedSlot
		err := row.Scan(&m.Slot, &m.State)
		m.Slot = m.Slot.UTC()
		caught.Slots = append(caught.Slots, m)
		return err
	})
	err := r.server.Retry(ctx, server.Passes, func() error {
		caught = Caught{}
		return r.server.Commit(ctx, &m)
	})
	if err != nil && ctx.Err() != nil {
		return caught, ErrStopped
	}
	if err != nil {
		return caught, fmt.Errorf("find missed slots: %w", err)
	}
	caught.Slots = slices.DeleteFunc(caught.Slots, func(m MissedSlot) bool {
		return m.Slot.Equal(current) && m.State == StateMissed // it has just begun
	})
	if c.DryRun {
		for _, m := range caught.Slots {
			if m.State == StateMissed {
				caught.Empty-- // a gap of the ledger, but not an empty slot
			}
		}
	}
	return caught, nil
}
