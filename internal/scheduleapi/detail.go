package scheduleapi

import (
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// Detail is a schedule with its next instants.
type Detail struct {
	View
	// The next 20 instants, without those that max_runs will not allow.
	Coming []Instant `json:"coming"`
	// The first 20 instants whose slots have begun, and which no run has published.
	Overdue []Instant `json:"overdue"`
}

// Instant is an instant of a schedule, and the slot that publishes it.
type Instant struct {
	Instant time.Time `json:"instant"`
	Slot    time.Time `json:"slot"`
}

// coming is how many next instants a Detail lists.
const coming = 20

// NewDetail returns the Detail of a schedule at an instant. It lists no instants if the schedule waits for none, or if
// its crontab cannot be read, which the first check of the schedule tells as an error.
func NewDetail(s schedule.Schedule, g grid.Grid, now time.Time) Detail {
	d := Detail{NewView(s), []Instant{}, []Instant{}}
	if s.Next.IsZero() {
		return d
	}
	overdue, next := coming, coming // at most
	if s.MaxRuns > 0 {
		due, err := s.Due(reserved.Caller{}, g, now)
		if err != nil {
			return d
		}
		left := int64(s.MaxRuns) - s.Runs
		overdue, next = int(min(coming, left)), int(min(coming, left-due))
	}
	passed, err := schedule.Preview(s.Spec, g, s.Next, now)
	if err != nil {
		return d
	}
	for at, slot := range passed {
		if slot.After(now) || len(d.Overdue) >= overdue {
			break
		}
		d.Overdue = append(d.Overdue, Instant{at, slot})
	}
	from := grid.Later(s.Next, g.Floor(now).Add(-s.Spread)) // the slot of an instant is later by a part of its spread
	all, err := schedule.Preview(s.Spec, g, from, from.AddDate(100, 0, 0))
	if err != nil {
		return d
	}
	for at, slot := range all {
		if len(d.Coming) >= next {
			break
		}
		if slot.After(now) {
			d.Coming = append(d.Coming, Instant{at, slot})
		}
	}
	return d
}
