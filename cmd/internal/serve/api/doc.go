// Package api is the HTTP API of prescient serve and of the daemon: what their pages show and do, as
// JSON, under /api/v1. openapi.json describes all of it for machines, and is served.
//
//	GET  /api/v1/overview             is it all right?
//	GET  /api/v1/slots/{slot}         one slot, such as 2026-03-01T13:15:00Z
//	GET  /api/v1/ledger               a heat map; ?days
//	GET  /api/v1/jobs                 every job
//	GET  /api/v1/jobs/{job}           one job
//	GET  /api/v1/jobs/{job}/advice    when to check its rows
//	GET  /api/v1/entity               the timeline of an entity; ?entity_name, ?entity_key, ?job_exec and ?item_key
//	GET  /api/v1/checks               waiting checks; ?job_exec, ?entity_name, ?from, ?to, ?after and ?limit
//	GET  /api/v1/history              ended checks; ?job_exec, ?outcome, ?entity_name, ?entity_key, ?until, ?after
//	                                  and ?limit
//	GET  /api/v1/rules                every rule
//	GET  /api/v1/rules/{rule}         one rule, what waits for it, and what it has fired
//	GET  /api/v1/schedules            a page of schedules; ?prefix, ?state, ?after and ?limit
//	GET  /api/v1/schedules/{id}       one schedule, and its next instants
//	GET  /api/v1/events               the outbox, who reads it, and dead letters; ?before and ?limit
//	GET  /api/v1/actions              the actions of operators; ?limit
//	POST /api/v1/actions/{action}     does something: see below
//	GET  /api/v1/stores               the state of each store, if there are several; the other paths are then
//	                                  below /stores/NAME
//	GET  /api/v1/openapi.json         describes all of it
//
// An answer says when its data was read from the database, as_of, and how old it is, age. Readers
// share what was read; see package board.
//
// An action, such as cancel, takes two requests with the same body. With ?preview=true the answer
// says in numbers what the action would do. With ?confirm, and the field confirm of that answer,
// the server does the action and records it. If the action would now do something else, the server
// does nothing and answers 409 with the current plan. The field acted of the answer is a parameter
// of later reads: with ?acted they show nothing from before the action.
//
//	cancel, cancel-many, reschedule, retry, pause-job, resume-job, remove-rule, catch-up,
//	trigger-schedule, backfill-schedule, pause-schedule, resume-schedule,
//	resend-events, discard-events
//
// An error is a problem of RFC 9457, application/problem+json:
//
//	400  the request cannot be read: JSON, an unknown field, a parameter
//	401  the token is missing or wrong
//	403  the token may only read, or the database role of the server may not do it
//	404  no such object or path
//	405  the path has no such method
//	408  the body did not arrive in time
//	409  it would now do something else, see "plan"; a catch-up is running; or another transaction has locked the rows
//	413  the body is too large
//	415  the body is not application/json
//	422  the action makes no sense, or a field is wrong; "errors" lists each with its rule
//	428  neither preview nor confirm was given
//	429  too many wrong tokens came from this address
//	500  any other error; it is in the log
//	503  the database does not answer, lacks the tables, or has too many requests: try again
package api
