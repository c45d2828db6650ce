package schedule

import (
	"iter"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// Preview yields the instants of a schedule from one instant up to but not including another, in
// UTC, each with the slot it is published in. It needs no database. Of the spec it reads Crontab,
// Timezone, Anchor, Start, End and Exclude, and Spread with ID. The error is a jobs.FieldError.
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
