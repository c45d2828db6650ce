// Package spread chooses the slot of a check that may go to any slot of a window.
package spread

import (
	"strings"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// Key is a jobs.Key.
type Key struct {
	JobExec    string
	EntityName string
	EntityKey  string
	ItemKey    string
}

// PickSlot returns the slot, in UTC, of a check of the key that may go to any slot of a window. The
// window has the slots of g from the first at or after at, before at + within. No slot before
// earliest, which is a slot, is chosen.
//
// enqueue chooses the same slot for Request.Within, by the SHA-256 of the key. So the slot is the
// same each time, and many keys are spread evenly. Anonymous rows of one entity and job have no
// item, so they go to the same slot. See grid.Grid.PickSlot.
func (k Key) PickSlot(g grid.Grid, at time.Time, within time.Duration, earliest time.Time) time.Time {
	if within < time.Second {
		return g.PickSlot(at, 0, earliest, 0)
	}
	hash := grid.Hash(strings.Join([]string{k.JobExec, k.EntityName, k.EntityKey, k.ItemKey}, "\x1f"))
	return g.PickSlot(at, within, earliest, hash)
}
