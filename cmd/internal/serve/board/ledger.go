package board

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/ledger"
)

const (
	// maxDays bounds the days of a heat map.
	maxDays = 31
	// maxSlots bounds the slots of a heat map. With narrow slots it has fewer days.
	maxSlots = 100_000
	// ledgerAge is the maximum age of a heat map.
	ledgerAge = time.Minute
)

// Ledger returns the heat map of the last days, 1 to 31, including today. It has fewer days if
// these would be more than 100,000 slots.
func (b *Board) Ledger(ctx context.Context, days int, acted int64) (Ledger, error) {
	if days < 1 || days > maxDays {
		return Ledger{}, &action.RefusedError{Reason: fmt.Sprintf("days: must be 1 to %d", maxDays)}
	}
	return read(ctx, b.source, fmt.Sprintf("ledger %d", days), acted, ledgerAge,
		func(ctx context.Context, r *reader) (Ledger, error) {
			g := r.grid()
			current := g.Floor(r.now())
			days := max(1, min(days, int(maxSlots/(day/g.Width()))))
			today := current.Truncate(day)
			span := cellSpan(g.Width())
			cells, err := r.cells(ctx, today.AddDate(0, 0, 1-days), today.AddDate(0, 0, 1), span, current)
			if err != nil {
				return Ledger{}, err
			}
			since, err := r.since(ctx)
			v := Ledger{Width: duration.Text(g.Width()), Since: since, Days: []LedgerDay{}}
			for n := int(day / span); len(cells) > 0; cells = cells[:len(cells)-n] {
				list := cells[len(cells)-n:]
				v.Days = append(v.Days, LedgerDay{list[0].Slot.Format(time.DateOnly), list})
			}
			return v, err
		})
}

// state returns the row of a slot, opened or not, or a NoSlotError.
func (r *reader) state(ctx context.Context, slot time.Time) (ledger.SlotRun, error) {
	l := r.ledger.In(reserved.Caller{}, r)
	run, err := l.Show(ctx, slot)
	if !errors.Is(err, ledger.ErrNoSlot) {
		return run, err
	}
	run = ledger.SlotRun{Slot: slot, Runners: []string{}}
	g := l.Grid()
	if !g.Contains(slot) {
		return run, &NoSlotError{slot, g.Floor(slot), g.Next(slot), g.Width()}
	}
	since, err := r.since(ctx)
	if err != nil {
		return run, err
	}
	run.State = view.Unopened(slot, since, g.Floor(r.now()))
	return run, nil
}
