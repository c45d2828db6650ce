// Package httpapi serves schedules over HTTP.
//
//	api, err := httpapi.New(httpapi.Config{Store: store, DB: db, Token: token})
//	http.Handle("/", api)
//
// Every request needs the header "Authorization: Bearer <token>". Bodies are JSON.
//
//	GET    /schedules               a page of schedules; ?prefix, ?state, ?after and ?limit (100, at most 1000)
//	POST   /schedules               creates one: 201
//	GET    /schedules/{id}          one schedule
//	PUT    /schedules/{id}          replaces what is said about it, all of it but an anchor that is left out
//	DELETE /schedules/{id}          deletes it: 204
//	POST   /schedules/{id}/pause    lets it publish nothing
//	POST   /schedules/{id}/resume   ends that, from now on
//	GET    /preview                 instants with slots and local time; ?crontab, ?timezone, ?anchor, ?from, ?to and ?limit
//
// A schedule is, with all that may be left out but id and crontab,
//
//	{"id": "report-42", "crontab": "0 9 * * mon-fri", "timezone": "Europe/Berlin", "payload": {"report": 42},
//	 "deadline": "2h", "spread": "10m", "misfire": "latest", "anchor": "2026-01-01T00:00:00Z", "paused": false}
//
// and is answered with state, version, next, slot, dropped, error_count, last_error, created_at and updated_at besides.
// Its version is also its ETag: with "If-Match" a change is made only to that version, else the answer is 412.
//
// An error is a problem of RFC 9457, application/problem+json:
//
//	400  the request cannot be read: JSON, an unknown field, a parameter
//	401  the token is missing or wrong
//	404  there is no such schedule, or path
//	405  the path has no such method
//	409  there is a schedule of this id
//	412  the schedule has another version
//	413  the body is too large
//	415  the body is not application/json
//	422  a field is wrong; "errors" lists each with its rule
//	500  anything else; the log has it
//	503  the database is not there: try again
package httpapi
