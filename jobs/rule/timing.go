package rule

import (
	"errors"
	"fmt"
	"time"
)

// Timing computes when the steps of a rule are due. It is safe for concurrent use.
type Timing struct {
	steps []stepTiming
}

type stepTiming struct {
	after    Delay
	calendar *calendar // nil for plain time
	earliest time.Duration
}

// NewTiming returns the timing of a rule. calendars has at least those that its steps name.
func NewTiming(r Rule, calendars map[string]Calendar) (*Timing, error) {
	known := map[string]*calendar{}
	t := &Timing{}
	for i, s := range r.Steps {
		timing := stepTiming{after: s.After}
		if s.After.Business() {
			c, found := calendars[s.Calendar]
			if !found {
				return nil, fmt.Errorf("step %d: there is no calendar %q", i+1, s.Calendar)
			}
			if known[s.Calendar] == nil {
				var err error
				if known[s.Calendar], err = c.compile(); err != nil {
					return nil, fmt.Errorf("calendar %s: %w", s.Calendar, err)
				}
			}
			timing.calendar = known[s.Calendar]
		}
		timing.earliest = timing.least()
		t.steps = append(t.steps, timing)
	}
	return t, nil
}

// Due returns the instant at which a step is due, in UTC. step is the index in Rule.Steps. Returns
// ErrNoWork if the calendar has too little working time.
func (t *Timing) Due(step int, since time.Time) (time.Time, error) {
	s := t.steps[step]
	var at time.Time
	var err error
	switch {
	case s.after.BusinessDays != 0:
		at, err = s.calendar.addDays(since, s.after.BusinessDays)
	case s.after.BusinessTime != 0:
		at, err = s.calendar.addTime(since, s.after.BusinessTime)
	default:
		at = since.Add(s.after.Duration)
	}
	return at.UTC(), err
}

// Earliest returns a delay that SQL can add to the since of any row: the step is never due before.
// It equals the exact delay in plain time. In business time it is a lower bound, and may be 0.
func (t *Timing) Earliest(step int) time.Duration { return t.steps[step].earliest }

// EarliestFrom returns the smallest Earliest of a step and those after it: steps in different units
// need not be due in their order.
func (t *Timing) EarliestFrom(step int) time.Duration {
	least := t.steps[step].earliest
	for _, s := range t.steps[step:] {
		least = min(least, s.earliest)
	}
	return least
}

func (s stepTiming) least() time.Duration {
	switch {
	case s.after.BusinessDays != 0:
		return s.calendar.leastDays(s.after.BusinessDays)
	case s.after.BusinessTime != 0:
		return s.calendar.leastTime(s.after.BusinessTime)
	}
	return s.after.Duration
}

// ErrNoWork is returned for a calendar whose working time ends before a delay does.
var ErrNoWork = errors.New("the calendar has too little working time")
