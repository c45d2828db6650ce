package daemon

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

func TestSlotsThatBeganWithoutARunAreCountedOnOneGrid(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		before, after time.Duration
		slot          time.Time // that has begun last, after noon
		missed        int64
	}{
		"the next slot":     {15 * time.Minute, 15 * time.Minute, noon.Add(15 * time.Minute), 0},
		"a later slot":      {15 * time.Minute, 15 * time.Minute, noon.Add(time.Hour), 3},
		"the width shrinks": {time.Hour, 15 * time.Minute, noon.Add(45 * time.Minute), 0},
		"the width grows":   {15 * time.Minute, time.Hour, noon.Add(time.Hour), 0},
		"it grows much":     {15 * time.Minute, 24 * time.Hour, noon.Add(12 * time.Hour), 0},
	} {
		s := newState()
		for _, at := range []struct {
			width time.Duration
			slot  time.Time
		}{{test.before, noon}, {test.after, test.slot}} {
			g, err := grid.New(at.width)
			if err != nil {
				t.Fatal(err)
			}
			s.enter(g, at.slot, time.Minute)
		}
		if s.catchUp.missed != test.missed {
			t.Errorf("%s: %d slots, want %d", name, s.catchUp.missed, test.missed)
		}
	}
}
