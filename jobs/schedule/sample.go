package schedule

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Sampled is a schedule of a sample.
type Sampled struct {
	Spec
	// CreatedAt and UpdatedAt are by the database's clock, in UTC.
	CreatedAt, UpdatedAt time.Time
}

// sampledBlocks bounds a sample: some ten thousand schedules, however many there are.
const sampledBlocks = 400

// Sample reads some of the schedules that are not paused, and which share of all of them that is: 1 where they are few.
func Sample(ctx context.Context, db pgsql.Querier, schema pgsql.Schema) (list []Sampled, share float64, err error) {
	var blocks int64
	if err := pgsql.One(ctx, db, pgsql.ScheduleBlocks.In(schema), nil, &blocks); err != nil {
		return nil, 1, fmt.Errorf("read how many schedules there are: %w", err)
	}
	share = min(1, sampledBlocks/max(1, float64(blocks)))
	var m pgsql.Message // Citus knows no parameters of a sample
	percent := strconv.FormatFloat(100*share, 'f', -1, 64)
	m.Add(pgsql.ScheduleSample.In(schema), []any{percent}, func(row *sql.Rows) error {
		var s Sampled
		err := s.scan(row, &s.CreatedAt, &s.UpdatedAt)
		s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
		list = append(list, s)
		return err
	})
	if err := m.Send(ctx, db); err != nil {
		return nil, share, fmt.Errorf("read a sample of the schedules: %w", err)
	}
	return list, share, nil
}

// Timeline is what the slots of a schedule follow from: those of the same Timeline have the same ones. Its zero value has none.
type Timeline struct {
	crontab, timezone, exclude string
	offset                     time.Duration
	anchor, start, end         time.Time
}

// Timeline returns that of a schedule.
func (s Spec) Timeline() Timeline {
	t := Timeline{crontab: s.Crontab, timezone: s.Timezone, offset: offset(s.ID, s.Spread), exclude: fmt.Sprint(s.Exclude)}
	if strings.Contains(s.Crontab, "@every") { // nothing else goes by it
		t.anchor = s.Anchor
	}
	t.start, t.end = s.Start, s.End
	return t
}

// Slots yields the slots in which a schedule has instants, from one up to but not including another. Each is found from the
// one before, however many instants there are in it. The error is a jobs.FieldError.
func Slots(spec Spec, g grid.Grid, from, to time.Time) (iter.Seq[time.Time], error) {
	parsed, err := spec.instants()
	if err != nil {
		return nil, err
	}
	put := offset(spec.ID, spec.Spread)
	return func(yield func(slot time.Time) bool) {
		after := g.Previous(from)
		for {
			at, ok := parsed.Next(after.Add(-put))
			if !ok {
				return
			}
			after = g.Ceil(at.Add(put))
			if !after.Before(to) || !yield(after) {
				return
			}
		}
	}, nil
}
