// Package forward sends the events of the outbox to destinations, such as a webhook or Kafka.
//
//	f, err := forward.Start(ctx, forward.Config{DB: db, Destinations: []forward.Destination{
//		{Name: "warehouse", Types: []string{"order.*"}, Publisher: kafka},
//	}})
//	...
//	sent := f.Finish() // or f.Stop()
//
// Each destination is a consumer of the outbox with a name. A new one begins with the events that are written from
// then on. A forwarder reads the events after the consumer's position, sends them, and moves the position. It calls the
// destination outside of every transaction. One forwarder at a time sends to a destination, whatever process it is in:
// it has a lease, of a minute by default, which each batch renews. After a kill, another forwarder goes on when the
// lease ends. A forwarder that has lost its lease cannot move the position.
//
// A destination gets each event at least once. It gets an event again, with the same ID, if a forwarder dies between
// the event and its record. Events of one subject arrive in order.
//
// If a destination accepts nothing, the forwarder tries again after a pause, which grows from a second to a minute. It
// is as long as the header Retry-After asks for, a minute at most. If it accepts other events, or says that it refuses
// an event for what is in it ([event.ErrRefused]), the forwarder writes the refused event into a list, table
// event_dead. Later events of its subject wait behind it in the list, and those of other subjects go on. The event is
// tried again after pauses that grow to 10 minutes, for ever or until a limit. Then it is a dead letter: no
// forwarder tries it any more, until the command "events resend" puts it back.
package forward
