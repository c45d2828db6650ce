package pages

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/slots"
)

const (
	heatLevels   = 5
	heatRow      = 20 // high, in pixels, as the labels beside it
	heatCellWide = 10 // in units that stretch
)

// heat is a picture of the ledger: a row for each day, and a cell for each slot. The more rows a
// slot had, the darker its cell.
type heat struct {
	Width, Height int
	Cells         []heatCell // of slots that have begun
	Days          []heatDay
}

// heatCell is one cell. It leads to its slot, or to the chart of its slots.
type heatCell struct {
	bar
	X, Y  int
	Style string // missed, or the level of its rows
}

type heatDay struct {
	Day   string
	Label string
	Wrong bool
}

func newHeat(days []board.LedgerDay) heat {
	h := heat{Height: len(days) * heatRow}
	var most int64
	for _, d := range days {
		h.Width = max(h.Width, len(d.Cells)*heatCellWide)
		for _, c := range d.Cells {
			most = max(most, c.Checked)
		}
	}
	for row, d := range days {
		wrong := false
		for i, c := range d.Cells {
			cell := heatCell{bar{Cell: c}, i * heatCellWide, row * heatRow, strconv.Itoa(heatLevel(c.Checked, most))}
			switch {
			case notRun(c):
				cell.Style = "missed"
			case c.State != slots.StateDone && c.State != board.StateRunning:
				continue
			}
			wrong = wrong || notRun(c) || c.Failed > 0
			h.Cells = append(h.Cells, cell)
		}
		day, _ := time.Parse(time.DateOnly, d.Day)
		h.Days = append(h.Days, heatDay{d.Day, day.Format("Mon Jan 2"), wrong})
	}
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
			if b := (bar{Cell: c}); b.Trouble() {
				sum.Wrong = append(sum.Wrong, b)
			}
		}
		list = append(list, sum)
	}
	return list
}

// beforeLedger reports whether a day ended before the beginning of the ledger.
func beforeLedger(d board.LedgerDay) bool {
	return !slices.ContainsFunc(d.Cells, func(c board.Cell) bool { return c.State != view.StateNoLedger })
}
