// Package nats publishes events to a stream of NATS JetStream. Importing it registers the schemes
// nats and tls:
//
//	nats://user:password@host:4222,other:4222/subject?stream=NAME
//	tls://token@host/events.*
//
// The hosts are where the client looks for a server, in any order; the port is 4222 where none is
// given. A user without a password is a token. What has a meaning in URLs is escaped in both (@ is
// %40). The scheme tls insists on TLS, which nats uses where the server asks for it. Servers prove
// who they are to the roots of the system, or to those of SSL_CERT_FILE. The one parameter, stream,
// names the stream that must take the events: another that listens on the subject refuses them.
//
// All events go to the subject of the URL. Where its last token is *, the Subject of each event
// takes its place, as one token: letters, digits, - and _ stay, every other byte is %XX, and no
// Subject is _. Consumers can filter by it then; the server holds every subject of a stream in
// memory.
//
// A stream must listen on the subject. None is created:
//
//	nats stream add EVENTS --subjects 'events.*' --dupe-window 24h --defaults
//
// The message is the event as structured CloudEvents JSON, and its header Content-Type says so. Its
// Nats-Msg-Id is the event's Source, # and ID: what is published again within the stream's window
// for duplicates (two minutes unless it says otherwise) is not stored again. Make the window longer
// than it takes until a run tries again what failed.
//
// No two events of a Subject are under way at once: the second is sent when the stream has
// acknowledged the first. So a batch of one Subject takes as many round trips as it has events;
// events of different Subjects share them.
//
// Opening connects to nothing. Publish connects when there is no connection. An event whose
// connection breaks is sent once more, over a new one; it fails when no server can be reached, when
// no acknowledgement comes within ten seconds, or when the context ends. The next Publish connects
// again. An event that failed so may have been stored nonetheless.
package nats
