package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/prescient-go/prescient/jobs"
)

const (
	orderOf    = "select status from orders where id = $1"
	ordersOf   = "select id, status from orders where id = any($1)"
	raiseOne   = "insert into alert (order_id, what) values ($1, 'unpaid')"
	raiseMany  = "insert into alert (order_id, what) select id, 'unpaid' from unnest($1::bigint[]) as id"
	alertShare = 20 // one of 20 orders is unpaid

	riverWorkers   = 1000
	riverWorkersTx = 200 // each takes one of the connections
)

// realistic has each check look up its order by primary key and raise an alert for 5 % of them.
func realistic(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "orders")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	r, err := b.server.river(ctx, "river_orders")
	if err != nil {
		return err
	}
	defer r.drop(ctx)
	first, rows := s.nextID, b.rows
	for _, d := range []*database{s.database, r.database} {
		if err := d.orders(ctx, first, rows); err != nil {
			return err
		}
	}

	direct, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = direct.db.Close() }()

	own := func(name, note string, rows int, s *store, registry *jobs.Registry) side {
		return side{
			name: name, note: note,
			prepare: func(ctx context.Context) error {
				s.nextID = first
				return errors.Join(s.exec(ctx, "truncate alert"), s.empty(ctx), s.fill(ctx, rows, "0", true))
			},
			measure: func(ctx context.Context) (part, error) {
				p, err := s.run(ctx, registry, s.slot(0), rows)
				return p, errors.Join(err, s.alerts(ctx, rows))
			},
		}
	}
	ofRiver := func(name, note string, rows, workers int,
		fn func(ctx context.Context, job *river.Job[riverArgs]) error,
	) side {
		return side{
			name: name, note: note,
			prepare: func(ctx context.Context) error {
				return errors.Join(r.exec(ctx, "truncate alert"), r.fill(ctx, rows, time.Time{}))
			},
			measure: func(ctx context.Context) (part, error) {
				p, err := r.work(ctx, rows, rows, workers, fn)
				return p, errors.Join(err, r.alerts(ctx, rows))
			},
		}
	}
	few := max(100, rows/10) // a commit for each row takes long, and its rate does not depend on how many there are
	const once = "exactly once in the database"
	sides := []side{
		own("prescient, in batches", "at least once", rows, s, registerBatch(s.checkOrders)),
		own("prescient, in batches with a transaction", once, rows, s, registerBatchTx(checkOrders)),
		own("prescient, a transaction for each row", once+", "+short(few)+" rows", few, direct, registerTx(checkOrder)),
		own("prescient, row by row in shared transactions", once, rows, direct, registerEach(checkOrder)),
		ofRiver("River, each row on its own", "at least once", rows, riverWorkers, r.checkOrder),
		ofRiver("River, a transaction for each row", once+", "+short(few)+" rows", few, riverWorkersTx, r.checkOrderTx),
	}
	ours := 4
	if !b.short {
		sides = slices.Insert(sides, ours,
			own("prescient, each row on its own", "at least once", rows, s, register(s.checkOrder)))
		ours++
	}
	what := fmt.Sprintf("%s checks, 5 %% alerts", short(rows))
	rates, err := b.interleave(ctx, what, sides...)
	if err != nil {
		return err
	}
	best := ours
	for i := ours; i < len(sides); i++ {
		if rates[i].median() > rates[best].median() {
			best = i
		}
	}
	for i := range ours {
		var t *target
		if i < 2 {
			t = atLeast(10)
		}
		if last := len(sides) - 1; (i == 2 || i == 3) && best != last { // beside the side of River that keeps as much
			var same *target
			if i == 3 {
				same = atLeast(3)
			}
			b.report.compare(figure{
				Workload: "realistic", Case: what, Subject: sides[i].name, Against: sides[last].name,
				Note: sides[i].note + " / " + sides[last].note,
			}, rates[i], rates[last], same)
		}
		b.report.compare(figure{
			Workload: "realistic", Case: what, Subject: sides[i].name, Against: sides[best].name,
			Note: sides[i].note + " / " + sides[best].note,
		}, rates[i], rates[best], t)
	}
	for i := ours; i < len(sides); i++ {
		if i != best {
			b.report.compare(figure{
				Workload: "realistic", Case: what, Subject: sides[1].name, Against: sides[i].name,
				Note: sides[1].note + " / " + sides[i].note,
			}, rates[1], rates[i], nil)
		}
	}
	return nil
}

