// Package httpjob binds a job to a service, so that its checks may be written in any language. The due rows go out as
// JSON, many in one request, and the answer says for each when to look again, that it is finished, or what went wrong:
//
//	err := httpjob.Register(registry, httpjob.Config{
//		Name: "invoice.overdue", URL: "https://billing.example.com/checks", Secret: secret,
//	})
//
// A request is a POST:
//
//	{
//	  "job": "invoice.overdue",
//	  "slot": "2026-03-01T13:15:00Z",
//	  "rows": [{
//	    "id": 4711, "entity_name": "invoice", "entity_key": "42", "item_key": "", "group_key": "",
//	    "payload": {"amount": 120}, "first_check_at": "2026-03-01T13:15:00Z", "check_count": 0, "error_count": 0,
//	    "last_error": "", "caught_up": false, "lateness_seconds": 0.8
//	  }]
//	}
//
// The answer has status 200 and one result for each row, in any order:
//
//	{"results": [
//	  {"id": 4711, "next": "2026-03-02T13:00:00Z"},
//	  {"id": 4712, "next": null},
//	  {"id": 4713, "error": "the ledger does not answer"}
//	]}
//
// A time, in RFC 3339, is rounded up to a slot. Without a time, or with null, the row is finished. An error is that
// row's alone, and is tried again in later slots; so is a row that the answer leaves out, or has two results for.
// Whatever else is wrong with an answer fails all rows of its request: another status, text that is no such JSON, a
// field that is not known here or is there twice, an id that was not asked for. Nothing is taken for finished that was not said to be.
//
// Requests are signed, tried again and kept to allowed addresses as package egress has it. A request may come again
// after a crash: with the same rows in the same state it has the same webhook-id, and a row that has the same id and
// check_count is the same check.
package httpjob
