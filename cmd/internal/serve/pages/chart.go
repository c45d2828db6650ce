package pages

import (
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// bar is a cell of the time axis.
type bar struct {
	board.Cell
	AtLeast bool // counting the rows that wait stopped at Planned: there are that many or more
}

// axis is the chart of the slots of a range, and what its table has.
type axis struct {
	Plot plot
	Bars []bar
}

// axisHigh is the height of the highest bar, in pixels.
const axisHigh = 132

// newAxis returns the chart of the cells of a range, the oldest first. trouble has the rows that are left in slots that
// were not run to their end.
func newAxis(cells []board.Cell, trouble []view.Trouble, now time.Time) axis {
	var a axis
	var most int64
	for _, c := range cells {
		var left ledger.Count
		for _, t := range trouble {
			if end := c.Slot.Add(time.Duration(c.Span)); c.Checked == 0 &&
				!t.Slot.Before(c.Slot) && t.Slot.Before(end) {
				left = left.Plus(t.Count())
			}
		}
		c.Planned = max(c.Planned, left.N)
		a.Bars = append(a.Bars, bar{c, left.AtLeast && c.Planned == left.N})
		most = max(most, rows(c))
	}
	if len(a.Bars) == 0 {
		return a
	}
	last := cells[len(cells)-1]
	top, levels := rowLevels(most)
	p, place := newPlot(cells[0].Slot, last.Slot.Add(time.Duration(last.Span)), axisHigh, top, levels, rowText,
		"not run", "too long", "failed")
	for _, b := range a.Bars {
		c := place.column(b.Slot, time.Duration(b.Span), float64(rows(b.Cell)), p.Floor)
		if c.Height == 0 && (b.State == slots.StateDone || b.State == board.StateRunning) {
			c.Y, c.Height = c.Y-1, 1 // the slot was run and was empty
		}
		c.Label, c.Class, c.Link = b.Label(), b.Class(), b.Link()
		p.Columns = append(p.Columns, c)
		for i, wrong := range []bool{notRun(b.Cell), b.TooLong, b.Failed > 0} {
			if wrong {
				p.Lanes[i].Columns = append(p.Lanes[i].Columns, c)
			}
		}
	}
	place.now(&p, now)
	p.ID, p.Unit, p.Title = "axis-chart", "rows", "Slots of "+rangeText(place.from, place.to)
	p.Desc = "A bar for each slot, or for some slots of a long range: the rows that were checked, or those to come. " +
		"Below it, in a lane each: slots that were not run to their end, that took too long, and in which checks failed. " +
		"The table below has the same."
	a.Plot = p
	return a
}

// Rows says how high the bar is.
func (b bar) Rows() string {
	switch n := num(rows(b.Cell)); {
	case coming(b.Cell) && rows(b.Cell) > 0:
		return "about " + n
	case notRun(b.Cell) && b.Checked == 0 && b.Planned > 0:
		return string(tally(b.waiting())) + " wait"
	default:
		return n
	}
}

// Time says how long the longest slot of the bar took, or takes.
func (b bar) Time() string {
	switch {
	case coming(b.Cell) && b.Forecast.Rows > 0 && b.Forecast.Took > 0:
		return "about " + dur(b.Forecast.Took)
	case b.Took > 0:
		return dur(b.Took)
	}
	return ""
}

// CaughtUpText says how many slots of the bar catch-up has opened.
func (b bar) CaughtUpText() string {
	switch {
	case b.CaughtUp == 0:
		return ""
	case b.CaughtUp < b.Done:
		return plural(b.CaughtUp, "slot", "slots") + " by catch-up"
	}
	return "by catch-up"
}

// Link returns the address of the slot, or of a chart of the slots of the bar.
func (b bar) Link() string {
	if b.Slots > 1 {
		return link("/ledger", "from", b.Slot, "to", b.Slot.Add(time.Duration(b.Span)))
	}
	return link("/slot", "at", b.Slot)
}

// rows returns how many rows a cell stands for: checked, or still to check.
func rows(c board.Cell) int64 {
	if coming(c) {
		return c.Forecast.Rows
	}
	if c.Checked == 0 {
		return c.Planned
	}
	return c.Checked
}

// waiting returns the rows of a bar whose slots were not run.
func (b bar) waiting() ledger.Count { return ledger.Count{N: b.Planned, AtLeast: b.AtLeast} }

// coming reports whether a cell stands for its forecast. The cell in which now is does so until one of its slots has
// rows or was missed.
func coming(c board.Cell) bool { return c.Forecast != nil && c.Checked == 0 && !notRun(c) }

// notRun reports whether a slot of the cell has rows that its run has left, or no run.
func notRun(c board.Cell) bool { return c.Missed > 0 || c.State == slots.StateOpen || c.Late }

// Label says what a bar shows.
func (b bar) Label() string {
	text := spoken.Instant(b.Slot)
	if b.Slots > 1 {
		text += fmt.Sprintf(" and %s more slots", num(b.Slots-1))
	}
	return text + ": " + b.says()
}

// says describes a cell in words.
func says(c board.Cell) string { return bar{Cell: c}.says() }

// says describes the bar in words. For several slots, the rows are their sum, and the time is that
// of the longest.
func (b bar) says() string {
	c := b.Cell
	text, longest := stateWords[c.State], ""
	if c.Slots > 1 {
		longest = "the longest "
	}
	switch {
	case coming(c):
		text = expects(c)
	case c.State == slots.StateDone || c.State == board.StateRunning:
		text += ", " + plural(c.Checked, "row", "rows")
	case c.Missed > 0 && c.Slots > 1:
		text = plural(c.Missed, "slot", "slots") + " missed"
		if c.Checked > 0 {
			text += ", " + plural(c.Checked, "row", "rows") + " checked"
		} else if c.Planned > 0 {
			text += ", " + counted(b.waiting(), "row waits", "rows wait")
		}
	case notRun(c) && c.Planned > 0:
		text += ", " + counted(b.waiting(), "row waits", "rows wait")
	}
	if c.Failed > 0 {
		text += ", " + num(c.Failed) + " failed"
	}
	if c.Took > 0 {
		text += ", " + longest + "took " + dur(c.Took)
	}
	over := c.TooLong && (c.Forecast == nil || time.Duration(c.Took)*time.Duration(c.Slots) > time.Duration(c.Span))
	if over && !coming(c) {
		text += ", longer than the width"
	}
	if c.Forecast != nil && !coming(c) {
		text += ", " + expects(c)
	}
	if c.TooLong && !over {
		text += ", and does not end before the next begins"
	}
	if c.WaitedFor != "" {
		text += ", rows waited for a lock of " + c.WaitedFor
	}
	if c.Late {
		text += ", rows were left in it"
	}
	if by := b.CaughtUpText(); by != "" {
		text += ", " + by
	}
	return text
}

// expects describes the forecast of a cell.
func expects(c board.Cell) string {
	text := "about " + plural(c.Forecast.Rows, "row", "rows") + " expected"
	switch {
	case c.Forecast.Rows == 0:
		return "no rows expected"
	case c.Forecast.Took == 0:
		return text
	case c.Slots > 1:
		return text + ", at most about " + dur(c.Forecast.Took) + " a slot"
	}
	return text + ", taking about " + dur(c.Forecast.Took)
}

// stateWords are the states of slots for people.
var stateWords = map[slots.State]string{
	slots.StateDone: "run", slots.StateMissed: "missed", slots.StateOpen: "left open", board.StateRunning: "running",
	view.StateDue: "due, and not begun", view.StateAhead: "to come", view.StateNoLedger: "before the ledger began",
}

// stateMarks are the signs of states, which pages never show by colour alone.
var stateMarks = map[slots.State]string{
	slots.StateDone: "ok", slots.StateMissed: "bad", slots.StateOpen: "bad",
	board.StateRunning: "run", view.StateDue: "warn",
	view.StateAhead: "idle", view.StateNoLedger: "idle",
}

// Trouble reports whether something is wrong in a slot of the bar.
func (b bar) Trouble() bool { return notRun(b.Cell) || b.TooLong || b.Failed > 0 }

// Class returns the style of the bar.
func (b bar) Class() string {
	switch {
	case coming(b.Cell), b.State == view.StateAhead:
		return "ahead"
	case notRun(b.Cell):
		return "left"
	case b.State == board.StateRunning, b.State == view.StateDue:
		return "running"
	}
	return "run"
}