// orders makes the tables of the application.
func (d *database) orders(ctx context.Context, first, rows int) error {
	return d.exec(ctx, `
		create table orders (
			id bigint primary key,
			customer text not null,
			status text not null,
			amount numeric not null,
			placed_at timestamptz not null default now(),
			note text not null
		)`,
		"create table alert (id bigint generated always as identity primary key, order_id bigint not null, what text not null, raised_at timestamptz not null default now())",
		fmt.Sprintf(`
			insert into orders (id, customer, status, amount, note)
			select i, 'customer-' || i %% 100000, case when i %% %d = 0 then 'unpaid' else 'paid' end, i %% 1000, repeat('x', 100)
			from generate_series(%d::bigint, %d::bigint) as i`, alertShare, first, first+rows-1),
		"vacuum (analyze) orders")
}

func (d *database) alerts(ctx context.Context, rows int) error {
	return d.expect(ctx, rows/alertShare, "select count(distinct order_id) from alert")
}

func registerTx(fn jobs.TxCheckFunc) *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register(jobName, jobs.InTx(fn))
	return r
}

func registerEach(fn jobs.TxCheckFunc) *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register(jobName, jobs.Each(fn))
	return r
}

// checkOrder looks up one order through the check's transaction.
func checkOrder(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	var status string
	if err := tx.QueryRowContext(ctx, orderOf, job.EntityKey).Scan(&status); err != nil {
		return nil, err
	}
	if status != "unpaid" {
		return nil, nil
	}
	_, err := tx.ExecContext(ctx, raiseOne, job.EntityKey)
	return nil, err
}

// checkOrder looks up one order through the pool.
func (s *store) checkOrder(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
	var status string
	if err := s.pool.QueryRow(ctx, orderOf, atoi(job.EntityKey)).Scan(&status); err != nil {
		return nil, err
	}
	if status != "unpaid" {
		return nil, nil
	}
	_, err := s.pool.Exec(ctx, raiseOne, atoi(job.EntityKey))
	return nil, err
}

// checkOrders looks up a page of orders by one query, through the pool.
func (s *store) checkOrders(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
	rows, err := s.pool.Query(ctx, ordersOf, ordersIn(batch))
	if err != nil {
		return nil, err
	}
	results, unpaid, err := judge(batch, rows)
	if err == nil && len(unpaid) > 0 {
		_, err = s.pool.Exec(ctx, raiseMany, unpaid)
	}
	return results, err
}

// checkOrders looks up a page of orders by one query, through the transaction of the batch.
func checkOrders(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
	rows, err := tx.QueryContext(ctx, ordersOf, pq.Array(ordersIn(batch)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	results, unpaid, err := judge(batch, rows)
	if err == nil && len(unpaid) > 0 {
		_, err = tx.ExecContext(ctx, raiseMany, pq.Array(unpaid))
	}
	return results, err
}

func ordersIn(batch []jobs.FutureJob) []int64 {
	ids := make([]int64, len(batch))
	for i, job := range batch {
		ids[i] = atoi(job.EntityKey)
	}
	return ids
}

// judge reads the orders of a batch and tells which are unpaid.
func judge(batch []jobs.FutureJob, rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
},
) (results []jobs.Result, unpaid []int64, err error) {
	found := make(map[int64]string, len(batch))
	for rows.Next() {
		var id int64
		var status string
		if err := rows.Scan(&id, &status); err != nil {
			return nil, nil, err
		}
		found[id] = status
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	results = make([]jobs.Result, len(batch))
	for i, id := range ordersIn(batch) {
		switch found[id] {
		case "unpaid":
			unpaid = append(unpaid, id)
		case "":
			results[i].Err = fmt.Errorf("there is no order %d", id)
		}
	}
	return results, unpaid, nil
}

// checkOrder is River's job without a transaction of its own.
func (q *riverQueue) checkOrder(ctx context.Context, job *river.Job[riverArgs]) error {
	var status string
	if err := q.pool.QueryRow(ctx, orderOf, job.Args.Order).Scan(&status); err != nil {
		return err
	}
	if status != "unpaid" {
		return nil
	}
	_, err := q.pool.Exec(ctx, raiseOne, job.Args.Order)
	return err
}

// checkOrderTx is River's job that completes itself together with its writes.
func (q *riverQueue) checkOrderTx(ctx context.Context, job *river.Job[riverArgs]) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		var status string
		if err := tx.QueryRow(ctx, orderOf, job.Args.Order).Scan(&status); err != nil {
			return err
		}
		if status == "unpaid" {
			if _, err := tx.Exec(ctx, raiseOne, job.Args.Order); err != nil {
				return err
			}
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// atoi reads a number that this command wrote.
func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
