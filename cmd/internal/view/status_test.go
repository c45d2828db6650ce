package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/slots"
)

func TestTheCurrentSlotIsLeftOpenWhenItsRunnerHasLeft(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, lock, want string
		left             []view.Trouble
	}{
		{"a runner works on it", "", "open", nil},
		{"a runner waits for a lock", "session 7", "open, and rows wait for a lock of session 7", nil},
		{"another slot is left", "", "open", []view.Trouble{{Slot: noon.Add(-time.Minute)}}},
		{"the runner has left", "", "left open", []view.Trouble{{Slot: noon}}},
		{"the runner left because of a lock", "session 7", "left open: rows have waited for a lock of session 7", []view.Trouble{{Slot: noon}}},
	} {
		v := view.Status{Now: noon.Add(52 * time.Second), CurrentSlot: noon, CurrentState: slots.StateOpen, WaitedFor: c.lock, LeftOpen: c.left}
		if got := v.Current(); !strings.HasSuffix(got, " s ago, "+c.want) {
			t.Errorf("%s: %q, want %q at its end", c.name, got, c.want)
		}
	}
}
