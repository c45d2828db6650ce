// Package api is the HTTP API of prescient serve: what its pages show and do, as JSON, under
// /api/v1. openapi.json describes all of it for machines, and is served.
//
//	GET  /api/v1/overview             is it all right?
//	GET  /api/v1/slots/{slot}         one slot, such as 2026-03-01T13:15:00Z
//	GET  /api/v1/ledger               a heat map; ?days
//	GET  /api/v1/jobs                 every job
//	GET  /api/v1/jobs/{job}           one job
//	GET  /api/v1/entity               the story of an entity; ?entity_name, ?entity_key, ?job_exec and ?item_key
//	GET  /api/v1/checks               what waits; ?job_exec, ?entity_name, ?from, ?to, ?limit and ?skip
//	GET  /api/v1/history              what ended; ?job_exec, ?outcome, ?entity_name, ?entity_key, ?until, ?before_id and ?limit
//	GET  /api/v1/schedules            a page of schedules; ?prefix, ?state, ?after and ?limit
//	GET  /api/v1/schedules/{id}       one schedule, and its next instants
//	GET  /api/v1/events               the outbox and who reads it; ?before and ?limit
//	GET  /api/v1/actions              what operators have done; ?limit
//	POST /api/v1/actions/{action}     does something: see below
//	GET  /api/v1/stores               how each store is: of a server of several alone, whose other paths are below /stores/NAME
//	GET  /api/v1/openapi.json         describes all of it
//
// An answer says when it was read from the database, as_of, and how long ago that was, age: those
// who look share what was read, see package board.
//
// An action, such as cancel, is asked for twice with the same body. With ?preview=true nothing is
// done, and the answer says in numbers what would be; with ?confirm and the confirm of that answer
// it is done, and recorded. Where it would be something else by now the answer is 409 with the plan
// as it is now, and nothing is done. The number acted of the answer can be given to the reads that
// follow as ?acted: they show nothing from before it.
//
//	cancel, reschedule, retry, pause-job, resume-job, catch-up,
//	trigger-schedule, backfill-schedule, pause-schedule, resume-schedule
//
// An error is a problem of RFC 9457, application/problem+json:
//
//	400  the request cannot be read: JSON, an unknown field, a parameter
//	401  the token is missing or wrong
//	403  the token may only read, or the database role of the server may not do it
//	404  there is no such thing, or path
//	405  the path has no such method
//	408  the body did not come in time
//	409  it would do something else by now, "plan" has what; a catch-up goes on already; or somebody else holds what it changes
//	413  the body is too large
//	415  the body is not application/json
//	422  it makes no sense, or a field is wrong; "errors" lists each with its rule
//	428  neither preview nor confirm was given
//	429  too many wrong tokens came from this address
//	500  anything else; the log has it
//	503  the database is not there, or is asked too much: try again
package api
