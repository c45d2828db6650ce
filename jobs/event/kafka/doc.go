// Package kafka publishes events to a topic of Kafka. Importing it registers the scheme kafka:
//
//	kafka://host:9092,other:9092/topic
//	kafka://user:password@host:9093/topic?tls=true&sasl=scram-sha-256
//
// The client asks the hosts for the list of brokers. The default port is 9092. Escape the special
// characters of URLs in the user and the password (@ is %40). The parameters:
//
//	tls    true: brokers must prove who they are, to the roots of the system or to those of SSL_CERT_FILE
//	sasl   how the user is authenticated: plain (default), scram-sha-256 or scram-sha-512
//
// The topic must exist. The package never creates one, even if the cluster allows that.
//
// The key of a record is the event's Subject, so all events of a subject are in one partition, and
// so are those without a subject. The value is the event as structured CloudEvents JSON, and the
// header content-type says so. The timestamp is the time of publishing; the event's own time is in
// the value.
//
// An event is published once every in-sync replica has it. A repeated event is in the topic twice,
// with the same ID. Consumers recognise it by source and id.
//
// The next event of a Subject is sent only when the one before is safe. A batch in which each event
// has a Subject of its own takes one round trip. A batch of one Subject takes a round trip for each
// event. Events without a Subject do not wait for each other.
//
// Opening does not connect. An event fails if no broker has taken it within ten seconds, or if the
// context ends first. It may have arrived nonetheless. The next Publish tries again. Eight calls of
// Publish run concurrently; further calls wait.
package kafka
