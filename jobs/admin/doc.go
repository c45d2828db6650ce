// Package admin has the methods for operators: list and cancel waiting checks, read history and timelines,
// pause and resume jobs, retry or acknowledge failed checks, and prune history.
//
// It takes the client of an application. Unlike the calls of package jobs, its calls take a transaction or a pool, see
// jobs.DB:
//
//	operator := admin.New(client)
//	retried, waiting, err := operator.Retry(ctx, db, admin.RetryFilter{JobExec: "order.unshipped"}, time.Time{})
package admin
