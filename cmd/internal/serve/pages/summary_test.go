package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Where slots are narrow several share a bar, and what it sums up is no slot's.
func TestLatelyTellsASlotFromSeveralThatShareABar(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	page := func(n int64) (v overviewPage) {
		v.Status = view.Status{NextSlot: noon.Add(16 * time.Minute)}
		v.Overview.Axis = []board.Cell{
			{Slot: noon, Slots: n, Done: min(n, 14), State: slots.StateDone, Forecast: &board.Forecast{}, Checked: 78, Failed: 42, Took: duration.Text(69 * time.Second), TooLong: true},
			{Slot: noon.Add(30 * time.Minute), Slots: n, State: view.StateAhead, Forecast: &board.Forecast{Rows: 98, Took: duration.Text(3 * time.Second)}},
		}
		return v
	}
	for n, want := range map[int64]string{
		1: "Slot 12:00 was run: 78 rows, 42 failed, took 1m9s, longer than the width. The next slot is 12:30: about 98 rows expected, taking about 3s.",
		15: "14 of 15 slots from 12:00 on were run: 78 rows, 42 failed, the longest took 1m9s, longer than the width. " +
			"The next slot is 12:16. The 15 slots from 12:30 on: about 98 rows expected, at most about 3s a slot.",
	} {
		if got := page(n).summary(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	empty := page(1)
	empty.Overview.Axis[1].Forecast = &board.Forecast{Took: duration.Text(20 * time.Millisecond)} // which a run without rows takes
	if got, want := empty.summary(), " The next slot is 12:30: no rows expected."; !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant its end to be %s", got, want)
	}
	next := page(15).Overview.Axis[1]
	if got, want := (storeLine{StoreStatus: board.StoreStatus{Next: &next}}).Expected(), "and 14 more slots: about 98 rows expected, at most about 3s a slot"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The bar in which now is has slots of both kinds.
func TestABarOfSlotsThatWereRunAndOfSlotsToComeTellsBoth(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	cell := func(state slots.State, missed int64) board.Cell {
		return board.Cell{
			Slot: noon, Span: duration.Text(15 * time.Minute), Slots: 15, State: state, Done: 6, Missed: missed,
			Planned: 170, Checked: 170, Took: duration.Text(301 * time.Millisecond),
			Forecast: &board.Forecast{Rows: 70, Took: duration.Text(143 * time.Millisecond)},
		}
	}
	for _, c := range []struct {
		name              string
		cell              board.Cell
		label, rows, took string
		height            int64
		class             string
	}{
		{
			"some were run", cell(slots.StateDone, 0),
			"run, 170 rows, the longest took 301ms, about 70 rows expected, at most about 143ms a slot",
			"170", "301ms", 170, "run",
		},
		{
			"one was missed", cell(slots.StateMissed, 1),
			"1 slot missed, 170 rows checked, the longest took 301ms, about 70 rows expected, at most about 143ms a slot",
			"170", "301ms", 170, "left",
		},
		{
			"none was run",
			board.Cell{
				Slot: noon, Span: duration.Text(15 * time.Minute), Slots: 15, State: view.StateDue,
				Forecast: &board.Forecast{Rows: 70, Took: duration.Text(143 * time.Millisecond)},
			},
			"about 70 rows expected, at most about 143ms a slot", "about 70", "about 143ms", 70, "ahead",
		},
	} {
		b := bar{Cell: c.cell}
		if got := says(c.cell); got != c.label {
			t.Errorf("%s: says %q, want %q", c.name, got, c.label)
		}
		if b.Rows() != c.rows || b.Time() != c.took || rows(c.cell) != c.height || b.Class() != c.class {
			t.Errorf("%s: %s rows, %s, %d high, %s; want %s, %s, %d, %s",
				c.name, b.Rows(), b.Time(), rows(c.cell), b.Class(), c.rows, c.took, c.height, c.class)
		}
	}
	some, all := cell(slots.StateDone, 0), cell(slots.StateDone, 0)
	some.Forecast, all.Forecast, some.CaughtUp, all.CaughtUp = nil, nil, 3, all.Done
	for c, want := range map[*board.Cell]string{&some: "3 slots by catch-up", &all: "by catch-up"} {
		if got := "run, 170 rows, the longest took 301ms, " + want; says(*c) != got || (bar{Cell: *c}).CaughtUpText() != want {
			t.Errorf("%q and %q, want %q", says(*c), bar{Cell: *c}.CaughtUpText(), got)
		}
	}
	var v overviewPage
	v.Status = view.Status{NextSlot: noon.Add(6 * time.Minute)}
	v.Overview.Axis = []board.Cell{cell(slots.StateDone, 0)}
	want := "So far, 6 of 15 slots from 12:00 on were run: 170 rows, the longest took 301ms. The next slot is 12:06."
	if got := v.summary(); got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

func TestABarOfSeveralMissedSlotsHasTheSumOfTheRowsThatWait(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	left := func(minute int, rows int64, atLeast bool) view.Trouble {
		return view.Trouble{Slot: noon.Add(time.Duration(minute) * time.Minute), Waiting: rows, AtLeast: atLeast}
	}
	for _, c := range []struct {
		name        string
		cell        board.Cell
		trouble     []view.Trouble
		rows, label string
		height      int64
	}{
		{
			"several slots",
			board.Cell{Slots: 15, State: slots.StateMissed, Missed: 3},
			[]view.Trouble{left(14, 7, false), left(3, 5, false), left(0, 4, false), left(15, 100, false), left(-1, 100, false)},
			"16 wait", "3 slots missed, 16 rows wait", 16,
		},
		{
			"a count that stopped",
			board.Cell{Slots: 15, State: slots.StateMissed, Missed: 2},
			[]view.Trouble{left(3, 5, false), left(0, 10_000, true)},
			"10,005+ wait", "2 slots missed, more than 10,005 rows wait", 10_005,
		},
		{
			"a slot that was opened",
			board.Cell{Slots: 1, State: slots.StateOpen, Planned: 40},
			[]view.Trouble{left(0, 30, false)},
			"40 wait", "left open, 40 rows wait", 40,
		},
		{
			"a slot with checks",
			board.Cell{Slots: 15, State: slots.StateMissed, Missed: 1, Planned: 40, Checked: 40},
			[]view.Trouble{left(0, 10_000, true)},
			"40", "1 slot missed, 40 rows checked", 40,
		},
	} {
		c.cell.Slot, c.cell.Span = noon, duration.Text(15*time.Minute)
		b := newAxis([]board.Cell{c.cell}, c.trouble, noon.Add(time.Hour)).Bars[0]
		if label := b.says(); b.Rows() != c.rows || label != c.label || rows(b.Cell) != c.height {
			t.Errorf("%s: %q, %q, %d high; want %q, %q, %d", c.name, b.Rows(), label, rows(b.Cell), c.rows, c.label, c.height)
		}
	}
}

func TestTheLastRunIsToldIfABarOfSeveralSlotsDoesNot(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	run := &ledger.LastRun{Slot: noon.Add(15 * time.Minute), OpenedAt: noon.Add(15 * time.Minute), FinishedAt: new(noon.Add(15*time.Minute + time.Second)), Runner: "batch1:837"}
	page := func(width time.Duration) (v overviewPage) {
		n := int64(15 * time.Minute / width)
		v.Status = view.Status{Now: noon.Add(17 * time.Minute), Width: duration.Text(width), Since: noon.Add(14 * time.Minute), NextSlot: noon.Add(18 * time.Minute), LastRun: run}
		v.Overview.Axis = []board.Cell{
			{Slot: noon, Span: duration.Text(15 * time.Minute), Slots: n, Done: 1, State: slots.StateDone},
			{Slot: noon.Add(15 * time.Minute), Span: duration.Text(15 * time.Minute), Slots: n, Done: 1, Missed: 1, State: slots.StateMissed},
		}
		return v
	}
	const told = "The last run: 2030-03-01T12:15:01Z, 119 s ago, slot 2030-03-01T12:15:00Z by batch1:837."
	narrow := page(time.Minute)
	if got, want := narrow.summary(), "Slot 12:14 was run: 0 rows. "+told+" The next slot is 12:18."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	narrow.Overview.Axis = narrow.Overview.Axis[1:]
	if got, want := narrow.summary(), told+" The next slot is 12:18."; got != want {
		t.Errorf("without an earlier slot: %q, want %q", got, want)
	}
}
