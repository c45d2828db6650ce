package pages

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/slots"
)

// Where slots are narrow several share a bar, and what it sums up is no slot's.
func TestLatelyTellsASlotFromSeveralThatShareABar(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	page := func(n int64) (v overviewPage) {
		v.Status = view.Status{NextSlot: noon.Add(16 * time.Minute)}
		v.Overview.Axis = []board.Cell{
			{Slot: noon, Slots: n, Done: min(n, 14), State: slots.StateDone, Forecast: &board.Forecast{}, Checked: 78, Failed: 42, Took: duration.Text(69 * time.Second), TooLong: true},
			{Slot: noon.Add(30 * time.Minute), Slots: n, State: board.StateAhead, Forecast: &board.Forecast{Rows: 98, Took: duration.Text(3 * time.Second)}},
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
	next := page(15).Overview.Axis[1]
	if got, want := (storeLine{StoreStatus: board.StoreStatus{Next: &next}}).Expected(), "and 14 more slots: about 98 rows expected, at most about 3s a slot"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
