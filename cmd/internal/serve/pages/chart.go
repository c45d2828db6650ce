package pages

import (
	"fmt"
	"math"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
)

// The heights of the time axis, in units of its own. The bars stand on its floor. Below it is a
// lane for each kind of problem.
const (
	barStep  = 10
	barFloor = 100
	laneTop  = 108
	laneStep = 18
)

// bar is a cell of the time axis, and its position.
type bar struct {
	board.Cell
	X, Y, Height int
}

// lane is a line below the bars for one kind of problem.
type lane struct {
	Name string
	Y    int
	Bars []bar
}

// tick is a label below the axis.
type tick struct {
	At  time.Time
	Now bool
	Day bool // the first of its day
}

// axis is the chart of the slots of the last and the next hours.
type axis struct {
	Bars          []bar
	Lanes         []lane
	Ticks         []tick
	Width, Height int
	NowX          int
	Most          int64 // rows of the highest bar
}

// newAxis places the bars. A bar of twice the height has four times the rows, because a slot of ten
// rows must be visible beside one of a million. trouble has the rows that are left in slots that were not run to
// their end.
func newAxis(cells []board.Cell, trouble []view.Trouble, now time.Time) axis {
	a := axis{Width: len(cells) * barStep}
	for _, c := range cells {
		for _, t := range trouble {
			if end := c.Slot.Add(time.Duration(c.Span)); c.Checked == 0 &&
				!t.Slot.Before(c.Slot) && t.Slot.Before(end) {
				c.Planned = max(c.Planned, t.Waiting)
			}
		}
		a.Bars = append(a.Bars, bar{Cell: c})
		a.Most = max(a.Most, rows(c))
	}
	for i := range a.Bars {
		b := &a.Bars[i]
		b.X = i * barStep
		b.Height = height(rows(b.Cell), a.Most, barFloor)
		if b.Height == 0 && (b.State == slots.StateDone || b.State == board.StateRunning) {
			b.Height = 2 // the slot was run and was empty
		}
		b.Y = barFloor - b.Height
		if span := time.Duration(b.Span); span > 0 && !b.Slot.After(now) {
			a.NowX = b.X + int(barStep*min(now.Sub(b.Slot), span)/span)
		}
	}
	a.addLanes()
	a.addTicks()
	return a
}

// height returns the height of a bar of n rows, if the highest bar has most.
func height(n, most int64, high int) int {
	if n <= 0 || most <= 0 {
		return 0
	}
	return max(4, int(math.Round(float64(high)*math.Sqrt(float64(n)/float64(most)))))
}

// rows returns how many rows a cell stands for: checked, or still to check.
func rows(c board.Cell) int64 {
	if c.Forecast != nil {
		return c.Forecast.Rows
	}
	if c.Checked == 0 {
		return c.Planned
	}
	return c.Checked
}

func (a *axis) addLanes() {
	a.Lanes = []lane{{Name: "not run"}, {Name: "too long"}, {Name: "failed"}}
	for i := range a.Lanes {
		a.Lanes[i].Y = laneTop + laneStep*i
	}
	for _, b := range a.Bars {
		for i, wrong := range []bool{notRun(b.Cell), b.TooLong, b.Failed > 0} {
			if wrong {
				a.Lanes[i].Bars = append(a.Lanes[i].Bars, b)
			}
		}
	}
	a.Height = laneTop + laneStep*len(a.Lanes)
}

// notRun reports whether a slot of the cell has rows that its run has left, or no run.
func notRun(c board.Cell) bool { return c.Missed > 0 || c.State == slots.StateOpen || c.Late }

// addTicks adds nine labels at equal distances.
func (a *axis) addTicks() {
	if len(a.Bars) == 0 {
		return
	}
	from, last := a.Bars[0].Slot, a.Bars[len(a.Bars)-1]
	span := last.Slot.Add(time.Duration(last.Span)).Sub(from)
	for i := range 9 {
		t := tick{At: from.Add(span * time.Duration(i) / 8).Round(time.Minute), Now: i == 4}
		t.Day = i == 0 || t.At.YearDay() != a.Ticks[i-1].At.YearDay()
		a.Ticks = append(a.Ticks, t)
	}
}

// Label says what a bar shows.
func (b bar) Label() string {
	text := spoken.Instant(b.Slot)
	if b.Slots > 1 {
		text += fmt.Sprintf(" and %s more slots", num(b.Slots-1))
	}
	return text + ": " + says(b.Cell)
}

// says describes a cell in words. For several slots, the rows are their sum, and the time is that
// of the longest.
func says(c board.Cell) string {
	text, longest, expected := stateWords[c.State], "", ", taking about %s"
	if c.Slots > 1 {
		longest, expected = "the longest ", ", at most about %s a slot"
	}
	switch {
	case c.Forecast != nil:
		text = "about " + plural(c.Forecast.Rows, "row", "rows") + " expected"
		if c.Forecast.Took > 0 {
			text += fmt.Sprintf(expected, dur(c.Forecast.Took))
		}
	case c.State == slots.StateDone || c.State == board.StateRunning:
		text += ", " + plural(c.Checked, "row", "rows")
	case c.Missed > 0 && c.Slots > 1:
		text = plural(c.Missed, "slot", "slots") + " missed"
	case notRun(c) && c.Planned > 0:
		text += ", " + plural(c.Planned, "row waits", "rows wait")
	}
	if c.Failed > 0 {
		text += ", " + num(c.Failed) + " failed"
	}
	if c.Took > 0 {
		text += ", " + longest + "took " + dur(c.Took)
	}
	switch {
	case c.TooLong && c.Forecast != nil:
		text += ", and does not end before the next begins"
	case c.TooLong:
		text += ", longer than the width"
	}
	if c.Late {
		text += ", rows were left in it"
	}
	if c.CaughtUp > 0 {
		text += ", by catch-up"
	}
	return text
}

// stateWords are the states of slots for people.
var stateWords = map[slots.State]string{
	slots.StateDone: "run", slots.StateMissed: "missed", slots.StateOpen: "left open", board.StateRunning: "running",
	board.StateDue: "due, and not begun", board.StateAhead: "to come", board.StateNoLedger: "before the ledger began",
	"not opened": "not opened",
}

// stateMarks are the signs of states, which pages never show by colour alone.
var stateMarks = map[slots.State]string{
	slots.StateDone: "ok", slots.StateMissed: "bad", slots.StateOpen: "bad",
	board.StateRunning: "run", board.StateDue: "warn",
	board.StateAhead: "idle", board.StateNoLedger: "idle", "not opened": "idle",
}

// Trouble reports whether something is wrong in a slot of the bar.
func (b bar) Trouble() bool { return notRun(b.Cell) || b.TooLong || b.Failed > 0 }

// Class returns the style of the bar.
func (b bar) Class() string {
	switch {
	case b.Forecast != nil, b.State == board.StateAhead:
		return "ahead"
	case notRun(b.Cell):
		return "left"
	case b.State == board.StateRunning, b.State == board.StateDue:
		return "running"
	}
	return "run"
}
