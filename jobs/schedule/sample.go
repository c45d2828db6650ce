package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// sampledBlocks bounds a sample to some ten thousand schedules, however many there are.
const sampledBlocks = 400

// Sample reads some of the schedules that are not paused. share is their part of all: 1 if it read
// all.
func Sample(
	_ reserved.Caller, ctx context.Context, db pg.Querier, schema pgsql.Schema,
) (list []Schedule, share float64, err error) {
	var blocks int64
	if err := pg.One(ctx, db, pg.ScheduleBlocks.In(schema), nil, &blocks); err != nil {
		return nil, 1, fmt.Errorf("read how many schedules there are: %w", err)
	}
	share = min(1, sampledBlocks/max(1, float64(blocks)))
	var m pg.Message // Citus accepts no parameter in tablesample
	percent := strconv.FormatFloat(100*share, 'f', -1, 64)
	m.Add(pg.ScheduleSample.In(schema), []any{percent}, func(row *sql.Rows) error {
		var s Schedule
		err := scanSchedule(row, &s)
		list = append(list, s)
		return err
	})
	if err := m.Send(ctx, db); err != nil {
		return nil, share, fmt.Errorf("read a sample of the schedules: %w", err)
	}
	return list, share, nil
}

// Remaining returns the Spec of what an active schedule has yet to publish before until. It turns
// MaxRuns into an End just after the last instant that MaxRuns permits. It counts up to 10,000
// instants, and estimates by their rate from there.
func (s Schedule) Remaining(_ reserved.Caller, until time.Time) Spec {
	c, err := s.instants()
	if s.MaxRuns == 0 || s.Next.IsZero() || err != nil {
		return s.Spec
	}
	left, n := int64(s.MaxRuns)-s.Runs, int64(0)
	for at := range c.Between(s.Next.Add(-time.Second), until) {
		n++
		if n == left {
			s.End = at.Add(time.Second)
			break
		}
		if n == maxCounted {
			more := float64(left-n) / float64(n-1) * at.Sub(s.Next).Seconds()
			if more < until.Sub(at).Seconds() {
				end := at.Add(time.Duration(more)*time.Second + time.Second)
				s.End = grid.Earlier(cmp.Or(s.End, end), end)
			}
			break
		}
	}
	return s.Spec
}

// Due returns how many events of an active schedule a check at an instant would publish without MaxRuns, by its misfire
// policy and deadline. It counts up to 10,000 events, and estimates by their rate from there. The error is a
// jobs.FieldError.
func (s Schedule) Due(_ reserved.Caller, g grid.Grid, at time.Time) (int64, error) {
	c, err := s.instants()
	if err != nil {
		return 0, err
	}
	p := newTimeline(s.Spec, c).plan(g, g.Floor(at), at, s.Next)
	return count(c, p.cut, p.last), nil
}

// Timeline determines the slots of a schedule: schedules with equal Timelines have the same slots.
// The zero value has none.
type Timeline struct {
	crontab, timezone, exclude string
	offset                     time.Duration
	anchor, start, end         time.Time
}

// Timeline returns the Timeline of a schedule.
func (s Spec) Timeline(_ reserved.Caller) Timeline {
	t := Timeline{
		crontab: s.Crontab, timezone: s.Timezone, offset: offset(s.ID, s.Spread),
		exclude: fmt.Sprint(s.Exclude),
	}
	if strings.Contains(s.Crontab, "@every") { // no other form uses the anchor
		t.anchor = s.Anchor
	}
	t.start, t.end = s.Start, s.End
	return t
}

// Slots yields the slots in [from, to) in which a schedule has instants. Its cost depends on the
// number of slots, not of instants. The error is a jobs.FieldError.
func Slots(_ reserved.Caller, spec Spec, g grid.Grid, from, to time.Time) (iter.Seq[time.Time], error) {
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
