// Package deadletter gives up on events that a destination refuses again and again. It puts them
// into a list, table event_dead, from where an operator sends them again or discards them.
//
//	publisher = deadletter.New(publisher, deadletter.Config{DB: db, MaxRefusals: 20})
//
// Without a limit, an event that is refused stops its subject for good: its check tries it in each
// slot, and later events of the subject wait. With a limit it becomes a dead letter, and its check
// goes on as if it had been published.
//
// By default the order within a subject is kept: while the list has a dead letter of a subject, later
// events of the subject join the list behind it. [Config.Continue] sends them instead. Events without
// a subject have no order.
//
// Every failed attempt counts as a refusal, also one of a destination that is down. Choose limits that
// are longer than an outage. An event that was not sent does not count one: other events were in its
// way, the destination answered the batch as a whole with an error, or the settings forbid its address.
//
// The list is written in transactions of its own. A process that dies between an attempt and its
// record has not counted the attempt. The event is then tried again, with the same id.
//
// [List.Prune] forgets the refusals of events whose checks are gone, such as those of a deleted
// schedule.
package deadletter
