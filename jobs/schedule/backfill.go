package schedule

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ErrBackfill is returned if a later backfill of the schedule has begun, which publishes the rest,
// or if the schedule was deleted.
var ErrBackfill = errors.New("another backfill of the schedule has begun, or it was deleted")

// Triggered says what Trigger did.
type Triggered struct {
	// Act is the Act of the schedule.
	Act Act
	// ID is that of the Occurrence: "<schedule>-trigger-<unix microseconds>", which no instant has.
	ID string
	// Event is the published event, or the message to a receiver. Nil if the schedule has another Act.
	Event *event.Event
	// Rows is how many rows the statement of the schedule has changed or returned.
	Rows int64

	schedule string
}

// String says what Trigger did, such as "published report-42-trigger-1772438400000000".
func (t Triggered) String() string {
	switch {
	case t.Act.SQL != "":
		return "ran the statement: " + spoken.Count(t.Rows, "row", "rows")
	case t.Act.Job != "":
		return fmt.Sprintf("enqueued a check of %s: %s %s, item %s", t.Act.Job, EntityName, t.schedule, t.ID)
	}
	if t.Act.Notify != "" {
		return "message to " + t.Act.Notify + " written: " + t.ID
	}
	return "published " + t.ID
}

// Trigger does now what the schedule does at each instant, in any state of the schedule, with the current time as
// the instant. The next instant stays as it is.
func (s *Store) Trigger(ctx context.Context, db pgsql.Pool, to *PublishConfig, id string) (done Triggered, err error) {
	err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		current, err := s.lockChanges(ctx, tx, []string{id}) // a concurrent delete waits for the event
		if err != nil {
			return err
		}
		found, err := current.find(id, AnyVersion)
		if err != nil {
			return err
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		o := newOccurrence(id, now, found.Payload)
		o.ID = fmt.Sprintf("%s-trigger-%d", id, now.UnixMicro())
		done = Triggered{Act: found.Act, ID: o.ID, schedule: id}
		due := newDue(found.Spec)
		if err := found.Act.check(found.Payload); err != nil { // of set_schedule
			return err
		}
		switch act := found.Act; {
		case act.SQL != "":
			done.Rows, err = due.execute(ctx, tx, now)
			return err
		case act.Job != "":
			_, err = s.client.Enqueue(ctx, tx, act.request(o, now))
			return err
		}
		done.Event = new(to.event(o, now, now))
		if found.Act.Notify != "" {
			done.Event = new(to.message(due, o, now, now))
		}
		return to.publish(ctx, tx, []event.Event{*done.Event})
	})
	if err != nil {
		return Triggered{}, fmt.Errorf("trigger schedule %q: %w", id, err)
	}
	return done, nil
}

// BackfillResult says what Backfill did.
type BackfillResult struct {
	// Published counts the events. Present counts the instants that the outbox had already.
	Published, Present int64
	// Last is the instant of the last published event. Zero: none.
	Last time.Time
	// Until is the instant at which the backfill ended: the requested end, now, or the next instant
	// of the schedule, whichever is first. Runs publish the instants from there on.
	Until time.Time
}

// backfillPage is how many events one transaction of a backfill publishes.
const backfillPage = 5000

// Backfill publishes the instants of a schedule in [from, until), oldest first, with the IDs that a
// run gives them. It uses the current crontab and bounds. It ignores the misfire policy, the
// deadline and MaxRuns. A schedule with an Act publishes no events, so Backfill returns a
// jobs.FieldError: Trigger does its work once, for now.
//
// The outbox gets each instant once, even beside runs, other backfills and a killed backfill. Runs
// publish only what comes after Until, and Backfill skips what the outbox has. If two backfills of
// a schedule overlap, the earlier one returns ErrBackfill. Backfill publishes again what was pruned
// from the outbox.
//
// Each transaction publishes up to 5,000 events. If Backfill fails, what it has published stays.
func (s *Store) Backfill(
	ctx context.Context, db pgsql.Pool, to *PublishConfig, id string, from, until time.Time,
) (done BackfillResult, err error) {
	b := &backfill{store: s, db: pg.Sqlx(db), to: to}
	if err = b.begin(ctx, id, from, until); err == nil {
		err = b.all(ctx, from)
	}
	if err != nil {
		return b.done, fmt.Errorf("backfill schedule %q: %w", id, err)
	}
	return b.done, nil
}

