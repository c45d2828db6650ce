// Package outbox publishes events into a table of the database that holds the jobs, in the
// transaction of their cause: they exist if and only if it commits. Nothing has to be installed.
//
//	publisher := outbox.New(db, "prescient")
//
// Consumers read the table in the order of its positions, with [Outbox.Read] or the command events
// tail. They acknowledge their position with [Outbox.Ack], so that [Outbox.Prune] knows which events
// every consumer has read. From the first Ack of a consumer to [Outbox.Forget], only
// [Outbox.PruneUnread] removes events that it has not acknowledged. A reader gets a [LostError] if
// events after its position were removed.
//
// A reader sees an event once no earlier event can come any more. So an open transaction that has
// written something holds events back, also one in another database of the server. In return, a
// reader that continues from its last position misses no event. An event that was written after
// another one was committed comes after it. Events of one transaction keep their order.
package outbox
