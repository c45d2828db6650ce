package pages

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/spoken"
)

// columns is a small chart with a column for each slot, the oldest first.
type columns struct {
	ID, Title, Most string
	Width           int
	Columns         []column
}

type column struct {
	Slot         time.Time
	Label        string
	X, Y, Height int
	Ahead        bool
	Wrong        bool // something failed; a mark below the column shows it
}

// columnsHigh is the floor of the columns, in units of the chart. Marks are below it.
const columnsHigh = 60

// jobChart shows the rows of a job in its slots, and how long they took.
type jobChart struct{ Rows, Took columns }

// newJobChart returns nil if there is nothing to draw. all has the newest slot first.
func newJobChart(all []board.JobSlot) *jobChart {
	if len(all) == 0 {
		return nil
	}
	all = slices.Clone(all)
	slices.Reverse(all)
	var most int64
	var longest time.Duration
	for _, s := range all {
		most, longest = max(most, checked(s)), max(longest, time.Duration(s.Took))
	}
	chart := jobChart{
		Rows: columns{ID: "rows", Title: "Rows", Most: num(most), Width: len(all) * barStep},
		Took: columns{ID: "took", Title: "Duration", Most: dur(longest), Width: len(all) * barStep},
	}
	for i, s := range all {
		c := column{Slot: s.Slot, X: i * barStep, Wrong: s.Failed > 0}
		c.Label = fmt.Sprintf("%s: %s, %s failed, took %s", spoken.Instant(s.Slot),
			plural(checked(s), "row", "rows"), num(s.Failed), dur(s.Took))
		c.Height = height(checked(s), most, columnsHigh)
		c.Y = columnsHigh - c.Height
		chart.Rows.Columns = append(chart.Rows.Columns, c)
		c.Height, c.Wrong = int(columnsHigh*time.Duration(s.Took)/cmp.Or(longest, 1)), s.Late > 0
		c.Y = columnsHigh - c.Height
		chart.Took.Columns = append(chart.Took.Columns, c)
	}
	return &chart
}

// newAheadChart returns nil if no row waits.
func newAheadChart(all []board.Ahead) *columns {
	if len(all) == 0 {
		return nil
	}
	var most int64
	for _, a := range all {
		most = max(most, a.Rows)
	}
	chart := columns{ID: "ahead", Title: "Rows", Most: num(most), Width: len(all) * barStep}
	for i, a := range all {
		c := column{Slot: a.Slot, X: i * barStep, Height: height(a.Rows, most, columnsHigh), Ahead: true}
		c.Label, c.Y = fmt.Sprintf("%s: %s", spoken.Instant(a.Slot),
			counted(a.Count(), "row waits", "rows wait")), columnsHigh-c.Height
		chart.Columns = append(chart.Columns, c)
	}
	return &chart
}

func checked(s board.JobSlot) int64 { return s.Finished + s.Rescheduled + s.Failed }

// First and Last return the slots at the ends.
func (c columns) First() time.Time { return c.Columns[0].Slot }
func (c columns) Last() time.Time  { return c.Columns[len(c.Columns)-1].Slot }

// gauge compares a duration with the width of the slots, in thousandths of the longer one.
type gauge struct {
	Took, Width int
	Over        bool
	Text        string
}

func newGauge(took, width time.Duration) gauge {
	if width <= 0 {
		return gauge{}
	}
	longest := max(took, width)
	return gauge{
		Took: max(2, int(1000*took/longest)), Width: int(1000 * width / longest), Over: took > width,
		Text: fmt.Sprintf("%s of %s, %s", dur(took), dur(width), percent(int64(took), int64(width))),
	}
}
