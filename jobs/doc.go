// Package jobs lets an application do two things: register the functions of checks, and enqueue
// checks.
//
// A check is one look at a thing: "look at order 42 not before 13:05, and act if it is not shipped".
// Its function is registered under a name, with its shape: [Row] and [InTx] get one row, [Each],
// [Batch] and [BatchInTx] get many, and [Group] all of a group. It returns when to look again, or nil:
//
//	registry := jobs.NewRegistry()
//	registry.Register("order.unshipped", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
//		// ...
//		return nil, nil // finished: the row goes to history as done
//	}), jobs.Retry(3))
//
// The application enqueues a [Request] in the transaction that makes the check necessary. So the
// check exists if and only if that transaction commits:
//
//	client, err := jobs.NewClient(ctx, db, jobs.Config{})
//	if err != nil {
//		return err
//	}
//	check := jobs.Request{
//		JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42",
//		CheckAt: placedAt.Add(48 * time.Hour),
//	}
//	if _, err := client.Enqueue(ctx, tx, check); err != nil {
//		return err
//	}
//
// The request becomes a row, a [FutureJob]. Its instant is rounded up to a slot. When that slot is
// run, the runner calls the function of the job with the row.
//
// A [Kind] ties a job to the type of its payload, for the request and the check.
//
// A row is in exactly one place, pending or history, and leaves only with a named [Outcome].
//
// Package admin, below this one, has the methods for operators: lists, history, pause and retry.
// Package jobs links neither the command line nor the configuration. Package slots runs the
// registered jobs.
package jobs
