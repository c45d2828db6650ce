package board

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// maxSlotJobs bounds the listed jobs of a slot.
const maxSlotJobs = 200

// NoSlotError is returned for an instant that is not a slot: it is off the grid and not in the
// ledger, which may have slots of another width.
type NoSlotError struct {
	At, Previous, Next time.Time // Previous and Next are the slots around it
	Width              time.Duration
}

func (e *NoSlotError) Error() string {
	return fmt.Sprintf("%s is not a slot: the width is %s; the slots around it are %s and %s",
		e.At.Format(time.RFC3339Nano), duration.Text(e.Width),
		e.Previous.Format(time.RFC3339), e.Next.Format(time.RFC3339))
}

// Unwrap returns a RefusedError.
func (e *NoSlotError) Unwrap() error { return &RefusedError{e.Error()} }

// Slot returns one slot. Returns a NoSlotError if no slot begins at the instant.
func (b *Board) Slot(ctx context.Context, slot time.Time, acted int64) (Slot, error) {
	if err := checkInstant("slot", slot); err != nil {
		return Slot{}, err
	}
	slot = slot.UTC()
	v, err := read(ctx, b.source, "slot "+slot.Format(time.RFC3339Nano), acted, pageAge,
		func(ctx context.Context, r *reader) (v Slot, err error) {
			g := r.grid()
			run, err := r.state(ctx, slot)
			if err != nil {
				return v, err
			}
			if err := r.slotIndexOnly(ctx); err != nil {
				return v, err
			}
			knows, err := r.ledger.In(r).Knows(ctx, b.cfg.Runner.Registry)
			if err != nil {
				return v, err
			}
			if v.SlotDetail, err = view.ReadSlot(ctx, r.ledger.In(r), run, knows); err != nil {
				return v, err
			}
			v.Previous, v.Next = g.Previous(slot), g.Next(slot)
			since, err := r.since(ctx)
			if err != nil {
				return v, err
			}
			if !slot.Before(since) {
				v.Width = duration.Text(g.Width())
			}
			var work work
			if run.OpenedAt != nil {
				work.began = *run.OpenedAt
			}
			if v.Jobs, err = readSlotJobs(ctx, r, slot, &work); err != nil {
				return v, err
			}
			live := slices.ContainsFunc(v.Claims, func(c ledger.Claim) bool { return c.Live })
			switch {
			case run.State == slots.StateOpen && live:
				work.last = r.setting.Now()
			case run.State == slots.StateDone && run.FinishedAt != nil && len(v.Jobs) == 0:
				work.last = *run.FinishedAt
			}
			if !work.last.IsZero() { // otherwise the slot was not opened, or no outcome was recorded
				v.Took = duration.Text(work.before + max(0, work.last.Sub(work.began)))
			}
			v.Rate = perSecond(run.Checked, v.Took)
			return v, nil
		})
	if f, is := b.forecast(ctx); err == nil && is && slot.After(v.AsOf) {
		for _, s := range f.Slots {
			if s.Slot.Equal(slot) {
				v.Forecast = &Forecast{s.Rows, roundedTook(s)}
			}
		}
	}
	return v, err
}

// work is the time that runners worked on a slot. The time in which the slot was open without a
// runner does not count.
type work struct {
	before      time.Duration // the slot was left
	began, last time.Time     // after that
}

// readSlotJobs returns the jobs of a slot, and completes the work on it by what they recorded.
func readSlotJobs(ctx context.Context, r *reader, slot time.Time, w *work) (list []SlotJob, err error) {
	list, err = rows(ctx, r, pgsql.BoardSlot, []any{slot, maxSlotJobs}, func(row *sql.Rows, j *SlotJob) error {
		var first, last, ofAll, resumed sql.NullTime
		var before int64
		err := row.Scan(&j.JobExec, &j.Planned, &j.Finished, &j.Rescheduled, &j.Failed, &j.Late,
			&j.Error, &first, &last,
			(*int64)(&j.Spent), &ofAll, &before, &resumed)
		w.before, w.last = time.Duration(micros(before)), ofAll.Time
		if resumed.Valid {
			w.began = resumed.Time
		}
		j.FirstAt, j.LastAt, j.Spent = utc(first), utc(last), micros(int64(j.Spent))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the jobs of a slot: %w", err)
	}
	return list, nil
}
