// Package event publishes events: from recurring schedules, and from any check of an application.
//
// An [Event] is a CloudEvent (version 1.0) with JSON data, and is written in their JSON format. A
// [Publisher] takes batches of them, at least once: what was not recorded as published is published
// again, with the same ID. Where they go is one URL, opened by the package that registered its
// scheme:
//
//	outbox:                          a table in the same database, in the same transaction (outbox)
//	stdout:                          JSON lines on standard output (file)
//	file:///var/log/events.jsonl     JSON lines in a file (file)
//	https://example.com/hook         a signed POST, by http: too (webhook)
//	nats://host:4222/subject         JetStream (nats)
//	kafka://host:9092,host2/topic    Kafka (kafka)
//
// A package is linked by importing it, as drivers of database/sql are, so an application that uses
// none of a broker links none of its client:
//
//	import _ "github.com/prescient-go/prescient/jobs/event/kafka"
package event
