package board

import (
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

const (
	// maxCells bounds the cells of a range.
	maxCells = 100
	// DefaultLast is how far back a Range goes that does not say it.
	DefaultLast = day
)

// Range selects slots for a chart. The zero value is the last day.
type Range struct {
	From, To time.Time // zero From: Last before To; zero To: up to the slot that has begun last
	Last     time.Duration
	Ahead    time.Duration // behind a zero To
}

// key names the range in the cache.
func (r Range) key() string {
	from, to := r.From.UTC().Format(time.RFC3339Nano), r.To.UTC().Format(time.RFC3339Nano)
	return keyOf(from, to, r.Last.String(), r.Ahead.String())
}

// check refuses a range that does not begin before it ends.
func (r Range) check() error {
	if err := action.CheckInstant("from", r.From); err != nil {
		return err
	}
	if err := action.CheckInstant("to", r.To); err != nil {
		return err
	}
	if !r.From.IsZero() && !r.To.IsZero() && !r.From.Before(r.To) {
		return &jobs.FieldError{Field: "from", Message: "must be before to"}
	}
	return nil
}

// resolved is a Range of a grid: the instants [from, to), in whole cells of a span.
type resolved struct {
	from, to time.Time
	span     time.Duration
}

// resolve returns the whole cells that cover the range. A range that names its beginning may have 100,000 slots.
// Another one begins later if it would have more.
func (r Range) resolve(g grid.Grid, now time.Time) (resolved, error) {
	from, to := r.From, r.To
	if to.IsZero() {
		to = g.Next(now).Add(r.Ahead)
	}
	if from.IsZero() {
		last := r.Last
		if last == 0 {
			last = DefaultLast
		}
		from = to.Add(-min(last+r.Ahead, maxSlots*g.Width()))
	}
	if !from.Before(to) { // it begins in the future, and ends now
		return resolved{}, &jobs.FieldError{Field: "from", Message: "must be before to"}
	}
	if n := int64(to.Sub(from) / g.Width()); n > maxSlots {
		return resolved{}, &jobs.FieldError{Field: "from", Message: fmt.Sprintf(
			"the range has %s slots, and a chart shows at most %s: take a shorter one",
			spoken.Number(n), spoken.Number(maxSlots))}
	}
	span := rangeSpan(g.Width(), to.Sub(from))
	v := resolved{from: from.UTC().Truncate(span), to: to.UTC().Truncate(span), span: span}
	if v.to.Before(to) {
		v.to = v.to.Add(span)
	}
	return v, nil
}

// roundSpans are spans of cells that people read easily. Each divides a day.
var roundSpans = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour, day,
}

// rangeSpan returns the span of the cells of a range: one slot if that makes at most maxCells, else the next round span
// of whole slots that does. A range of more days has a cell for each.
func rangeSpan(width, length time.Duration) time.Duration {
	if length <= maxCells*width {
		return width
	}
	for _, span := range roundSpans {
		if span%width == 0 && length <= maxCells*span {
			return span
		}
	}
	return day
}
