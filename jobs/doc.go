// Package jobs is imported by applications, to enqueue checks, and to register the functions that
// do them.
//
// A check is a row that says "look at order 42 not before 13:05". The application writes it in the
// transaction that makes it necessary, so the check exists if and only if that transaction commits:
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
// The application enqueues a [Request], and the function of the job gets the row that it became, a
// [FutureJob]. The instant is rounded up to a slot. When that slot is run, the runner calls the
// function registered under job_exec. The function checks whether the expected event has happened,
// and acts if not. It returns when to check again, or nil:
//
//	registry.Register("order.unshipped", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
//		// ...
//		return nil, nil // finished: the row goes to history as done
//	}))
//
// A [Kind] ties a job to the type of its payload, for the request and the check.
//
// A row is in exactly one place, pending or history, and leaves only with a named [Outcome].
//
// Package admin, below this one, has the methods for operators: lists, history, pause and retry.
// Package jobs links neither the command line nor the configuration. Package slots runs the
// registered jobs.
package jobs
