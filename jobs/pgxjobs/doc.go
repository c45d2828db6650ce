// Package pgxjobs is for applications that speak to PostgreSQL through pgx. Who does not import it does not link pgx.
//
// [Tx] makes a transaction of pgx one that every call of a client takes, and of the stores of schedules and the like:
//
//	tx, err := pool.Begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer func() { _ = tx.Rollback(ctx) }()
//	check := jobs.FutureJob{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42", CheckAt: placedAt.Add(48 * time.Hour)}
//	if _, err := client.Enqueue(ctx, pgxjobs.Tx(tx), check); err != nil {
//		return err
//	}
//	return tx.Commit(ctx)
//
// [Open] makes a pool that goes wherever one of database/sql does, of which jobs.NewClient is the first:
//
//	db := pgxjobs.Open(pool)
//	client, err := jobs.NewClient(ctx, db, jobs.Config{})
//
// EnqueueAll goes through CopyFrom of pgx. Errors are the same as ever: jobs.ErrExists, pgsql.ErrNotMigrated.
//
// [InTx] makes a check of a function that writes through a transaction of pgx. The outcome of the check is recorded in it,
// too, so both are committed together, once. Everything else that a run does goes through the connections of the runner.
//
//	unshipped := func(ctx context.Context, tx pgx.Tx, job jobs.FutureJob) (*time.Time, error) {
//		_, err := tx.Exec(ctx, "insert into alert (number) select number from orders where number = $1 and shipped_at is null", job.EntityKey)
//		return nil, err
//	}
//	registry.RegisterTx("order.unshipped", pgxjobs.InTx(unshipped), jobs.WithPool(db))
package pgxjobs
