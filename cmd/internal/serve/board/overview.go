package board

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/health"
)

const (
	day = 24 * time.Hour
	// overviewAge and pageAge are the maximum ages of a page.
	overviewAge = 8 * time.Second
	pageAge     = 4 * time.Second
	// narrowest is the narrowest cell.
	narrowest = 15 * time.Minute
	// maxMisfires bounds the schedules that the overview names.
	maxMisfires = 20
)

// Overview returns the answer to "is it all right?". acted is the number of the reader's last
// action; 0: none.
func (b *Board) Overview(ctx context.Context, acted int64) (Overview, error) {
	v, err := read(ctx, b.source, first, acted, overviewAge, b.readOverview)
	if f, is := b.forecast(ctx); err == nil && is {
		v.addForecast(f)
	}
	return v, err
}

// glance returns the findings of the overview; see Stores.Glance.
func (b *Board) glance(ctx context.Context) Glance {
	e := b.cache.glance(ctx, first, overviewAge, loadOf(b.source, b.readOverview))
	var v Glance
	if e.running > 0 {
		v.Silent = time.Since(e.tried)
	}
	if last, is := e.value.(kept[Overview]); is {
		v.Findings, v.Age = last.Value.Findings, e.age()
	} else {
		v.Error = "the database has not answered yet"
	}
	if e.err != nil {
		v.Error = reason(e.err)
	}
	return v
}

func (s *source) readOverview(ctx context.Context, r *reader) (v Overview, err error) {
	if v.Consumers, err = readConsumers(ctx, r); err != nil {
		return v, err
	}
	if v.Schedules, err = readMisfires(ctx, r); err != nil {
		return v, err
	}
	paused, err := admin.New(r.client).Paused(ctx, r)
	if err != nil {
		return v, err
	}
	if err := r.slotIndexOnly(ctx); err != nil {
		return v, err
	}
	ledger := r.ledger.In(reserved.Caller{}, r)
	knows, err := ledger.Knows(ctx, s.cfg.Runner.Registry)
	if err != nil {
		return v, err
	}
	report, err := health.Check(ctx, ledger, time.Time{}, health.Thresholds{}, knows)
	if err != nil {
		return v, err
	}
	v.Status = view.NewStatus(report, paused, s.cfg.Self, knows)
	v.Database = view.Database{Private: s.cfg.Private, Server: r.setting.Server, Schema: s.cfg.Schema}
	v.Expected = []forecast.Finding{}
	v.Axis, err = readAxis(ctx, r, report)
	return v, err
}

// readAxis reads the slots of the last and the next day, without their forecast.
func readAxis(ctx context.Context, r *reader, report health.Report) ([]Cell, error) {
	g := r.grid()
	span := cellSpan(g.Width())
	current := g.Floor(report.Now)
	first := current.Add(-day).Truncate(span)
	cells, err := r.cells(ctx, first, current.Add(day), span, current)
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Concat(report.Trouble, report.Running) {
		if c := cellOf(cells, t.Slot); c != nil && t.State == slots.StateDone {
			c.Late = true
		}
	}
	return cells, nil
}

// cellOf returns the cell that has a slot, or nil.
func cellOf(cells []Cell, slot time.Time) *Cell {
	i, exact := slices.BinarySearchFunc(cells, slot, func(c Cell, slot time.Time) int { return c.Slot.Compare(slot) })
	if !exact {
		i--
	}
	if i < 0 || !slot.Before(cells[i].Slot.Add(time.Duration(cells[i].Span))) {
		return nil
	}
	return &cells[i]
}

// Axis is the slots of a range.
type Axis struct {
	Seen
	From, To time.Time
	Cells    []Cell // the oldest first
}

// Axis returns the slots of a range, with their forecast.
func (b *Board) Axis(ctx context.Context, in Range, acted int64) (Axis, error) {
	if err := in.check(); err != nil {
		return Axis{}, err
	}
	o, err := b.Overview(ctx, acted) // which knows the slots that are in trouble
	if err != nil {
		return Axis{}, err
	}
	v, err := read(ctx, b.source, keyOf("axis", in.key()), acted, overviewAge,
		func(ctx context.Context, r *reader) (v Axis, err error) {
			current := r.grid().Floor(r.now())
			is, err := in.resolve(r.grid(), r.now())
			if err != nil {
				return v, err
			}
			if err := r.slotIndexOnly(ctx); err != nil {
				return v, err
			}
			v.From, v.To = is.from, is.to
			v.Cells, err = r.cells(ctx, is.from, is.to, is.span, current)
			for _, t := range o.Stragglers {
				if c := cellOf(v.Cells, t.Slot); c != nil {
					c.Late = true
				}
			}
			return v, err
		})
	if err != nil {
		return v, err
	}
	if f, is := b.forecast(ctx); is {
		v.Cells = expected(v.Cells, f, o.CurrentSlot)
	}
	return v, nil
}

