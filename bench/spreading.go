package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Everybody wants to be checked at one instant, and is content with any slot of the next hours.
const (
	window      = 4 * time.Hour
	windowSlots = 16
)

// leastLoaded has three ways to find the least loaded slot of the window. The first counts the waiting
// rows. The second reads a table of loads to which each enqueue adds. In the third, another process
// updates that table, so all rows go to the same slot until its next update.
const leastLoaded = `
	create table slot_load (slot timestamptz primary key, n bigint not null default 0);
	insert into slot_load
	select slot from generate_series(timestamptz '%[1]s', timestamptz '%[1]s' + interval '3 h 45 min', interval '15 min') as g (slot);

	create function least_counted(at timestamptz) returns timestamptz language sql volatile as $$
		select l.slot from slot_load l where l.slot >= at and l.slot < at + interval '4 h'
		order by (select count(*) from prescient.future_job f where f.next_check_at = l.slot) limit 1
	$$;
	create function least_added(at timestamptz) returns timestamptz language sql volatile as $$
		update slot_load l set n = l.n + 1
		where l.slot = (select o.slot from slot_load o where o.slot >= at and o.slot < at + interval '4 h' order by o.n limit 1)
		returning l.slot
	$$;
	create function least_read(at timestamptz) returns timestamptz language sql volatile as $$
		select l.slot from slot_load l where l.slot >= at and l.slot < at + interval '4 h' order by l.n limit 1
	$$`

// spreading is what a window costs an enqueue, beside what a look at the load of its slots would cost.
func spreading(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "spreading")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	client, err := jobs.NewClient(ctx, s.db, jobs.Config{})
	if err != nil {
		return err
	}
	if err := s.exec(ctx, fmt.Sprintf(leastLoaded, s.slot(0).Format(time.RFC3339))); err != nil {
		return err
	}
	e := &enqueuing{bench: b, store: s, client: client}
	few := max(100, b.rows/5)
	if b.short {
		few = max(100, b.rows/40)
	}
	if err := e.windowsOneByOne(ctx, few); err != nil {
		return err
	}
	return e.windowsInBulk(ctx, b.rows)
}

// windowed is the i-th row; without a window it asks for one of its slots, so that both leave the same table.
func (e *enqueuing) windowed(i int, within time.Duration) jobs.Request {
	j := e.job(i, true)
	j.CheckAt, j.Within = e.store.slot(0), within
	if within == 0 {
		j.CheckAt = e.store.slot(i % windowSlots)
	}
	return j
}

func (e *enqueuing) windows(rows int, within time.Duration) iter.Seq[jobs.Request] {
	return func(yield func(jobs.Request) bool) {
		for i := range rows {
			if !yield(e.windowed(i, within)) {
				return
			}
		}
	}
}

func (e *enqueuing) windowsOneByOne(ctx context.Context, rows int) error {
	each := func(enqueue func(ctx context.Context, tx *sqlx.Tx, i int) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return spread(rows, func(i int) error {
				return pgsql.InTx(ctx, e.store.db, func(tx *sqlx.Tx) error { return enqueue(ctx, tx, i) })
			})
		}
	}
	client := func(within time.Duration) func(ctx context.Context, tx *sqlx.Tx, i int) error {
		return func(ctx context.Context, tx *sqlx.Tx, i int) error {
			_, err := e.client.Enqueue(ctx, tx, e.windowed(i, within))
			return err
		}
	}
	least := func(function string) func(ctx context.Context, tx *sqlx.Tx, i int) error {
		query := "select id, slot, action from prescient.enqueue($1, $2, $3, check_at => " + function + "($4), payload => $5::jsonb)"
		return func(ctx context.Context, tx *sqlx.Tx, i int) error {
			j := e.windowed(i, window)
			var done jobs.EnqueueResult
			return pg.One(ctx, tx, query, []any{j.JobExec, j.EntityName, j.EntityKey, j.CheckAt, string(j.Payload)}, &done.ID,
				&done.Slot, &done.Action)
		}
	}
	sides := []side{
		e.into("without a window", rows, each(client(0))),
		e.into("Within: the place of the key", rows, each(client(window))),
		e.into("the least loaded slot, counted by the slot index", rows, each(least("least_counted"))),
		e.into("the least loaded slot of a table that each adds to", rows, each(least("least_added"))),
		e.into("the least loaded slot of a table that is only read", rows, each(least("least_read"))),
	}
	what := fmt.Sprintf("%s one by one, %d connections", short(rows), oneByOne)
	rates, err := e.interleave(ctx, what, sides...)
	if err != nil {
		return err
	}
	for i := 1; i < len(sides); i++ {
		f := figure{
			Workload: "spreading", Case: what, Subject: sides[i].name, Against: sides[0].name, Note: "into one of 16 slots",
		}
		var wanted *target
		if i == 1 {
			wanted = atLeast(0.9)
		}
		e.report.compare(f, rates[i], rates[0], wanted)
	}
	return nil
}

func (e *enqueuing) windowsInBulk(ctx context.Context, rows int) error {
	const batch = 5000
	many := func(within time.Duration) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			for list := range slices.Chunk(slices.Collect(e.windows(rows, within)), batch) {
				if _, err := e.client.EnqueueMany(ctx, jobs.OwnTx(e.store.db), list); err != nil {
					return err
				}
			}
			return nil
		}
	}
	all := func(within time.Duration) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := e.client.EnqueueAll(ctx, jobs.OwnTx(e.store.db), e.windows(rows, within))
			return err
		}
	}
	for _, way := range []struct {
		name    string
		enqueue func(within time.Duration) func(ctx context.Context) error
	}{{"EnqueueMany, 5000 a call", many}, {"EnqueueAll", all}} {
		what := fmt.Sprintf("%s in bulk, %s", short(rows), way.name)
		rates, err := e.interleave(ctx, what, e.into("without a window", rows, way.enqueue(0)),
			e.into("Within", rows, way.enqueue(window)))
		if err != nil {
			return err
		}
		f := figure{
			Workload: "spreading", Case: what, Subject: "Within: the place of the key", Against: "without a window",
			Note: "into 16 slots",
		}
		e.report.compare(f, rates[1], rates[0], atLeast(0.9))
	}
	return nil
}
