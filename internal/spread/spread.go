// Package spread chooses the slot of a check that any slot of a window will do for.
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

// Place returns the slot, in UTC, of a check of the key for which any slot of g will do from the first one at or after an
// instant that is before at + within, but none before earliest, which is a slot. It is the one that enqueue chooses for
// FutureJob.Within: by the SHA-256 of the key, so it is the same each time and many keys are spread evenly. Anonymous
// rows, which have no item, of one entity and job go to the same slot. See grid.Grid.Place.
func (k Key) Place(g grid.Grid, at time.Time, within time.Duration, earliest time.Time) time.Time {
	if within < time.Second {
		return g.Place(at, 0, earliest, 0)
	}
	hash := grid.Hash(strings.Join([]string{k.JobExec, k.EntityName, k.EntityKey, k.ItemKey}, "\x1f"))
	return g.Place(at, within, earliest, hash)
}
