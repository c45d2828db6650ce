package schedule

import (
	"iter"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
)

// Preview yields the instants of a schedule from one instant up to but not including another, in UTC, each with the
// slot it is published in. It needs no database. Of the spec it reads Crontab, Timezone and Anchor, and Spread with ID.
// The error is a jobs.FieldError.
func Preview(spec Spec, g grid.Grid, from, to time.Time) (iter.Seq2[time.Time, time.Time], error) {
	parsed, err := crontab.Parse(spec.Crontab, spec.Timezone, later(spec.Anchor, grid.Min))
	if err != nil {
		return nil, &jobs.FieldError{Field: "crontab", Rule: err.Error()}
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
