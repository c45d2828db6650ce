// Package oteltrace makes OpenTelemetry spans of runs. Only a binary that imports it links
// OpenTelemetry:
//
//	registry := jobs.NewRegistry()
//	registry.Register("order.unshipped", jobs.Row(unshipped))
//	oteltrace.Use(registry, nil) // with the provider that is set globally
//
// The spans are
//
//	prescient run                    a slot, by one runner
//	  prescient claim                rows of it under a lease: read, check, record
//	    prescient check JOB          a call of a job's function
//	      prescient publish          events
//
// Their attributes begin with "prescient.". A run has its slot, its kind, and how many rows ended
// how. A claim has its jobs. A check has the number of rows, their lateness, and the entity of a
// single row. A check with a failed row, a claim with a lost lease and a failed run have the status
// Error and the error.
//
// [Carry] tells the transaction that enqueues which trace it belongs to. The row keeps that, and
// the spans of its checks link to the trace. They are not its children: hours lie between the two,
// and one check may have many rows.
//
// If another transaction has locked its row, a check may be repeated without an outcome, and has a
// span for each call. Checks make many spans: 100,000 rows of a job that takes one row a call make
// 100,000 spans. So let the provider sample.
package oteltrace
