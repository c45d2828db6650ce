// Package httpapi serves schedules over HTTP from a server of your own. prescient serve and the daemon serve the same
// paths below /api/v1, as a part of their API.
//
//	api, err := httpapi.New(httpapi.Config{Store: store, DB: db, Tokens: []string{token}})
//	http.Handle("/", api)
//
// Every request needs the header "Authorization: Bearer <token>". Bodies are JSON. The
// path /openapi.json describes all of it for machines.
//
//	GET    /schedules               a page of schedules; ?prefix, ?state, ?after and ?limit (50, at most 200; 4 MiB of
//	                                payloads)
//	POST   /schedules               creates one: 201
//	GET    /schedules/{id}          one schedule, with its next instants
//	PUT    /schedules/{id}          replaces all of its fields, but keeps an anchor that is left out
//	PATCH  /schedules/{id}          changes the given fields by RFC 7396; null is the default
//	DELETE /schedules/{id}          deletes it: 204
//	POST   /schedules/{id}/pause    stops its events
//	POST   /schedules/{id}/resume   starts its events again, from now on
//	POST   /schedule-changes        creates, updates and deletes many
//	GET    /crontab-preview         instants with slots and local time; ?crontab, ?timezone, ?anchor, ?from, ?to and
//	                                ?limit (100, at most 1000)
//	GET    /openapi.json            describes all of it
//
// A schedule is, with every field (only id and crontab are required),
//
//	{"id": "report-42", "crontab": "0 9 * * mon-fri", "timezone": "Europe/Berlin", "payload": {"report": 42},
//	 "deadline": "2h", "spread": "10m", "misfire": "latest", "anchor": "2026-01-01T00:00:00Z", "paused": false}
//
// An answer also has state, version, next, slot, dropped, error_count, last_error,
// publishing_paused_at, created_at and updated_at. One that is paused has paused_at and
// paused_by. The version is also the ETag: with "If-Match" a
// change applies only to that version; otherwise the answer is 412.
//
// Up to 10,000 changes are one list. The server makes them while it reads, up to 1000 in a
// transaction:
//
//	{"changes": [{"action": "create", "schedule": {"id": "report-43", "crontab": "@daily"}},
//	             {"action": "update", "schedule": {"id": "report-42", "crontab": "@daily"}, "version": 3},
//	             {"action": "delete", "schedule": {"id": "report-41"}}]}
//
// A wrong change fails alone. The answer, 200, counts the changes that were made and that failed.
// It lists the problems of the first 1000 failed changes, each with its index in the list and its
// id. If the rest of the list cannot be read, the problem says how many changes were made before.
//
// An error is a problem of RFC 9457, application/problem+json:
//
//	400  the request cannot be read: JSON, an unknown field, a parameter
//	401  the token is missing or wrong
//	403  the token may only read, or the role of the database may not do it
//	404  there is no such schedule, or path
//	405  the path has no such method
//	408  the body did not come in time
//	409  there is a schedule of this id
//	412  the schedule has another version
//	413  the body is too large
//	415  the body is not application/json
//	422  a field is wrong; "errors" lists each with its rule
//	500  anything else; the log has it
//	503  the database is not there, or lacks the tables: try again
package httpapi
