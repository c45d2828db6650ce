// Package kafka publishes events to a topic of Kafka. Importing it registers the scheme kafka:
//
//	kafka://host:9092,other:9092/topic
//	kafka://user:password@host:9093/topic?tls=true&sasl=scram-sha-256
//
// The hosts are where the client learns of all brokers; the port is 9092 where none is given. What
// has a meaning in URLs is escaped in the user and the password (@ is %40). The parameters:
//
//	tls    true: brokers must prove who they are, to the roots of the system or to those of SSL_CERT_FILE
//	sasl   how the user is authenticated: plain (default), scram-sha-256 or scram-sha-512
//
// The topic must exist. None is created, whatever the cluster would allow.
//
// A record's key is the event's Subject, so all events of a subject are in one partition, and those
// without a subject too. Its value is the event as structured CloudEvents JSON, and its header
// content-type says so. Its timestamp is when it was published; the event's own time is in the
// value.
//
// An event is published when every in-sync replica has it. What was published again, with the same
// ID, is in the topic again: consumers tell a repeat by source and id.
//
// No two events of a Subject are under way at once: the second is sent when the first is safe. A
// batch in which each event has a Subject of its own takes one round trip, a batch of one Subject
// as many as it has events.
//
// Opening connects to nothing. An event fails when no broker has taken it within ten seconds, or
// when the context ends. The next Publish tries again. An event that failed so may have arrived
// nonetheless. Eight calls of Publish are served at once, the others wait.
package kafka
