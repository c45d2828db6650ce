package rulestore

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
)

// Summary says what waits for a rule, and how its rows ended.
type Summary struct {
	// Waiting is the number of rows that wait, in the next 10,000 slots that have rows of any job.
	// Estimated tells that a slot has more than 1,000 of them, so that the number is an estimate.
	// NextSlot is their first slot, in UTC.
	Waiting   int64      `json:"waiting"`
	Estimated bool       `json:"estimated"` // whether waiting is an estimate
	NextSlot  *time.Time `json:"next_slot"` // null: no row waits
	// Since is the instant from which Ended counts, in UTC.
	Since time.Time `json:"since"`
	Ended Ended     `json:"ended"`
}

// Ended counts the rows of a rule that ended.
type Ended struct {
	// Met counts the rows for which the expected thing had happened before any step, and MetLate those
	// for which it happened after a step.
	Met     int64 `json:"met"`
	MetLate int64 `json:"met_late"` // rows for which it happened after a step
	// Open counts the rows for which it had not happened when the last step fired.
	Open int64 `json:"open"`
	// LeftOut counts the rows that were gone from the table, or were no longer ones that the rule is
	// about.
	LeftOut   int64 `json:"left_out"`
	Cancelled int64 `json:"cancelled"` // rows whose check was cancelled
	// Failed counts the rows whose check failed too often.
	Failed int64 `json:"failed"`
}

// Summary sums up a rule. Rows that ended since the given instant count.
func (s *Store) Summary(ctx context.Context, name string, since time.Time) (Summary, error) {
	sum := Summary{Since: since.UTC()}
	e := &sum.Ended
	err := s.reading(ctx, func(q pg.Querier) error {
		return pg.One(ctx, q, pg.RuleSummary.In(s.schema), []any{name, since},
			&sum.Waiting, &sum.Estimated, pg.UTC(&sum.NextSlot), &e.Met, &e.MetLate, &e.Open, &e.LeftOut, &e.Cancelled,
			&e.Failed)
	})
	if err != nil {
		return Summary{}, fmt.Errorf("sum up rule %s: %w", name, pg.ExplainMissing(err))
	}
	return sum, nil
}