// backfill is one call of Backfill.
type backfill struct {
	store    *Store
	db       *sqlx.DB
	to       *PublishConfig
	schedule Schedule
	number   int64 // of the backfill, among those of the schedule
	done     BackfillResult
	present  map[int64]bool
	page     []event.Event
}

// begin reads what there is to do. Meanwhile it locks the schedule and its row, so no run publishes
// it. A later change of its instants starts after now.
func (b *backfill) begin(ctx context.Context, id string, from, until time.Time) error {
	s := b.store
	err := pgsql.InTx(ctx, b.db, func(tx *sqlx.Tx) error {
		current, err := s.lock(ctx, tx, []string{id})
		if err != nil {
			return err
		}
		if b.schedule, err = current.find(id, AnyVersion); err != nil {
			return err
		}
		if b.schedule.Act != (Act{}) {
			return &jobs.FieldError{Field: "id", Message: "a backfill publishes events, and this schedule has none: " +
				"it runs a statement, enqueues a job or notifies people"}
		}
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		b.done.Until = grid.Earlier(until, now)
		if b.schedule.State == Active {
			b.done.Until = grid.Earlier(b.done.Until, b.schedule.Next)
		}
		return tx.QueryRowContext(ctx, pg.ScheduleBackfill.In(s.schema), id).Scan(&b.number)
	})
	if err != nil {
		return err
	}
	return b.find(ctx, from)
}

// find reads which instants were published before. Call it after begin, which has waited for the
// last page of concurrent backfills.
func (b *backfill) find(ctx context.Context, from time.Time) error {
	b.present = map[int64]bool{}
	if !from.Before(b.done.Until) {
		return nil
	}
	return pgsql.InTx(ctx, b.db, func(tx *sqlx.Tx) error {
		args := []any{b.schedule.ID, from, b.done.Until}
		list, err := collect(ctx, b.store, tx, pg.SchedulePublished, args,
			func(row *sql.Rows, at *int64) error { return row.Scan(at) })
		for _, at := range list {
			b.present[at] = true
		}
		return err
	})
}

func (b *backfill) all(ctx context.Context, from time.Time) error {
	instants, err := b.schedule.instants()
	if err != nil {
		return err
	}
	for at := range instants.Between(from.Add(-1), b.done.Until.Add(-1)) {
		if b.present[at.Unix()] {
			b.done.Present++
			continue
		}
		b.page = append(b.page, b.to.event(newOccurrence(b.schedule.ID, at, b.schedule.Payload), at, time.Time{}))
		if len(b.page) == backfillPage {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	return b.flush(ctx)
}

// flush publishes a page, unless another backfill has begun. A new backfill waits for the page; a
// run does not.
func (b *backfill) flush(ctx context.Context) error {
	if len(b.page) == 0 {
		return nil
	}
	err := pgsql.InTx(ctx, b.db, func(tx *sqlx.Tx) error {
		if _, err := b.store.lockChanges(ctx, tx, []string{b.schedule.ID}); err != nil {
			return err
		}
		var last int // a separate statement sees what the lock waited for
		if err := tx.QueryRowContext(ctx, pg.ScheduleBackfillFence.In(b.store.schema), b.schedule.ID,
			b.number).Scan(&last); err != nil {
			return err
		}
		if last == 0 {
			return ErrBackfill
		}
		now, err := b.store.now(ctx, tx)
		if err != nil {
			return err
		}
		for i := range b.page {
			b.page[i].PublishedAt = now
		}
		return b.to.publish(ctx, tx, b.page)
	})
	if err == nil {
		b.done.Published += int64(len(b.page))
		b.done.Last = b.page[len(b.page)-1].Time
		b.page = b.page[:0]
	}
	return err
}
