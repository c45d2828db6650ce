package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// jobName is the job_exec of every row.
const jobName = "bench.check"

// ledgerTables are the tables about slots.
const ledgerTables = "prescient.slot_run, prescient.slot_job, prescient.slot_claim, prescient.slot_progress, prescient.slot_lateness"

// chunk is how many rows are filled in at once; WAL is recycled after each.
const chunk = 1_000_000

// payload is the JSON of order i, an SQL expression over i. With it a row of future_job has about 290 bytes.
const payload = `format('{"order": %s, "customer": "customer-%s", "currency": "EUR", "amount": %s.50, "note": "%s"}',
	i, i % 100000, i % 1000, repeat('x', 28))`

// payloadOf is payload in Go.
func payloadOf(i int) string {
	return fmt.Sprintf(`{"order": %d, "customer": "customer-%d", "currency": "EUR", "amount": %d.50, "note": "%s"}`,
		i, i%100_000, i%1000, strings.Repeat("x", 28))
}

// store is a database with prescient's schema.
type store struct {
	*database
	grid   grid.Grid
	first  time.Time // slot 0, tomorrow
	nextID int       // of the orders that rows are filled in for
}

func (s *server) store(ctx context.Context, name string) (*store, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := pgsql.Migrate(ctx, d.db, ""); err != nil {
		d.drop(ctx)
		return nil, err
	}
	setting, err := pgsql.ReadSetting(ctx, d.db, "")
	if err != nil {
		d.drop(ctx)
		return nil, err
	}
	first := setting.Grid.Ceil(setting.Now().Add(24 * time.Hour))
	return &store{database: d, grid: setting.Grid, first: first, nextID: 1_000_000_001}, nil
}

// slot returns the k-th slot from tomorrow on.
func (s *store) slot(k int) time.Time { return s.grid.Add(s.first, k) }

// fill adds rows; slot is an SQL expression for the number of the slot of row n, from 0 on. More than a few million
// are filled in without the indexes, which are made again after.
func (s *store) fill(ctx context.Context, rows int, slot string, keyed bool) error {
	if rows > 2*chunk {
		restore, err := s.dropIndexes(ctx)
		if err != nil {
			return err
		}
		if err := s.insert(ctx, rows, slot, keyed); err != nil {
			return err
		}
		if err := s.exec(ctx, restore...); err != nil {
			return err
		}
	} else if err := s.insert(ctx, rows, slot, keyed); err != nil {
		return err
	}
	return s.vacuum(ctx)
}

func (s *store) insert(ctx context.Context, rows int, slot string, keyed bool) error {
	item := "''"
	if !keyed {
		item = "null"
	}
	statement := fmt.Sprintf(`
		insert into prescient.future_job (job, entity_name, entity_key, item_key, first_check_at, next_check_at, payload)
		select (select prescient.ensure_job('%s')), 'order', i::text, %s, at, at, (%s)::jsonb
		from generate_series($1::bigint, $2::bigint) as n,
			lateral (select n + $3::bigint as i, $4::timestamptz + (%s) * $5::bigint * interval '1 second' as at) as v`,
		jobName, item, payload, slot)
	for from := 0; from < rows; from += chunk {
		to := min(from+chunk, rows)
		_, err := s.db.ExecContext(ctx, statement, from, to-1, s.nextID, s.first, int64(s.grid.Width()/time.Second))
		if err != nil {
			return fmt.Errorf("fill the table: %w", err)
		}
		if to < rows {
			if err := s.checkpoint(ctx); err != nil {
				return err
			}
		}
	}
	s.nextID += rows
	return nil
}

// dropIndexes drops the indexes of future_job and returns the statements that make them again.
func (s *store) dropIndexes(ctx context.Context) (restore []string, err error) {
	var drop []string
	rows, err := s.db.QueryContext(ctx, `
		select format('alter table prescient.future_job drop constraint %I', conname),
			format('alter table prescient.future_job add constraint %I %s', conname, pg_get_constraintdef(oid))
		from pg_constraint
		where conrelid = 'prescient.future_job'::regclass and contype in ('p', 'u')
		union all
		select format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
		from pg_index
		where indrelid = 'prescient.future_job'::regclass
			and not exists (select from pg_constraint where conindid = indexrelid)`)
	if err != nil {
		return nil, fmt.Errorf("list the indexes: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var before, after string
		if err := rows.Scan(&before, &after); err != nil {
			return nil, fmt.Errorf("list the indexes: %w", err)
		}
		drop, restore = append(drop, before), append(restore, after)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the indexes: %w", err)
	}
	return restore, s.exec(ctx, drop...)
}

// vacuum makes the space of what is gone free for new rows, as autovacuum would.
func (s *store) vacuum(ctx context.Context) error {
	return s.exec(ctx, "vacuum (index_cleanup on, analyze) prescient.future_job")
}

// forget empties history and the ledger, so that slots can be run again.
func (s *store) forget(ctx context.Context) error {
	return s.exec(ctx, "truncate prescient.future_job_history, "+ledgerTables)
}

// empty empties all tables.
func (s *store) empty(ctx context.Context) error {
	return s.exec(ctx, "truncate prescient.future_job, prescient.future_job_history, "+ledgerTables)
}

// run runs a slot as `prescient run` does and fails unless all of rows were checked.
func (s *store) run(ctx context.Context, registry *jobs.Registry, slot time.Time, rows int) (part, error) {
	runner, err := s.runner(ctx, registry, slot)
	if err != nil {
		return part{}, err
	}
	var result slots.Result
	p, err := timed(rows, func() (err error) {
		result, err = runner.Run(ctx, slot)
		return err
	})
	if err == nil && (result.State != slots.StateDone || result.Checked != int64(rows) || result.Failed != 0) {
		err = fmt.Errorf("the run recorded %d of %d rows, %d failed, and left the slot %s", result.Checked, rows,
			result.Failed, result.State)
	}
	if err != nil {
		return p, err
	}
	return p, s.expect(ctx, 0, "select count(*) from prescient.future_job where next_check_at = $1", slot)
}

// runner has the defaults of slots.Config, but as many connections as River; its clock stands at the slot.
func (s *store) runner(ctx context.Context, registry *jobs.Registry, slot time.Time) (*slots.Runner, error) {
	return slots.NewRunner(ctx, slots.Config{
		DB: s.db, Registry: registry, Connections: connections - 4, Now: func() time.Time { return slot },
		Logger: slog.New(slog.DiscardHandler),
	})
}

// prepared is s through connections that keep prepared statements, as those of pgx do. Close its db.
func (s *store) prepared(ctx context.Context) (*store, error) {
	db, err := pgsql.Open(ctx, s.url, pgsql.Patient(), pgsql.Prepared())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	direct, d := *s, *s.database
	d.db, direct.database = db, &d
	return &direct, nil
}

// runnerNow is runner on the clock of the database.
func (s *store) runnerNow(ctx context.Context) (*slots.Runner, error) {
	return slots.NewRunner(ctx, slots.Config{DB: s.db, Registry: register(finish), Logger: slog.New(slog.DiscardHandler)})
}

// register returns a registry with one job.
func register(fn jobs.CheckFunc, opts ...jobs.Option) *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register(jobName, jobs.Row(fn), opts...)
	return r
}

// finish is a check that has nothing to do and is done.
func finish(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
