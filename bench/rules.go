package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/backtest"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/sqljob"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ruleFile is the rule that is measured.
const ruleFile = `
rules:
  - name: order.unshipped
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    where: channel <> 'test'
    payload: [customer_id, amount]
    steps:
      - {after: 48h, event: order.unshipped.primary}
      - {after: 5d, event: order.unshipped.final}
`

const ruleTable = `
	create table %s (
		id          bigint      primary key,
		channel     text        not null default 'web',
		customer_id bigint      not null default 1,
		amount      numeric     not null default 99.50,
		note        text        not null default repeat('x', 100),
		placed_at   timestamptz not null default clock_timestamp(),
		shipped_at  timestamptz,
		doc         jsonb
	)`

// ruled is a database with the table of a rule, and the same table without one.
type ruled struct {
	*bench
	*store
	rules *rulestore.Store
	file  rule.File
}

// rules measures what a rule costs the application that writes to the table, and an apply beside such
// writes.
func rules(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "rules")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	file, err := rule.Parse(strings.NewReader(ruleFile))
	if err != nil {
		return err
	}
	r := &ruled{bench: b, store: s, file: file}
	if r.rules, err = rulestore.New(ctx, s.db, rulestore.Config{}); err != nil {
		return err
	}
	err = s.exec(ctx, "create schema shop", fmt.Sprintf(ruleTable, "shop.orders"), fmt.Sprintf(ruleTable, "shop.plain"),
		fmt.Sprintf(ruleTable, "shop.other"))
	if err != nil {
		return err
	}
	if _, err := r.rules.Apply(ctx, file, nil); err != nil {
		return err
	}
	if err := s.exec(ctx, statementTrigger); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{
		r.insertOne, r.insertMany, r.memory, r.updateOthers, r.heartbeats, r.slotOfRows, r.slotWithLookups, r.past, r.apply,
	} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// statementTrigger is what an update could have instead of a trigger for each row.
const statementTrigger = `
	create function shop.compare() returns trigger language plpgsql as $$
	begin
		perform
		from before b
		join after a on a.id = b.id
		where b.placed_at is distinct from a.placed_at or b.channel is distinct from a.channel or b.shipped_at is distinct from a.shipped_at;
		return null;
	end
	$$;
	create trigger compare after update on shop.other
	referencing old table as before new table as after for each statement
	execute function shop.compare()`

func (r *ruled) reset(rows int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if err := r.empty(ctx); err != nil {
			return err
		}
		if err := r.exec(ctx, "truncate shop.orders, shop.plain, shop.other"); err != nil || rows == 0 {
			return err
		}
		for _, table := range []string{"plain", "orders", "other"} {
			fill := fmt.Sprintf("insert into shop.%s (id) select n from generate_series(1, %d) as n", table, rows)
			if err := r.exec(ctx, fill, "vacuum (analyze) shop."+table); err != nil {
				return err
			}
		}
		return nil
	}
}

// inserts is a side that inserts rows, and expects checks to wait.
func (r *ruled) inserts(name string, rows, waiting int, insert func(ctx context.Context) error) side {
	return side{name: name, prepare: r.reset(0), measure: func(ctx context.Context) (part, error) {
		p, err := timed(rows, func() error { return insert(ctx) })
		if err != nil {
			return p, err
		}
		return p, r.expect(ctx, waiting, "select count(*) from prescient.future_job")
	}}
}

const enqueueOne = "select prescient.enqueue('order.unshipped', 'orders', $1::text, check_at => clock_timestamp() + interval '48 hours')"

// insertOne inserts each row in a transaction of its own.
func (r *ruled) insertOne(ctx context.Context) error {
	rows := max(100, r.bench.rows/5)
	if r.short {
		rows = max(100, r.bench.rows/40)
	}
	prepared, err := r.prepared(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = prepared.db.Close() }()
	one := func(table string, enqueues bool) func(ctx context.Context) error {
		insert := fmt.Sprintf("insert into shop.%s (id, placed_at) values ($1, clock_timestamp())", table)
		return func(ctx context.Context) error {
			return spread(rows, func(i int) error {
				return pgsql.InTx(ctx, prepared.db, func(tx *sqlx.Tx) error {
					if _, err := tx.ExecContext(ctx, insert, i); err != nil || !enqueues {
						return err
					}
					_, err := tx.ExecContext(ctx, enqueueOne, fmt.Sprint(i))
					return err
				})
			})
		}
	}
	what := fmt.Sprintf("%s inserted one by one, %d connections", short(rows), oneByOne)
	return r.compareInserts(ctx, what, rows, one, "and a call of enqueue")
}

