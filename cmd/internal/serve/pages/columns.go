package pages

import (
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
)

// jobChart shows the rows of a job in its slots, and how long they took.
type jobChart struct{ Rows, Took plot }

// columnsHigh is the height of the highest column, in pixels.
const columnsHigh = 84

// newJobChart returns nil if there is nothing to draw.
func newJobChart(j board.Job, of period, now time.Time) *jobChart {
	if len(j.Cells) == 0 {
		return nil
	}
	var most int64
	var longest time.Duration
	for _, c := range j.Cells {
		most, longest = max(most, c.Checked()), max(longest, time.Duration(c.Took))
	}
	top, levels := rowLevels(most)
	rows, place := newPlot(j.From, j.To, columnsHigh, top, levels, rowText, "failed")
	top, levels = durationLevels(longest)
	took, placeTook := newPlot(j.From, j.To, columnsHigh, top, levels, durationText, "late")
	for _, cell := range slices.Backward(j.Cells) {
		c := place.column(cell.Slot, time.Duration(cell.Span), float64(cell.Checked()), rows.Floor)
		c.Class, c.Label, c.Link = "run", jobCellText(cell, j.Width), cellLink(cell, j.Width, of)
		rows.add(c, cell.Failed > 0)
		t := placeTook.column(cell.Slot, time.Duration(cell.Span), float64(cell.Took), took.Floor)
		t.Class, t.Label, t.Link = c.Class, c.Label, c.Link
		took.add(t, cell.Late > 0)
	}
	place.now(&rows, now)
	placeTook.now(&took, now)
	const desc = "A bar for each slot, or for some slots of a long range, in which the job had rows. " +
		"The table below has the same."
	rows.ID, rows.Title, rows.Desc, rows.Unit = "rows", "Rows", "The rows that were checked. "+desc, "rows"
	took.ID, took.Title, took.Unit = "took", "Took", "time"
	took.Desc = "The time from the opening of a slot to the last row of the job; of some slots the longest. " + desc
	return &jobChart{rows, took}
}

// add adds a column, also to the lane if it is wrong.
func (p *plot) add(c column, wrong bool) {
	p.Columns = append(p.Columns, c)
	if wrong {
		p.Lanes[0].Columns = append(p.Lanes[0].Columns, c)
	}
}

// jobCellText says what a cell of a job shows, if its slots have a width.
func jobCellText(c board.JobCell, width duration.Text) string {
	text, took := spoken.Instant(c.Slot), "took "
	if c.Span > width {
		text, took = fmt.Sprintf("%s for %s, %s", text, dur(c.Span), plural(c.Slots, "slot", "slots")), "the longest took "
	}
	text += ": " + plural(c.Checked(), "row", "rows")
	if c.Failed > 0 {
		text += ", " + num(c.Failed) + " failed"
	}
	if c.Late > 0 {
		text += ", " + num(c.Late) + " late"
	}
	return text + ", " + took + dur(c.Took)
}

// cellLink returns the address of a slot of a job, or of a chart of the slots of a cell.
func cellLink(c board.JobCell, width duration.Text, of period) string {
	if c.Span > width {
		return of.between(c.Slot, c.Slot.Add(time.Duration(c.Span)))
	}
	return link("/slot", "at", c.Slot)
}

// newAheadChart returns nil if no row waits. The chart begins with the slot of now and has 96 slots.
func newAheadChart(all []board.Ahead, width time.Duration, now time.Time) *plot {
	if len(all) == 0 || width <= 0 {
		return nil
	}
	var most int64
	for _, a := range all {
		most = max(most, a.Rows)
	}
	top, levels := rowLevels(most)
	from := now.Truncate(width)
	p, place := newPlot(from, from.Add(board.AheadSlots*width), columnsHigh, top, levels, rowText)
	for _, a := range all {
		c := place.column(a.Slot, width, float64(a.Rows), p.Floor)
		c.Label = fmt.Sprintf("%s: %s", spoken.Instant(a.Slot), counted(a.Count(), "row waits", "rows wait"))
		c.Class, c.Link = "ahead", link("/slot", "at", a.Slot)
		p.Columns = append(p.Columns, c)
	}
	place.now(&p, now)
	p.ID, p.Title, p.Unit = "ahead", "Rows that wait", "rows"
	p.Desc = "A bar for each of the next 96 slots in which rows wait. The table below has the same."
	return &p
}

// gauge compares a duration with the width of the slots, in thousandths of the longer one.
type gauge struct {
	Took, Width int
	Over        bool // the slot was slow
	Text        string
}

// newGauge returns the gauge of a slot. One that waited for a lock of another session is not slow.
func newGauge(took, width time.Duration, waited bool) gauge {
	if width <= 0 {
		return gauge{}
	}
	longest := max(took, width)
	return gauge{
		Took: max(2, int(1000*took/longest)), Width: int(1000 * width / longest), Over: took > width && !waited,
		Text: fmt.Sprintf("%s of %s, %s", dur(took), dur(width), percent(int64(took), int64(width))),
	}
}
