// Package nats publishes events to a stream of NATS JetStream. Importing it registers the schemes
// nats and tls:
//
//	nats://user:password@host:4222,other:4222/subject?stream=NAME
//	tls://token@host/events.*
//
// The client tries the hosts in any order. The default port is 4222. A user without a password is a
// token. Escape the special characters of URLs in both (@ is %40). The scheme tls requires TLS; nats
// uses TLS if the server asks for it. Certificates of servers are checked against the roots of the
// system, or those of SSL_CERT_FILE. The one parameter, stream, names the stream that must take the
// events: if another stream listens on the subject, it refuses them.
//
// All events go to the subject of the URL. If its last token is *, the Subject of each event
// replaces it, as one token: letters, digits, - and _ stay, every other byte becomes %XX, and an
// empty Subject becomes _. Consumers can then filter by it. The server holds every subject of a
// stream in memory.
//
// A stream must listen on the subject. The package never creates one:
//
//	nats stream add EVENTS --subjects 'events.*' --dupe-window 24h --defaults
//
// The message is the event as structured CloudEvents JSON, and its header Content-Type says so. Its
// Nats-Msg-Id is the event's Source, # and ID. The stream does not store a repeat within its window
// for duplicates (two minutes by default). Make the window longer than the time until a run tries
// failed events again.
//
// The next event of a Subject is sent only when the stream has acknowledged the one before. So a
// batch of one Subject takes a round trip for each event; events of different Subjects share round
// trips. Events without a Subject do not wait for each other.
//
// Opening does not connect. Publish connects if there is no connection. If the connection breaks,
// an event is sent once more, over a new one. An event fails if no server can be reached, if no
// acknowledgement comes within ten seconds, or if the context ends first. It may have been stored
// nonetheless. The next Publish connects again.
package nats
