package action

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// BackfillSchedule publishes the instants of a schedule in [From, To). A schedule with sql, job or notify is refused.
// It goes on when Do has returned.
type BackfillSchedule struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

var backfillScheduleForm = form(Form{
	Name: "backfill schedule", Summary: "Publish the instants of a schedule that have passed",
	Title: "Backfill a schedule", Verb: "Backfill",
	Lead: "Instants that have passed are published. Each event has the id that a run would have given it. " +
		"A schedule with sql, job or notify publishes no events, and is refused.",
	Fields: []Field{
		idField,
		{Name: "from", Label: "From", Hint: pastHint, Required: true},
		{Name: "to", Label: "Up to, but not including", Hint: pastHint, Required: true},
	},
}, func(in *Input) BackfillSchedule {
	return BackfillSchedule{ID: in.Text("id"), From: in.past("from"), To: in.past("to")}
})

// Target is the schedule.
func (a BackfillSchedule) Target() string { return a.ID }

func (a BackfillSchedule) check(*Store) error {
	if a.From.IsZero() || !a.From.Before(a.To) {
		return &jobs.FieldError{Field: "from", Message: "must be an instant before to"}
	}
	return CheckText("id", a.ID)
}

// Schedule reads the schedule. It refuses one that publishes no events with the words of schedule.Store.Backfill, so
// that a preview promises nothing that the backfill refuses.
func (a BackfillSchedule) Schedule(ctx context.Context, store *schedule.Store, db jobs.DB) (schedule.Schedule, error) {
	s, err := store.Get(ctx, db, a.ID)
	if err == nil && s.Act != (schedule.Act{}) {
		err = fmt.Errorf("backfill schedule %q: %w", a.ID, &jobs.FieldError{
			Field: "id", Message: "a backfill publishes events, and this schedule has none: " +
				"it runs a statement, enqueues a job or notifies people",
		})
	}
	return s, err
}

// maxBackfill bounds the events of one backfill.
const maxBackfill = 100_000

func (a BackfillSchedule) plan(ctx context.Context, tx Tx) (plan Plan, err error) {
	s, err := a.Schedule(ctx, tx.Schedules, tx.Tx)
	if err != nil {
		return plan, err
	}
	until := grid.Earlier(a.To, tx.now())
	if s.State == schedule.Active {
		until = grid.Earlier(until, s.Next)
	}
	all, err := schedule.Preview(s.Spec, tx.grid(), a.From, until)
	if err != nil {
		return plan, err
	}
	for range all {
		if plan.Events++; plan.Events > maxBackfill {
			return plan, &RefusedError{
				fmt.Sprintf("these are more than %d events: take a shorter time, or do it without a preview: schedules backfill",
					maxBackfill),
			}
		}
	}
	plan.Schedules, plan.Nothing = 1, plan.Events == 0
	plan.Text = fmt.Sprintf("Publishes %s of schedule %s from %s until %s",
		spoken.Count(plan.Events, "event", "events"), a.ID, clock(a.From), clock(grid.Later(until, a.From)))
	if !plan.Nothing {
		plan.Warnings = []string{
			"Instants that the outbox has are left out. " +
				"Other destinations, and a pruned outbox, get events again, with the same ids.",
		}
	}
	plan.Fingerprint = s.Version
	return plan, nil
}

func (a BackfillSchedule) run(ctx context.Context, s *Store, _ string) (Report, error) {
	done, err := s.Schedules.Backfill(ctx, s.DB, s.Publishing, a.ID, a.From, a.To)
	return Backfilled{a.ID, done.Published, done.Present, done.Until, done.Last}, err
}

// Backfilled reports on BackfillSchedule.
type Backfilled struct {
	ID        string    `json:"id"`        // of the schedule
	Published int64     `json:"published"` // events
	Present   int64     `json:"present"`   // instants that the outbox had already
	Until     time.Time `json:"until"`     // runs publish the instants from here on; UTC
	Last      time.Time `json:"-"`         // instant that was published
}

// String says how far it came.
func (b Backfilled) String() string {
	return fmt.Sprintf("%s published until %s, and %d were in the outbox already",
		spoken.Count(b.Published, "event was", "events were"), clock(b.Until), b.Present)
}
