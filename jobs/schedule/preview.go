package schedule

import (
	"iter"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// Preview yields the instants of a schedule in [from, to), in UTC, each with the slot that
// publishes it. It needs no database. It reads these fields of the spec: Crontab, Timezone, Anchor,
// Start, End, Exclude, and Spread with ID. The error is a jobs.FieldError.
func Preview(spec Spec, g grid.Grid, from, to time.Time) (iter.Seq2[time.Time, time.Time], error) {
	parsed, err := spec.instants()
	if err != nil {
		return nil, err
	}
	put := offset(spec.ID, spec.Spread)
	return func(yield func(at, slot time.Time) bool) {
		for at := range parsed.Between(from.Add(-1), to.Add(-1)) {
			if !yield(at, g.Ceil(at.Add(put))) {
				return
			}
		}
	}, nil
}
