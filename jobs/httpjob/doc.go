// Package httpjob binds a job to a service, so that its checks may be written in any language. A
// request carries many due rows as JSON. The answer says for each row when to check again, that it
// is finished, or what went wrong:
//
//	err := httpjob.Register(registry, httpjob.Config{
//		Name: "invoice.overdue", URL: "https://billing.example.com/checks", Secret: secret,
//	})
//
// A request is a POST:
//
//	{
//	  "store": "018f2b6e-2f8c-4f4e-9a53-6c1d0a7b9e21",
//	  "job": "invoice.overdue",
//	  "slot": "2026-03-01T13:15:00Z",
//	  "rows": [{
//	    "id": 4711, "enqueued_at": "2026-02-26T09:41:07.123456Z",
//	    "entity_name": "invoice", "entity_key": "42", "item_key": "", "group_key": "",
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
// A time, in RFC 3339, is rounded up to a slot. Without a time, or with null, the row is finished.
// An error belongs to its row, which is retried in later slots. A row without a result, or with
// two, is retried, too.
//
// Any other problem with an answer fails all rows of its request: another status, other JSON, an
// unknown or repeated field, an id that was not in the request. A row is finished only if the
// answer says so.
//
// A status that refuses the content (400, 413 or 422) may be because of one row. The runner then sends
// each half of the rows, down to the single row, which owns the error.
//
// A request is signed by Standard Webhooks 1.0 if Config.Secret is set. It goes only to public addresses and those of
// Config.Allow. It is sent again after a network error and after the answers 408, 425, 429 and 5xx, with pauses that
// double, or that Retry-After asks for. Redirects 307 and 308 are followed, but not from https to http. After a
// crash a request may come again. With the same rows in the same state it has the same webhook-id.
//
// Two checks are the same if their store, id, enqueued_at and check_count are. The id alone does not name a row: each
// store counts from 1, and a store that was restored from a backup gives ids again. Compare enqueued_at as text.
package httpjob
