// Package event publishes events: from recurring schedules, and from any check of an application.
//
// An [Event] is a CloudEvent (version 1.0) with JSON data, in the JSON format of CloudEvents. A
// [Publisher] publishes batches of events at least once: an event that was not recorded as published
// is published again, with the same ID. One URL names the destination. The package that registered
// its scheme opens it:
//
//	outbox:                          a table in the same database, in the same transaction (outbox)
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
