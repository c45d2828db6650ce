package forecast

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// coming counts the schedules that have an instant in a slot.
type coming struct {
	all   float64 // schedules that have an instant in it
	later float64 // of them, those with an earlier instant to come, so that they do not wait in the slot yet
	next  float64 // of them, those that may still wait in the slot that has begun
}

// mostInstants bounds the slots of schedules that are computed; more are estimated from these.
const mostInstants = 1_000_000

// timeline is schedules that are due in the same slots.
type timeline struct {
	spec      schedule.Spec
	schedules float64
	deadline  time.Duration // the shortest; 0: none
}

// readSchedules reads a sample of the schedules, and returns what they bring to each slot.
func (r *reader) readSchedules(ctx context.Context, tx *sqlx.Tx) (map[int64]coming, error) {
	list, share, err := schedule.Sample(reserved.Caller{}, ctx, tx, r.schema)
	if err != nil || share == 0 {
		return nil, err
	}
	groups := map[schedule.Timeline]*timeline{}
	var order []*timeline
	for _, s := range list {
		if s.State == schedule.Ended {
			continue
		}
		s.Spec = s.Remaining(reserved.Caller{}, r.to)
		// its first instant is the first one after it was created
		if s.CreatedAt.After(r.begun()) && !s.CreatedAt.After(r.now) {
			s.Start = grid.Later(s.Start, s.CreatedAt.Truncate(time.Second).Add(time.Second))
		}
		key := s.Timeline(reserved.Caller{})
		t := groups[key]
		if t == nil {
			t = &timeline{spec: s.Spec}
			groups[key], order = t, append(order, t)
		}
		t.schedules += 1 / share
		if d := s.Deadline; d > 0 && (t.deadline == 0 || d < t.deadline) {
			t.deadline = d
		}
	}
	r.deadlines = map[int64]time.Duration{}
	found, looked := map[int64]coming{}, 0
	for i, t := range order {
		if looked > mostInstants {
			scale(found, float64(len(order))/float64(i))
			break
		}
		looked += r.addTimeline(found, t)
	}
	return found, nil
}

// addTimeline adds the slots of a timeline, from the one that has begun on, and returns how many.
// It adds none if this binary cannot read the timeline.
func (r *reader) addTimeline(to map[int64]coming, t *timeline) (looked int) {
	slots, err := schedule.Slots(reserved.Caller{}, t.spec, r.grid, r.begun(), r.to)
	if err != nil {
		return 0
	}
	begun := false
	for slot := range slots {
		at := slot.Unix()
		c := to[at]
		c.all += t.schedules
		switch { // the first one to come waits already
		case looked > 0:
			c.later += t.schedules
		case begun:
			c.next += t.schedules
		}
		to[at] = c
		if begun = slot.Before(r.from); begun {
			continue
		}
		if d := r.deadlines[at]; t.deadline > 0 && (d == 0 || t.deadline < d) {
			r.deadlines[at] = t.deadline
		}
		looked++
	}
	return looked
}

func scale(found map[int64]coming, by float64) {
	for at, c := range found {
		found[at] = coming{c.all * by, c.later * by, c.next * by}
	}
}
