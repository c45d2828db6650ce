package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// oneByOne is how many connections enqueue at once, each row in a transaction of its own.
const oneByOne = 16

// enqueue fills empty tables: one row a transaction, and in bulk.
func enqueue(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "enqueue")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	r, err := b.server.river(ctx, "river_enqueue")
	if err != nil {
		return err
	}
	defer r.drop(ctx)
	client, err := jobs.NewClient(ctx, s.db, jobs.Config{})
	if err != nil {
		return err
	}
	e := &enqueuing{b, s, r, client}
	// Each of the connections enqueues enough rows that the plans which it makes first weigh nothing.
	if err := e.single(ctx, max(100, b.rows/5)); err != nil {
		return err
	}
	if err := e.bulk(ctx, b.rows, true); err != nil || b.short {
		return err
	}
	if err := e.bulk(ctx, b.rows, false); err != nil {
		return err
	}
	return e.bulk(ctx, 10*b.rows, true)
}

type enqueuing struct {
	*bench
	store  *store
	river  *riverQueue
	client *jobs.Client
}

// job is the i-th row; the rows are for the slots of a day.
func (e *enqueuing) job(i int, keyed bool) jobs.Request {
	id := 1_000_000_001 + i
	j := jobs.Request{
		JobExec: jobName, EntityName: "order", EntityKey: fmt.Sprint(id), Anonymous: !keyed, Payload: []byte(payloadOf(id)),
	}
	j.CheckAt = e.store.slot(i % 96)
	return j
}

func (e *enqueuing) jobs(rows int, keyed bool) iter.Seq[jobs.Request] {
	return func(yield func(jobs.Request) bool) {
		for i := range rows {
			if !yield(e.job(i, keyed)) {
				return
			}
		}
	}
}

// into is a side that fills prescient's table, and is checked for having done so.
func (e *enqueuing) into(name string, rows int, fill func(ctx context.Context) error) side {
	return side{name: name, prepare: e.store.empty, measure: func(ctx context.Context) (part, error) {
		p, err := timed(rows, func() error { return fill(ctx) })
		return p, errors.Join(err, e.store.expect(ctx, rows, "select count(*) from prescient.future_job"))
	}}
}

// intoRiver is a side that fills River's table.
func (e *enqueuing) intoRiver(name string, rows int, fill func(ctx context.Context) error) side {
	return side{
		name:    name,
		prepare: func(ctx context.Context) error { return e.river.exec(ctx, "truncate river_job") },
		measure: func(ctx context.Context) (part, error) {
			p, err := timed(rows, func() error { return fill(ctx) })
			return p, errors.Join(err, e.river.expect(ctx, rows, "select count(*) from river_job"))
		},
	}
}

// single enqueues each row in a transaction of its own.
func (e *enqueuing) single(ctx context.Context, rows int) error {
	own := func(db *sqlx.DB, keyed bool) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return spread(rows, func(i int) error {
				return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
					_, err := e.client.Enqueue(ctx, tx, e.job(i, keyed))
					return err
				})
			})
		}
	}
	tomorrow := e.store.slot(0)
	what := fmt.Sprintf("%s one by one, %d connections", short(rows), oneByOne)
	rates, err := e.interleave(ctx, what,
		e.into("keyed", rows, own(e.store.db, true)),
		e.into("anonymous", rows, own(e.store.db, false)),
		e.intoRiver("River InsertTx", rows, func(ctx context.Context) error {
			return spread(rows, func(i int) error {
				return pgx.BeginFunc(ctx, e.river.pool, func(tx pgx.Tx) error {
					_, err := e.river.client.InsertTx(ctx, tx, riverJob(1_000_000_001+i), scheduledAt(tomorrow))
					return err
				})
			})
		}))
	if err != nil {
		return err
	}
	for i, kind := range []string{"keyed", "anonymous"} {
		e.report.compare(figure{
			Workload: "enqueue", Case: what, Subject: "prescient Enqueue, " + kind, Against: "River InsertTx",
			Note: "both keep prepared statements",
		}, rates[i], rates[2], nil)
	}
	return nil
}

// spread calls fn for each number, on oneByOne goroutines.
func spread(rows int, fn func(i int) error) error {
	errs := make([]error, oneByOne)
	var wg sync.WaitGroup
	for g := range oneByOne {
		wg.Go(func() {
			for i := g; i < rows && errs[g] == nil; i += oneByOne {
				errs[g] = fn(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bulk enqueues many rows at once.
func (e *enqueuing) bulk(ctx context.Context, rows int, keyed bool) error {
	const batch = 5000
	sides := []side{
		e.into("COPY", rows, func(ctx context.Context) error { return e.copy(ctx, rows, keyed) }),
		e.intoRiver("River InsertManyFast, 10000 a call", rows, func(ctx context.Context) error {
			return e.river.insert(ctx, rows, e.store.slot(0), 10_000)
		}),
		e.intoRiver("River InsertManyFast, one call", rows, func(ctx context.Context) error {
			return e.river.insert(ctx, rows, e.store.slot(0), rows)
		}),
		e.into("EnqueueMany, 5000 a call", rows, func(ctx context.Context) error {
			for list := range slices.Chunk(slices.Collect(e.jobs(rows, keyed)), batch) {
				if _, err := e.client.EnqueueMany(ctx, jobs.OwnTx(e.store.db), list); err != nil {
					return err
				}
			}
			return nil
		}),
		e.into("EnqueueAll", rows, func(ctx context.Context) error {
			_, err := e.client.EnqueueAll(ctx, jobs.OwnTx(e.store.db), e.jobs(rows, keyed))
			return err
		}),
	}
	kind := "anonymous"
	if keyed {
		kind = "keyed"
	}
	what := fmt.Sprintf("%s in bulk, %s", short(rows), kind)
	rates, err := e.interleave(ctx, what, sides...)
	if err != nil {
		return err
	}
	const own = 3
	fastest := 1
	if rates[2].median() > rates[1].median() {
		fastest = 2
	}
	for i := own; i < len(sides); i++ {
		f := figure{
			Workload: "enqueue", Case: what, Subject: "prescient " + sides[i].name, Against: "COPY", Note: "into the same table",
		}
		var toCopy, toRiver *target
		if i == len(sides)-1 { // the bulk call
			toCopy, toRiver = atLeast(0.7), atLeast(1)
		}
		e.report.compare(f, rates[i], rates[0], toCopy)
		f.Against, f.Note = sides[fastest].name, "both tables empty at the start"
		e.report.compare(f, rates[i], rates[fastest], toRiver)
	}
	return nil
}

// copy is what no client can beat: one COPY of all rows in one transaction, without any check.
func (e *enqueuing) copy(ctx context.Context, rows int, keyed bool) error {
	job, err := e.store.count(ctx, "select prescient.ensure_job($1)", jobName)
	if err != nil {
		return err
	}
	columns := []string{"job", "entity_name", "entity_key", "item_key", "first_check_at", "next_check_at", "payload"}
	item := new(string)
	if !keyed {
		item = nil
	}
	next, stop := iter.Pull(e.jobs(rows, keyed))
	defer stop()
	_, err = e.store.pool.CopyFrom(ctx, pgx.Identifier{"prescient", "future_job"}, columns,
		pgx.CopyFromFunc(func() ([]any, error) {
			j, ok := next()
			if !ok {
				return nil, nil
			}
			return []any{job, j.EntityName, j.EntityKey, item, j.CheckAt, j.CheckAt, j.Payload}, nil
		}))
	return err
}
