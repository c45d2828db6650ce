// Package schedule publishes events at recurring instants: "every weekday at 9 in Berlin", for
// millions of schedules.
//
//	store, err := schedule.NewStore(ctx, db, schedule.Config{})
//	...
//	_, err = store.Create(ctx, tx, schedule.Spec{ID: "report-42", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin"})
//
// An active schedule is one row of future_job, which waits in the slot of its next instant. When
// that slot is run, the job that [Register] has registered publishes the instant as an event and
// moves the row to the slot of the instant after it. So a schedule has leases, catch-up and history
// like every check, never runs twice concurrently, and costs nothing while it waits.
//
// # Instants and slots
//
// The crontab (see package crontab below this one) gives the instants. Each is published in the
// first slot at or after it, delayed by the schedule's part of its spread. The event has the ID
// "<schedule>-<unix seconds>", the nominal time, and an [Occurrence] as its data. With slots of 15
// minutes, "*/5 * * * *" publishes three events in each. The next instant follows from the one
// before, never from the clock, so that the timeline does not drift.
//
// # When slots were missed
//
// An instant is missed if the slot after its own begins before it is published, because of an
// outage. Instants of the slot that has begun last are not missed. [Misfire]
// says which missed instants are published, oldest first: all of them (the newest [MaxCatchUp]),
// the latest, or none. An event that would be later than the schedule's Deadline is always dropped.
// The deadline counts from the nominal instant, delayed by the schedule's part of its spread, if slots are at most a
// minute wide. If they are wider, it counts from the slot: with slots of 15 minutes, a deadline of a minute would
// otherwise drop nearly everything. [DeadlineFrom] decides it for one schedule. Dropped counts the events that
// were not published: exactly up to 10,000 at a time, and as an estimate beyond that.
//
// # Bounds
//
// Start and End bound the instants, Exclude leaves some out, and MaxRuns ends the schedule after
// that many events.
//
// # Changes
//
// Create, Update, Pause, Resume and Delete change the schedule and its waiting row together, in the
// caller's transaction. They wait for a run that is publishing the schedule. A later run publishes
// by the committed change: nothing after a Delete or Pause, and nothing of the earlier version
// after an Update. A change of the instants (crontab, timezone, anchor, spread, start, end, maximum
// of runs, exclusions) starts with the first instant after now, as Resume does, so that no instant
// looks missed. Any other change leaves the waiting instant as it is.
//
// # Another act
//
// A schedule with an [Act] runs a statement of SQL at each instant instead, enqueues a check of a job, or sends a
// message to people. The statement runs once for each instant, in the transaction that moves the row, which no other
// schedule shares: a change of another schedule does not wait for it. If it fails, nothing of it is left, and the row
// waits for the next slot with its error.
//
// # By hand
//
// [Store.Trigger] does now what the schedule does at each instant. [Store.Backfill] publishes past
// instants, as a run would have done. It refuses a schedule with an [Act], which publishes no events.
//
// # How often an event is published
//
// The outbox gets an event exactly once, in the transaction that moves the row. A destination gets it
// from there, at least once, in order, and with the same ID if it is repeated: see package forward.
//
// Package httpapi below this one serves schedules over HTTP.
package schedule
