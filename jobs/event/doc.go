// Package event publishes events: from recurring schedules, and from any check of an application.
//
// An [Event] is a CloudEvent (version 1.0) with JSON data, in the JSON format of CloudEvents. It is written into
// the outbox, in the transaction of its cause (package outbox). Destinations read the outbox: a forwarder sends
// each its events, in order and at least once, with the same ID (package forward). One URL names a destination. The
// package that registered its scheme opens it:
//
//	stdout:                          JSON lines on standard output (file)
//	file:///var/log/events.jsonl     JSON lines in a file (file)
//	https://example.com/hook         a signed POST, by http: too (webhook)
//	nats://host:4222/subject         JetStream (nats)
//	kafka://host:9092,host2/topic    Kafka (kafka)
//
// Importing a package links it, as with drivers of database/sql. So an application links the client
// of a broker only if it uses that broker:
//
//	import _ "github.com/prescient-go/prescient/jobs/event/kafka"
package event
