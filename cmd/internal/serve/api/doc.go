// Package api is the HTTP API of prescient serve and of the daemon: what their pages show and do, as
// JSON, under /api/v1. routes.go lists what it reads, and action.Forms what it does. docs/api.md tells
// it to users, and /api/v1/openapi.json, which is made from the routes, to machines.
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
// An error is a problem of RFC 9457, application/problem+json; openapi.go has the statuses.
package api
