// Package admin is what operators do with checks: list what waits, read history and timelines, pause and resume jobs, retry
// failed checks, and prune history.
//
// It takes the client of an application, and its calls take a transaction or a pool, as those of package jobs do:
//
//	operator := admin.New(client)
//	retried, waiting, err := operator.Retry(ctx, db, admin.RetryFilter{JobExec: "order.unshipped"}, time.Time{})
package admin
