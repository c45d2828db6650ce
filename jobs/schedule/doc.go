// Package schedule publishes events at recurring instants: "every weekday at 9 in Berlin", for
// millions of schedules.
//
//	store, err := schedule.NewStore(ctx, db, schedule.Config{})
//	...
//	_, err = store.Create(ctx, tx, schedule.Spec{ID: "report-42", Crontab: "0 9 * * mon-fri", Timezone: "Europe/Berlin"})
//
// An active schedule is one row of future_job, which waits in the slot of the instant that is
// published next. When that slot is run, the job that [Register] has registered publishes the
// instant as an event and moves the row to the slot of the next one. So a schedule has what every
// check has: slots, leases, catch-up, history; it never runs twice at once, and one that waits
// costs nothing.
//
// # Instants and slots
//
// The crontab (see package crontab below this one) gives the instants. Each is published in the
// first slot at or after it, put off by the schedule's part of its spread, with an ID of its own,
// "<schedule>-<unix seconds>", and its nominal time; its data is an [Occurrence]. With slots of 15
// minutes, "*/5 * * * *" publishes three events in each. The instant after those is computed from
// them and never from the clock, so that the timeline does not drift.
//
// # When slots were missed
//
// An instant is missed when the slot after its own has begun before it was published: because of an
// outage, of the publisher too. [Misfire] says which of the missed instants are published, oldest
// first: all of them (the newest [MaxMissed]), the latest, or none. Those whose slot has begun last
// are not missed. An event that would be published later than the schedule's Deadline is dropped in
// any case. The deadline counts from the nominal instant where slots are a minute wide or less, and
// from the slot where they are wider, since with slots of 15 minutes a deadline of a minute would
// drop nearly everything otherwise; [DeadlineFrom] decides it for a schedule. Dropped counts what
// was not published: exactly, up to 10,000 at once; beyond that it is an estimate.
//
// # Bounds
//
// Start and End bound the instants, Exclude leaves some out, and MaxRuns ends the schedule after as
// many events.
//
// # Changes
//
// Create, Update, Pause, Resume and Delete work in the caller's transaction, on the schedule and
// the row that waits together. They wait for a run that is publishing the schedule at that moment;
// a run that comes later publishes what they have committed: after a Delete or Pause nothing, after
// an Update nothing of the version before. A change of what gives the instants (crontab, timezone,
// anchor, spread, start, end, maximum of runs, exclusions) starts with the first instant after now,
// as Resume does: it never looks like a missed one. Any other change leaves the waiting instant as
// it is.
//
// # By hand
//
// [Store.Trigger] publishes an event now, and [Store.Backfill] the instants that have passed, as a
// run would have.
//
// # How often an event is published
//
// To the outbox exactly once: it is written in the transaction that moves the row. To anything else
// at least once, in order, and with the same ID when it is repeated, since the row is moved after
// the publisher has confirmed. What the publisher did not confirm is tried again in the next slot.
//
// Package httpapi below this one serves schedules over HTTP.
package schedule
