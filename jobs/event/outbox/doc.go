// Package outbox publishes events into a table of the database that holds the jobs, in the
// transaction that gives rise to them: they exist if and only if it commits. Nothing has to be
// installed.
//
//	publisher, err := event.Open(ctx, "outbox:", event.Config{DB: db})
//
// Consumers read the table in the order of its positions, with [Outbox.Read] or the command events
// tail, and acknowledge how far they have come with [Outbox.Ack], so that [Outbox.Prune] knows what
// nobody needs any more. From its first Ack to [Outbox.Forget] nothing that a consumer has not
// acknowledged is removed but by [Outbox.PruneUnread]. A reader that goes on from where events were
// removed is told by a [LostError].
//
// A reader sees an event when no earlier one can come any more: a transaction anywhere on the
// server, in another database of it, too, that has written something and goes on holds it back. In
// return no event is ever missed by a reader that goes on from the last position it has seen, and
// an event that was written after another one was committed comes after it. Events of one
// transaction keep their order.
package outbox
