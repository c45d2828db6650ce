package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/slots"
)

const (
	heatLevels = 5
	heatRow    = 20 // high, in pixels, as the labels beside it
	heatCell   = 10 // wide, in units that stretch
)

// heat is a picture of the ledger: a row for each day, and a cell for each slot. The more rows a
// slot had, the darker its cell.
type heat struct {
	Width, Height int
	Levels        []shape // cells by number of rows; 0: none
	Missed        string  // cells with a missed slot, as the path of an SVG
	Failed        string  // marks of cells with failed checks
	Days          []heatDay
}

// shape is the cells of one colour as one path, because thousands of elements would be slow.
type shape struct {
	Level int
	Path  string
}

type heatDay struct {
	Day   string
	Label string
	Wrong bool
}

func newHeat(days []board.LedgerDay) heat {
	var h heat
	var most int64
	for _, d := range days {
		h.Width = max(h.Width, len(d.Cells)*heatCell)
		for _, c := range d.Cells {
			most = max(most, c.Checked)
		}
	}
	levels := make([]strings.Builder, heatLevels+1)
	var missed, failed strings.Builder
	for row, d := range days {
		wrong := false
		for i, c := range d.Cells {
			x, y := i*heatCell, row*heatRow
			switch {
			case notRun(c):
				wrong = true
				fmt.Fprintf(&missed, "M%d %dh9v16h-9z", x, y+2)
			case c.State == slots.StateDone || c.State == board.StateRunning:
				fmt.Fprintf(&levels[heatLevel(c.Checked, most)], "M%d %dh9v16h-9z", x, y+2)
			}
			if c.Failed > 0 {
				wrong = true
				fmt.Fprintf(&failed, "M%d %dh9v5h-9z", x, y+13)
			}
		}
		day, _ := time.Parse(time.DateOnly, d.Day)
		h.Days = append(h.Days, heatDay{d.Day, day.Format("Mon Jan 2"), wrong})
	}
	for level := range levels {
		h.Levels = append(h.Levels, shape{level, levels[level].String()})
	}
	h.Missed, h.Failed, h.Height = missed.String(), failed.String(), len(days)*heatRow
	return h
}

// heatLevel returns a level from 0, no rows, to heatLevels, the most rows.
func heatLevel(n, most int64) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Ceil(heatLevels*math.Sqrt(float64(n)/float64(most)))))
}

// daySum sums up a day of the ledger.
type daySum struct {
	Day                   string
	Run, CaughtUp, Missed int64
	Checked, Failed       int64
	Took                  time.Duration
	Wrong                 []bar
}

func daySums(days []board.LedgerDay) (list []daySum) {
	for _, d := range days {
		sum := daySum{Day: d.Day}
		for _, c := range d.Cells {
			sum.Run += c.Done
			sum.CaughtUp, sum.Missed = sum.CaughtUp+c.CaughtUp, sum.Missed+c.Missed
			sum.Checked, sum.Failed = sum.Checked+c.Checked, sum.Failed+c.Failed
			sum.Took = max(sum.Took, time.Duration(c.Took))
			if b := (bar{c}); b.Trouble() {
				sum.Wrong = append(sum.Wrong, b)
			}
		}
		list = append(list, sum)
	}
	return list
}

// beforeLedger reports whether a day ended before the beginning of the ledger.
func beforeLedger(d board.LedgerDay) bool {
	return !slices.ContainsFunc(d.Cells, func(c board.Cell) bool { return c.State != board.StateNoLedger })
}
