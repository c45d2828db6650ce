// Package deadletter lists the events that were given up because a destination refused them, in table event_dead. An
// operator lets them be tried again, or discards them.
//
// A forwarder (package forward) tries a refused event again and again. With a limit, the event becomes a dead letter:
// no forwarder tries it any more. By default the order within a subject is kept: while the list has a dead letter of a
// subject, later events of the subject join the list behind it. Continue of forward.Config sends them instead. Events
// without a subject have no order.
package deadletter
