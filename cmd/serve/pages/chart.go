package pages

import (
	"fmt"
	"math"
	"time"

	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/slots"
)

// The time axis is so high, in units of its own: the bars stand on its floor, and below it is a lane for each thing that may be
// wrong.
const (
	barStep  = 10
	barFloor = 100
	laneTop  = 108
	laneStep = 18
)

// bar is a cell of the time axis, and where it stands.
type bar struct {
	board.Cell
	X, Y, Height int
}

// lane is a line below the bars for one thing that is wrong.
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

// axis is the chart of the slots of the last and next hours.
type axis struct {
	Bars          []bar
	Lanes         []lane
	Ticks         []tick
	Width, Height int
	NowX          int
	Most          int64 // rows of the highest bar
}

// newAxis places the bars: their heights grow with the square root, since a slot of ten rows matters beside one of a million.
// What is left in slots that were not run to their end is counted by trouble.
func newAxis(cells []board.Cell, trouble []view.Trouble, now time.Time) axis {
	a := axis{Width: len(cells) * barStep}
	for _, c := range cells {
		for _, t := range trouble {
			if end := c.Slot.Add(time.Duration(c.Span)); c.Checked == 0 && !t.Slot.Before(c.Slot) && t.Slot.Before(end) {
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
			b.Height = 2 // it was run, and there was nothing to do
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

// height is how high a bar of n is where the highest has most.
func height(n, most int64, high int) int {
	if n <= 0 || most <= 0 {
		return 0
	}
	return max(4, int(math.Round(float64(high)*math.Sqrt(float64(n)/float64(most)))))
}

// rows is how many rows a cell stands for: checked, or still to be.
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

// notRun tells whether rows were, or are, left behind in a slot of the cell.
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
	text := b.Slot.Format("Jan 2, 15:04")
	if b.Slots > 1 {
		text += fmt.Sprintf(" and %s more slots", num(b.Slots-1))
	}
	return text + ": " + says(b.Cell)
}

// says is a cell in words. Of several slots the rows are those of all of them, and the time is that of the one that took longest.
func says(c board.Cell) string {
	text, longest := stateWords[c.State], ""
	if c.Slots > 1 {
		longest = "the longest "
	}
	switch {
	case c.Forecast != nil:
		text = "about " + plural(c.Forecast.Rows, "row", "rows") + " to come"
		if c.Forecast.Took > 0 {
			text += ", " + longest + "in about " + dur(c.Forecast.Took)
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
	board.StateDue: "due, and not begun", board.StateAhead: "to come", board.StateNoLedger: "before the ledger began", "not opened": "not opened",
}

// stateMarks are the signs of states, which are never told by colour alone.
var stateMarks = map[slots.State]string{
	slots.StateDone: "ok", slots.StateMissed: "bad", slots.StateOpen: "bad", board.StateRunning: "run", board.StateDue: "warn",
	board.StateAhead: "idle", board.StateNoLedger: "idle", "not opened": "idle",
}

// Trouble tells whether something is wrong in it.
func (b bar) Trouble() bool { return notRun(b.Cell) || b.TooLong || b.Failed > 0 }

// Class is how it is drawn.
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
