// Package oteltrace makes OpenTelemetry spans of what runs do. Only a binary that imports it links OpenTelemetry:
//
//	registry := jobs.NewRegistry()
//	registry.Register("order.unshipped", unshipped)
//	oteltrace.Use(registry, nil) // with the provider that is set globally
//
// The spans are
//
//	prescient run                    a slot, by one runner
//	  prescient claim                rows of it under a lease: read, check, record
//	    prescient check JOB          a call of a job's function
//	      prescient publish          events
//
// each with attributes that begin with "prescient.": the slot, the kind of the run and how many rows ended how; the jobs
// of a claim; of a check the number of rows, how late they are, and the entity of a single one. A check whose row failed,
// a claim whose lease was lost and a run that failed have the status Error, and the error.
//
// The transaction that enqueues says with [Carry] which trace it is part of; it travels in the row, and the spans of the
// row's checks have a link to it. It is no parent: hours lie between the two, and a check may be of many rows.
//
// A check may be repeated without an outcome, when somebody else has its row locked, and then has a span for each time.
// The checks within a span of their own are many: 100,000 rows of a job that takes one at a time make as many spans, so
// let the provider sample.
package oteltrace
