package admin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// TimelineEntry is one thing that happened to a check. Instants are in UTC.
type TimelineEntry struct {
	ID        int64 // of the row: a key has a new one each time it is enqueued when nothing waits
	JobExec   string
	ItemKey   string
	Anonymous bool

	// What: "enqueued"; "next" and "retry" (a check that asked for another, or failed), "deferred" (by catch-up,
	// unchecked); "rescheduled", "pushed_back", "recorded" (an enqueue came when its slot had begun; see OnConflict),
	// "honoured" (the row came of such a request, on a row of this slot), "width" (the grid was changed), "retried"
	// (put back from history), "moved" (from another store); an Outcome; "waiting"; or "arriving" (on its way here from
	// another store).
	What        string
	At          time.Time // when; zero: it waits, or began before times were kept
	Slot        time.Time // the slot the row was in; of enqueued, its first
	RequestedAt time.Time // of enqueued and recorded: the instant that was asked for; zero: one before the year 1, which SQL may ask for
	// Of enqueued: the window after For in which any slot would have done; see FutureJob.Within.
	Within time.Duration

	// Who did it, where it was no run: role, application_name, and the actor of SetActor.
	By, App, Actor string

	// Of a check: who ran it, how long after its slot, for how long, and its error. Of one that asked for another the four first digits
	// of its times are kept, and Runner is empty once the ledger has no longer the slot.
	Ran                bool
	Runner             string
	Lateness, Duration time.Duration
	Error              string

	// To is the slot that a rescheduled, pushed_back, deferred or width event moved the row to, in UTC. Zero: unknown.
	To time.Time
	// Of moved: the stores, by the names of who moved it.
	MovedFrom, MovedTo string

	// Of the slot, by the ledger: why it was opened ("run", "catch_up"; empty: it was not, or that is no part of the
	// story), when, and when it was done.
	Run                string
	OpenedAt, ClosedAt time.Time

	// Hindrance is what stands in the way of a row that waits: "paused", "unregistered" (no run of the last 7 days knows its job),
	// "missed" (no run has opened its slot), "open" (its slot is being run, or was left), "straggler" (it was committed
	// after its slot was closed). Empty: nothing.
	Hindrance string
}

// MaxRows is how many rows of one entity Timeline, Show and EntityHistory return of those that wait, and as many of those that have ended.
const MaxRows = 1000

// Timeline returns all that is known of the checks of an entity, row by row, in order: the newest 20 entries between the
// beginning of a row and its end are kept, and the newest MaxRows rows are told of. Empty JobExec and ItemKey of the key take every job and item. Anonymous rows
// are found once they have ended.
func (c *Client) Timeline(ctx context.Context, db jobs.DB, key jobs.Key) ([]TimelineEntry, error) {
	args := []any{key.EntityName, key.EntityKey, nullable(key.JobExec), nullable(key.ItemKey), MaxRows}
	events, err := list(ctx, c, db, pgsql.Why, args, func(row *sql.Rows, e *TimelineEntry) error {
		var at, target, opened, closed sql.NullTime
		var lateness, duration, within *int64
		err := row.Scan(&e.ID, &e.JobExec, &e.ItemKey, &e.Anonymous, &at, &e.What, &e.Slot, &target, &e.By, &e.App, &e.Actor,
			&e.Runner, &lateness, &duration, &e.Error, &e.Run, &opened, &closed, &e.Hindrance, &within,
			&e.MovedFrom, &e.MovedTo)
		e.At, e.Slot, e.RequestedAt = at.Time.UTC(), e.Slot.UTC(), target.Time.UTC()
		e.OpenedAt, e.ClosedAt = opened.Time.UTC(), closed.Time.UTC()
		e.Ran, e.Lateness, e.Duration = lateness != nil, micros(lateness), micros(duration)
		e.Within = micros(within)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the timeline of %s %s: %w", key.EntityName, key.EntityKey, err)
	}
	setTargets(events)
	return events, nil
}

// setTargets fills in where moves have led: what comes next of a row tells its slot.
func setTargets(events []TimelineEntry) {
	for i := range events[:max(len(events)-1, 0)] {
		e, next := &events[i], events[i+1]
		switch e.What {
		case "rescheduled", "pushed_back", "deferred", "width":
			if next.ID == e.ID {
				e.To = next.Slot
			}
		}
	}
}
