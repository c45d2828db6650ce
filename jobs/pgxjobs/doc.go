// Package pgxjobs connects applications that use pgx. An application that does not import it does
// not link pgx.
//
// [Tx] wraps a transaction of pgx for every call of a client, and of the stores of schedules and
// the like:
//
//	tx, err := pool.Begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer func() { _ = tx.Rollback(ctx) }()
//	check := jobs.Request{
//		JobExec: "order.unshipped", EntityName: "orders", EntityKey: "42",
//		CheckAt: placedAt.Add(48 * time.Hour),
//	}
//	if _, err := client.Enqueue(ctx, pgxjobs.Tx(tx), check); err != nil {
//		return err
//	}
//	return tx.Commit(ctx)
//
// [Open] returns a pool that goes wherever a pool of database/sql does, such as jobs.NewClient:
//
//	db := pgxjobs.Open(pool)
//	client, err := jobs.NewClient(ctx, db, jobs.Config{})
//
// EnqueueAll uses CopyFrom of pgx. Errors stay the same: jobs.ErrExists, pgsql.ErrNotMigrated.
//
// [InTx] turns a function that writes through a transaction of pgx into a check. The run records
// the outcome in the same transaction, so both commit together, once. All other work of a run uses
// the connections of the runner.
//
//	unshipped := func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
//		_, err := tx.Exec(ctx, `insert into alert (number)
//			select number from orders where number = $1 and shipped_at is null`, job.EntityKey)
//		return nil, err
//	}
//	registry.Register("order.unshipped", jobs.InTx(pgxjobs.InTx(unshipped)), jobs.WithPool(db))
package pgxjobs
