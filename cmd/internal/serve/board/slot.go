package board

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
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
func (e *NoSlotError) Unwrap() error { return &action.RefusedError{Reason: e.Error()} }

// Slot returns one slot. Returns a NoSlotError if no slot begins at the instant.
func (b *Board) Slot(ctx context.Context, slot time.Time, acted int64) (Slot, error) {
	if err := action.CheckInstant("slot", slot); err != nil {
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
			knows, err := r.ledger.In(reserved.Caller{}, r).Knows(ctx, b.cfg.Runner.Registry)
			if err != nil {
				return v, err
			}
			if v.SlotDetail, err = view.ReadSlot(ctx, r.ledger.In(reserved.Caller{}, r), run, knows); err != nil {
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
			if v.Jobs, err = readSlotJobs(ctx, r, slot); err != nil {
				return v, err
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

func readSlotJobs(ctx context.Context, r *reader, slot time.Time) (list []SlotJob, err error) {
	list, err = rows(ctx, r, pg.BoardSlot, []any{slot, maxSlotJobs}, func(row *sql.Rows, j *SlotJob) error {
		return row.Scan(&j.JobExec, &j.Planned, &j.Finished, &j.Rescheduled, &j.Failed, &j.Late, &j.Error,
			pg.UTC(&j.FirstAt), pg.UTC(&j.LastAt), pg.Micros(&j.Spent))
	})
	if err != nil {
		return nil, fmt.Errorf("read the jobs of a slot: %w", err)
	}
	return list, nil
}