// cells returns the slots in [from, to) in cells of a span, which divides both. current is the slot
// that has begun last.
func (r *reader) cells(ctx context.Context, from, to time.Time, span time.Duration, current time.Time) ([]Cell, error) {
	since, err := r.since(ctx)
	if err != nil {
		return nil, err
	}
	opened := map[time.Time]counted{}
	args := []any{from, to, int64(span / time.Second)}
	_, err = rows(ctx, r, pg.BoardCells, args, func(row *sql.Rows, c *counted) error {
		err := row.Scan(pg.UTC(&c.Slot), &c.opened, &c.Done, &c.last, &c.open, &c.live, &c.CaughtUp, &c.Planned,
			&c.Checked, &c.Failed, pg.Micros(&c.Took), pg.Micros(&c.waiting), &c.WaitedFor)
		opened[c.Slot] = *c
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	cells := []Cell{}
	for slot := from; slot.Before(to); slot = slot.Add(span) {
		cells = append(cells, r.cell(opened[slot], slot, span, since, current))
	}
	return cells, nil
}

// counted holds the ledger's numbers of a cell.
type counted struct {
	Cell
	opened, open, live int64
	last               time.Time     // slot that was opened
	waiting            duration.Text // Took of the slots that waited for a lock of another session
}

// cell returns the state of the slots of a cell. since is the beginning of the ledger.
func (r *reader) cell(c counted, slot time.Time, span time.Duration, since, current time.Time) Cell {
	width := r.grid().Width()
	c.Slot, c.Span, c.Slots = slot, duration.Text(span), int64(span/width)
	// Slots that have ended, so a run must have opened them.
	first, end := grid.Later(slot, r.grid().Ceil(since)), grid.Earlier(slot.Add(span), current)
	over := max(0, int64(end.Sub(first)/width))
	begun := c.last.Equal(current) // the current slot is among the opened ones
	if begun {
		c.Missed = max(0, over-(c.opened-1))
	} else {
		c.Missed = max(0, over-c.opened)
	}
	c.TooLong = time.Duration(c.Took) > width
	c.Took = max(c.Took, c.waiting)
	switch {
	case c.Missed > 0:
		c.State = slots.StateMissed
	case c.open > c.live:
		c.State = slots.StateOpen
	case c.live > 0:
		c.State = StateRunning
	case !begun && !slot.After(current) && slot.Add(span).After(current):
		c.State = view.StateDue
	case c.opened > 0:
		c.State = slots.StateDone
	case slot.After(current):
		c.State = view.StateAhead
	default:
		c.State = view.StateNoLedger
	}
	return c.Cell
}

// cellSpan returns the span of a cell: one slot, or as many as make at least 15 minutes and divide
// a day.
func cellSpan(width time.Duration) time.Duration {
	span := width
	for span < narrowest || day%span != 0 {
		span += width
	}
	return span
}

func readConsumers(ctx context.Context, r *reader) ([]Consumer, error) {
	list, err := rows(ctx, r, pg.BoardConsumers, nil, func(row *sql.Rows, c *Consumer) error {
		return row.Scan(&c.Name, &c.Position.Mark, &c.Position.Number, pg.UTC(&c.AckedAt), &c.Waiting, &c.AtLeast,
			pg.Micros(&c.Oldest))
	})
	if err == nil && len(list) > 0 {
		_, err = rows(ctx, r, pg.EventBounds, nil, func(row *sql.Rows, next *uint64) error {
			err := row.Scan(new(uint64), next)
			for i := range list {
				list[i].Ahead = list[i].Position.Mark >= *next
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the consumers: %w", err)
	}
	return list, nil
}

func readMisfires(ctx context.Context, r *reader) ([]Misfire, error) {
	list, err := rows(ctx, r, pg.BoardMisfires, []any{r.now().Add(-day), maxMisfires},
		func(row *sql.Rows, m *Misfire) error {
			return row.Scan(&m.ID, &m.Dropped, pg.UTC(&m.DroppedAt), pg.UTC(&m.GaveUpAt), &m.Error)
		})
	if err != nil {
		return nil, fmt.Errorf("read which schedules missed something: %w", err)
	}
	return list, nil
}
