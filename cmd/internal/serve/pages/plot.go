package pages

import (
	"math"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
)

// plot is a chart over time as an SVG: columns, with problems in lanes below them. Places along the axis of time are in
// percent and heights in pixels, without a view box. So the SVG is as wide as there is room, and its labels keep their
// size. The pages draw their charts themselves and compute each range on the server, because readers without script see
// the charts, too: a library that draws by script, such as uPlot, would draw each one a second time.
type plot struct {
	ID, Title, Desc string
	Unit            string // of the values
	Height          int    // of the SVG
	Floor           int    // where the columns stand
	Columns         []column
	Levels          []level
	Ticks           []tick
	Lanes           []lane
	Now             string // the place of now; empty: outside of the range
	NowClass        string
}

// column is one bar. It stands for the slots from an instant on, and leads to them.
type column struct {
	Label, Link, Class string
	X, Width           string // of the time that it stands for
	BarX, BarWidth     string // of what is drawn, with a gap to the next one
	Y, Height          int    // Height 0: nothing is drawn
	at                 time.Time
}

// level is a line across the plot, and its value.
type level struct {
	Y    int
	Text string
}

// tick is an instant below the plot.
type tick struct {
	X, Text, Class string
}

// lane is a line below the columns for one kind of problem.
type lane struct {
	Name    string
	Y       int
	Columns []column
}

// The heights of the parts of a plot, in pixels.
const (
	plotTop   = 26 // has the unit
	laneStep  = 16
	laneTop   = 6
	tickRoom  = 20
	leastHigh = 3 // of a column that is not zero
)

// canvas places instants and values on a plot.
type canvas struct {
	from, to time.Time
	high     int     // pixels of the highest value
	top      float64 // the highest value
}

// newPlot returns an empty plot of the range [from, to) with room for values up to top, and for lanes.
func newPlot(
	from, to time.Time, high int, top float64, levels []float64, text func(value float64) string, lanes ...string,
) (plot, canvas) {
	c := canvas{from: from, to: to, high: high, top: top}
	p := plot{Floor: plotTop + high, Ticks: c.ticks()}
	for _, value := range levels {
		p.Levels = append(p.Levels, level{p.Floor - c.height(value), text(value)})
	}
	for i, name := range lanes {
		p.Lanes = append(p.Lanes, lane{Name: name, Y: p.Floor + laneTop + i*laneStep})
	}
	p.Height = p.Floor + laneTop + len(lanes)*laneStep + tickRoom
	return p, c
}

func (c canvas) height(value float64) int { return int(math.Round(float64(c.high) * value / c.top)) }

// place returns where an instant is on the axis of time.
func (c canvas) place(at time.Time) float64 {
	return float64(at.Sub(c.from)) / float64(c.to.Sub(c.from))
}

// column returns the column of the slots from an instant on, for a span.
func (c canvas) column(at time.Time, span time.Duration, value float64, floor int) column {
	x, width := c.place(at), float64(span)/float64(c.to.Sub(c.from))
	col := column{
		X: part100(x), Width: part100(width), BarX: part100(x + width/10), BarWidth: part100(width * 0.8), at: at,
	}
	if value > 0 {
		col.Height = max(leastHigh, c.height(value))
	}
	col.Y = floor - col.Height
	return col
}

// now sets the place of now, if it is in the range.
func (c canvas) now(p *plot, now time.Time) {
	if !now.Before(c.from) && now.Before(c.to) {
		p.Now = strconv.FormatFloat(100*c.place(now), 'f', 1, 64) + "%" // the part of an open page changes with it
		p.NowClass = edge(c.place(now))
	}
}

// edge returns the style of a label that would leave the page on one side.
func edge(place float64) string {
	switch {
	case place < 0.03:
		return " left"
	case place > 0.97:
		return " right"
	}
	return ""
}

// part100 writes a part of a whole in percent.
func part100(part float64) string {
	return strconv.FormatFloat(math.Round(100_000*part)/1000, 'f', -1, 64) + "%"
}

// mostTicks bounds the instants that a plot names, and mostLevels the values.
const (
	mostTicks  = 8
	mostLevels = 4
)

// tickSteps are the distances of ticks. People count in them, and each begins with a round instant of UTC.
var tickSteps = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day,
}

const day = 24 * time.Hour

// ticks returns round instants of the range. Each second one is left out on a phone.
func (c canvas) ticks() (list []tick) {
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if c.to.Sub(c.from) <= mostTicks*s {
			step = s
			break
		}
	}
	at := c.from.Truncate(step)
	if at.Before(c.from) {
		at = at.Add(step)
	}
	for ; at.Before(c.to); at = at.Add(step) {
		t := tick{X: part100(c.place(at)), Text: tickText(at, step), Class: edge(c.place(at))}
		if at.Truncate(2*step) != at {
			t.Class += " second"
		}
		if step < day && at.Truncate(day).Equal(at) {
			t.Class += " day"
		}
		list = append(list, t)
	}
	return list
}

// tickText names an instant: midnight by its day.
func tickText(at time.Time, step time.Duration) string {
	switch {
	case at.Truncate(day).Equal(at):
		return at.Format("Jan 2")
	case step < time.Minute:
		return at.Format(time.TimeOnly)
	}
	return at.Format("15:04")
}

// rowLevels returns the top of an axis of rows up to most, and the round numbers on it.
func rowLevels(most int64) (top float64, levels []float64) {
	return levelsOf(float64(roundStep(most)), float64(most))
}

// roundStep returns the distance of at most mostLevels levels up to most: 1, 2 or 5, or ten times that, and so on.
func roundStep(most int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, step := range []int64{unit, 2 * unit, 5 * unit} {
			if mostLevels*step >= most {
				return step
			}
		}
	}
}

// levelsOf returns the multiples of a step from 0 up to the first that is not less than most.
func levelsOf(step, most float64) (top float64, levels []float64) {
	for top = 0; ; top += step {
		levels = append(levels, top)
		if top >= most && top > 0 {
			return top, levels
		}
	}
}

// rowText writes a number of rows for an axis.
func rowText(n float64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'f', -1, 64) + " M"
	case n >= 1e4:
		return strconv.FormatFloat(n/1e3, 'f', -1, 64) + " k"
	}
	return num(int64(n))
}

// durationSteps are the distances on an axis of durations.
var durationSteps = []time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day,
}

// durationLevels returns the top of an axis of durations up to most, and the round durations on it.
func durationLevels(most time.Duration) (top float64, levels []float64) {
	for _, step := range durationSteps {
		if most <= mostLevels*step {
			return levelsOf(float64(step), float64(most))
		}
	}
	return levelsOf(float64(day)*float64(roundStep(int64(most/day)+1)), float64(most))
}

func durationText(d float64) string {
	if d == 0 {
		return "0"
	}
	return spoken.Duration(time.Duration(d))
}

// rangeText names a range of time.
func rangeText(from, to time.Time) string {
	clock := "15:04"
	if from.Second() != 0 || to.Second() != 0 {
		clock = time.TimeOnly
	}
	first := from.Format(time.DateOnly + " " + clock)
	switch {
	case to.Equal(from.Truncate(day).Add(day)):
		return first + " to 24:00 UTC"
	case to.Truncate(day).Equal(from.Truncate(day)):
		return first + " to " + to.Format(clock) + " UTC"
	}
	return first + " to " + to.Format(time.DateOnly+" "+clock) + " UTC"
}