// insertMany inserts 10,000 rows with a statement.
func (r *ruled) insertMany(ctx context.Context) error {
	const batch = 10_000
	rows := max(r.bench.rows/batch, 1) * batch
	many := func(table string, enqueues bool) func(ctx context.Context) error {
		insert := fmt.Sprintf("insert into shop.%s (id, placed_at) select n, clock_timestamp() from generate_series($1::int, $2::int) as n", table)
		const enqueue = `
			select prescient.enqueue_many(
				array_agg('order.unshipped'::text), array_agg('orders'::text), array_agg(n::text), array_agg(''::text),
				array_agg(clock_timestamp() + interval '48 hours'))
			from generate_series($1::int, $2::int) as n`
		return func(ctx context.Context) error {
			for first := 0; first < rows; first += batch {
				err := pgsql.InTx(ctx, r.db, func(tx *sqlx.Tx) error {
					if _, err := tx.ExecContext(ctx, insert, first, first+batch-1); err != nil || !enqueues {
						return err
					}
					_, err := tx.ExecContext(ctx, enqueue, first, first+batch-1)
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	return r.compareInserts(ctx, short(rows)+" inserted, 10000 a statement", rows, many, "and a call of enqueue_many")
}

func (r *ruled) compareInserts(
	ctx context.Context, what string, rows int, insert func(table string, enqueues bool) func(ctx context.Context) error,
	and string,
) error {
	rates, err := r.interleave(ctx, what,
		r.inserts("with the rule", rows, rows, insert("orders", false)),
		r.inserts("without, "+and, rows, rows, insert("plain", true)),
		r.inserts("without", rows, 0, insert("plain", false)))
	if err != nil {
		return err
	}
	f := figure{Workload: "rules", Case: what, Subject: "with a rule"}
	f.Against = "without, " + and
	r.report.compare(f, rates[0], rates[1], atLeast(0.95))
	f.Against = "without"
	r.report.compare(f, rates[0], rates[2], nil)
	return nil
}

// memory inserts many rows in one statement, and reports how much memory of its own the session has at most.
func (r *ruled) memory(ctx context.Context) error {
	rows := 5 * r.bench.rows
	most := map[string]float64{}
	sides := make([]side, 0, 2)
	for _, table := range []string{"orders", "plain"} {
		sides = append(sides, side{name: table, prepare: r.reset(0), measure: func(ctx context.Context) (p part, err error) {
			conn, err := r.db.Connx(ctx)
			if err != nil {
				return p, err
			}
			defer func() { _ = conn.Close() }()
			var pid int
			if err := conn.GetContext(ctx, &pid, "select pg_backend_pid()"); err != nil {
				return p, err
			}
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for tick := time.NewTicker(20 * time.Millisecond); ; {
					most[table] = max(most[table], ownMemory(pid))
					select {
					case <-done:
						return
					case <-tick.C:
					}
				}
			})
			p, err = timed(rows, func() error {
				_, err := conn.ExecContext(ctx, fmt.Sprintf("insert into shop.%s (id) select n from generate_series(1, %d) as n", table, rows))
				return err
			})
			close(done)
			wg.Wait()
			return p, err
		}})
	}
	what := fmt.Sprintf("memory of the session that inserts %s rows in one statement", short(rows))
	if _, err := r.interleave(ctx, what, sides...); err != nil {
		return err
	}
	f := figure{Workload: "rules", Case: what, Subject: "with a rule", Against: "without", Unit: "MiB", Value: most["orders"], Base: most["plain"]}
	target := atMost(200, f.Unit)
	r.report.add(f, f.Value, target)
	return nil
}

// updateOthers updates a column that the rule does not read.
func (r *ruled) updateOthers(ctx context.Context) error {
	const batch = 10_000
	updates := func(name, table string, rows, batch int, prepare func(ctx context.Context) error) side {
		return side{name: name, prepare: prepare, measure: func(ctx context.Context) (part, error) {
			return timed(rows, func() error {
				if batch > 1 {
					for first := 1; first <= rows; first += batch {
						statement := fmt.Sprintf("update shop.%s set amount = amount + 1 where id between %d and %d", table, first,
							first+batch-1)
						if err := r.exec(ctx, statement); err != nil {
							return err
						}
					}
					return nil
				}
				return spread(rows, func(i int) error {
					return pgsql.InTx(ctx, r.db, func(tx *sqlx.Tx) error {
						_, err := tx.ExecContext(ctx, fmt.Sprintf("update shop.%s set amount = amount + 1 where id = %d", table, i+1))
						return err
					})
				})
			})
		}}
	}
	rows := max(r.bench.rows/5, 100)
	few := max(r.bench.rows/50, 100)
	for _, of := range []struct {
		what        string
		rows, batch int
		prepare     func(ctx context.Context) error
	}{
		{fmt.Sprintf("another column of %s updated one by one", short(rows)), rows, 1, r.reset(rows)},
		{fmt.Sprintf("another column of %s updated, %d a statement", short(rows), batch), rows, batch, r.reset(rows)},
		{fmt.Sprintf("the same beside a jsonb of 100 kB, %s updated one by one", short(few)), few, 1, func(ctx context.Context) error {
			if err := r.reset(few)(ctx); err != nil {
				return err
			}
			for _, table := range []string{"plain", "orders", "other"} {
				fill := fmt.Sprintf(`update shop.%s set doc = (select jsonb_build_object('a', string_agg(md5(id::text || n), '')) from generate_series(1, 3200) as n)`, table)
				if err := r.exec(ctx, fill, "vacuum (analyze) shop."+table); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		rates, err := r.interleave(ctx, of.what, updates("with the rule", "orders", of.rows, of.batch, of.prepare),
			updates("without", "plain", of.rows, of.batch, of.prepare),
			updates("with a statement trigger", "other", of.rows, of.batch, of.prepare))
		if err != nil {
			return err
		}
		f := figure{Workload: "rules", Case: of.what, Against: "without", Subject: "with a rule"}
		r.report.compare(f, rates[0], rates[1], atLeast(0.95))
		f.Subject, f.Note = "with a statement trigger instead", "which rules do not use"
		r.report.compare(f, rates[2], rates[1], nil)
	}
	return nil
}

// heartbeats moves the clock of each row later, by a statement for each row, in one transaction.
func (r *ruled) heartbeats(ctx context.Context) error {
	rows := max(r.bench.rows/5, 100)
	beats := func(name, table string) side {
		return side{name: name, prepare: r.reset(rows), measure: func(ctx context.Context) (part, error) {
			return timed(rows, func() error {
				return r.exec(ctx, fmt.Sprintf(`
					do $$
					begin
						for n in 1 .. %d loop
							update shop.%s set placed_at = clock_timestamp() where id = n;
						end loop;
					end
					$$`, rows, table))
			})
		}}
	}
	what := fmt.Sprintf("since of %s rows updated to later, one a statement", short(rows))
	rates, err := r.interleave(ctx, what, beats("with the rule", "orders"), beats("without", "plain"))
	if err != nil {
		return err
	}
	const microsecond = 1e6 // in a second
	var more []float64
	for i := range rates[0] {
		more = append(more, microsecond/rates[0][i]-microsecond/rates[1][i])
	}
	const unit = "us more for a statement"
	f := figure{Workload: "rules", Case: what, Subject: "with a rule", Against: "without", Unit: unit, Value: median(more)}
	r.report.add(f, f.Value, atMost(15, unit))
	return nil
}

// sqlJob asks and publishes what the rule does.
const sqlJob = `
	select o.id::text as entity_key, json_build_object('customer_id', o.customer_id, 'amount', o.amount) as event, o.placed_at + interval '5 days' as next
	from shop.orders o
	where o.id = any ($1::text[]::bigint[]) and o.channel <> 'test' and o.shipped_at is null`

// slotOfRows checks rows that are due for their first step, each with an event to the outbox, by the
// rule and by sql_jobs.
func (r *ruled) slotOfRows(ctx context.Context) error {
	return r.compareChecks(ctx, "a slot of %s rows, each with an event to the outbox and a next check", "shop.orders",
		r.file.Rules[0].Name, sqlJob, 0.8)
}

// unpaidFile is a rule that looks up another table.
const unpaidFile = `
rules:
  - name: order.unpaid
    table: shop.unpaid
    key: id
    since: placed_at
    done: exists (select from shop.payment p where p.order_id = unpaid.id)
    payload: [customer_id, amount]
    steps:
      - {after: 48h, event: order.unpaid.primary}
      - {after: 5d, event: order.unpaid.final}
`

// unpaidJob is the same as a query by hand.
const unpaidJob = `
	select o.id::text as entity_key, json_build_object('customer_id', o.customer_id, 'amount', o.amount) as event, o.placed_at + interval '5 days' as next
	from shop.unpaid o
	where o.id = any ($1::text[]::bigint[]) and not exists (select from shop.payment p where p.order_id = o.id)`

// slotWithLookups is slotOfRows for a rule with a subquery, which finds nothing.
func (r *ruled) slotWithLookups(ctx context.Context) error {
	file, err := rule.Parse(strings.NewReader(unpaidFile))
	if err != nil {
		return err
	}
	err = r.exec(ctx, fmt.Sprintf(ruleTable, "shop.unpaid"), "create table shop.payment (order_id bigint)",
		fmt.Sprintf("insert into shop.payment select -n from generate_series(1, %d) as n", r.bench.rows),
		"create index on shop.payment (order_id)", "vacuum (analyze) shop.payment")
	if err != nil {
		return err
	}
	if _, err := r.rules.Apply(ctx, file, nil); err != nil {
		return err
	}
	return r.compareChecks(ctx, "a slot of %s rows that looks up another table for each", "shop.unpaid",
		file.Rules[0].Name, unpaidJob, 0.67)
}

// compareChecks compares the checks of a rule with those of a query of sql_jobs.
func (r *ruled) compareChecks(ctx context.Context, format, table, name, query string, least float64) error {
	rows := r.bench.rows
	reading, err := pgsql.Open(ctx, r.url, pgsql.Patient())
	if err != nil {
		return err
	}
	defer func() { _ = reading.Close() }()
	pool := func(context.Context) (pgsql.Pool, error) { return reading, nil }
	events := outbox.New(r.db, "")
	byRule, bySQL := jobs.NewRegistry(), jobs.NewRegistry()
	err = errors.Join(
		rule.Register(byRule, rule.CheckConfig{DB: pool, Publisher: events, Source: "bench"}),
		sqljob.Register(bySQL, sqljob.Config{Name: jobName, Query: query, DB: pool, Publisher: events, Source: "bench"}))
	if err != nil {
		return err
	}
	checks := func(name, job string, registry *jobs.Registry) side {
		return side{
			name: name,
			prepare: func(ctx context.Context) error {
				if err := r.empty(ctx); err != nil {
					return err
				}
				since := r.slot(0).Add(-48 * time.Hour).Format(time.RFC3339)
				wait := fmt.Sprintf(`
					insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
					select prescient.ensure_job('%s'), '%s', id::text, '%[3]s', '%[3]s' from %[4]s`,
					job, strings.TrimPrefix(table, "shop."), r.slot(0).Format(time.RFC3339), table)
				return r.exec(ctx, "truncate prescient.future_job, prescient.event_outbox, prescient.rule_fired",
					fmt.Sprintf("truncate %[1]s; alter table %[1]s disable trigger user; "+
						"insert into %[1]s (id, placed_at) select n, '%[2]s' from generate_series(1, %[3]d) as n; "+
						"alter table %[1]s enable trigger user", table, since, rows),
					"vacuum (analyze) "+table, wait, "vacuum (analyze) prescient.future_job")
			},
			measure: func(ctx context.Context) (part, error) {
				p, err := r.run(ctx, registry, r.slot(0), rows)
				if err != nil {
					return p, err
				}
				return p, errors.Join(r.expect(ctx, rows, "select count(*) from prescient.event_outbox"),
					r.expect(ctx, rows, "select count(*) from prescient.future_job"))
			},
		}
	}
	what := fmt.Sprintf(format, short(rows))
	rates, err := r.interleave(ctx, what, checks("a rule", name, byRule), checks("sql_jobs", jobName, bySQL))
	if err != nil {
		return err
	}
	r.report.compare(figure{Workload: "rules", Case: what, Subject: "a rule", Against: "sql_jobs"}, rates[0], rates[1],
		atLeast(least))
	return nil
}

// past tests the rule on the past of a table with many rows.
func (r *ruled) past(ctx context.Context) error {
	rows := 10 * r.bench.rows
	if r.short {
		rows = 2 * r.bench.rows
	}
	applied, err := r.rules.Understand(ctx, r.file, r.file.Rules[0])
	if err != nil {
		return err
	}
	highest := 0
	what := fmt.Sprintf("a test on the past of %s rows", short(rows))
	rates, err := r.interleave(ctx, what, side{name: "rules test", prepare: func(ctx context.Context) error {
		return r.exec(ctx, "truncate shop.orders; alter table shop.orders disable trigger user; "+
			fmt.Sprintf("insert into shop.orders (id, placed_at, shipped_at) "+
				"select n, at, at + interval '1 hour' * (n %% 150) from ("+
				"select n, timestamptz '2026-01-01' + interval '25 seconds' * n as at from generate_series(1, %d) as n) as o; ", rows)+
			"alter table shop.orders enable trigger user", "vacuum (analyze) shop.orders")
	}, measure: func(ctx context.Context) (part, error) {
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				highest = max(highest, int(m.HeapInuse>>20))
				select {
				case <-done:
					return
				case <-tick.C:
				}
			}
		})
		runtime.GC()
		p, err := timed(rows, func() error {
			from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
			report, err := backtest.Run(ctx, r.db, applied, backtest.Config{From: from, To: from.AddDate(2, 0, 0), Now: from.AddDate(2, 0, 0)})
			if err == nil && report.Rows != int64(rows) {
				err = fmt.Errorf("a test on the past has read %d rows, want %d", report.Rows, rows)
			}
			return err
		})
		close(done)
		wg.Wait()
		return p, err
	}})
	if err != nil {
		return err
	}
	target := *atLeast(1_000_000 / 15)
	target.unit = rowsPerSecond
	target.other = r.short
	r.report.add(figure{
		Workload: "rules", Case: what, Subject: "rules test", Unit: rowsPerSecond, Value: rates[0].median(),
		Note: fmt.Sprintf("heap at most %d MiB", highest),
	}, rates[0].median(), &target)
	return nil
}

// apply applies the rule to a table with many rows, while an application inserts others.
func (r *ruled) apply(ctx context.Context) error {
	rows := 10 * r.bench.rows
	if r.short {
		rows = 2 * r.bench.rows
	}
	name := r.file.Rules[0].Name
	var inserted, highest int
	one := func(writers int) side {
		return side{
			name: fmt.Sprintf("beside %d writers", writers),
			prepare: func(ctx context.Context) error {
				if _, err := r.rules.Remove(ctx, name, nil); err != nil {
					return err
				}
				return r.reset(rows)(ctx)
			},
			measure: func(ctx context.Context) (p part, err error) {
				writing, stop := context.WithCancel(ctx)
				var wg sync.WaitGroup
				counts, failed := make([]int, writers), make([]error, writers)
				for w := range writers {
					wg.Go(func() { counts[w], failed[w] = r.insertUntil(writing, rows*(w+2)) })
				}
				highest = 0
				p, err = timed(rows, func() error {
					_, err := r.rules.Apply(ctx, r.file, func(rulestore.Progress) {
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						highest = max(highest, int(m.HeapInuse>>20))
					})
					return err
				})
				stop()
				wg.Wait()
				inserted = 0
				for w := range writers {
					inserted += counts[w]
					if err == nil {
						err = failed[w]
					}
				}
				if err != nil {
					return p, err
				}
				return p, r.expect(ctx, rows+inserted, "select count(*) from prescient.future_job")
			},
		}
	}
	what := fmt.Sprintf("apply on %s rows", short(rows))
	const writers = 2
	rates, err := r.interleave(ctx, what, one(0), one(writers))
	if err != nil {
		return err
	}
	for i, subject := range []string{"alone", fmt.Sprintf("beside %d connections that insert one by one", writers)} {
		f := figure{
			Workload: "rules", Case: what, Subject: subject, Unit: rowsPerSecond, Value: rates[i].median(),
			Note: fmt.Sprintf("heap at most %d MiB", highest),
		}
		if i == 1 {
			f.Note += fmt.Sprintf("; they inserted %s rows meanwhile", short(inserted))
		}
		target := *atLeast(50_000)
		target.unit = rowsPerSecond
		target.other = r.short
		r.report.add(f, f.Value, &target)
	}
	return nil
}

// insertUntil inserts rows one by one until ctx ends, and returns how many.
func (r *ruled) insertUntil(ctx context.Context, first int) (n int, err error) {
	for ; ctx.Err() == nil; n++ {
		err := pgsql.InTx(context.WithoutCancel(ctx), r.db, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(context.WithoutCancel(ctx),
				fmt.Sprintf("insert into shop.orders (id) values (%d)", first+n))
			return err
		})
		if err != nil {
			return n, err
		}
		time.Sleep(time.Millisecond)
	}
	return n, nil
}
