package runcmd

import (
	"time"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
)

// newBars returns bars for the progress of runs, or nil if the log does not go to a terminal, and for one store
// among several.
func newBars(f *factory.Factory) *output.Bars {
	if !f.ErrIsTerminal() || f.Store().Several {
		return nil
	}
	return output.NewBars(f.Err(), true)
}

// showing returns what shows the progress of slots, for slots.Config.Progress. The number of stragglers is
// unknown: they came after the slot was planned.
// Of several slots at once it shows the newest.
func showing(bars *output.Bars) func(p slots.Progress) {
	var newest time.Time
	return func(p slots.Progress) {
		if p.Slot.Before(newest) {
			return
		}
		newest = p.Slot
		total := p.Planned
		if p.Planned <= p.Recorded {
			total = 0
		}
		bars.Show("slot "+spoken.Instant(p.Slot), p.Recorded, total)
	}
}
