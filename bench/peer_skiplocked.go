package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/lib/pq"
)

// skipLocked is the loop that many write themselves: select for update skip locked, work, delete and archive, in one
// transaction a batch.
type skipLocked struct {
	*database
	history string
	take    string // reads and locks at most $1 rows
	archive string // takes the rows with the ids $1 to history
}

const skipKeeps = "keeps history, one transaction a batch"

// skipLocked returns the loop on tables as one writes them for it.

func (s *server) skipLocked(ctx context.Context, name string) (*skipLocked, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	q := &skipLocked{
		database: d, history: "job_history",
		take: `
			select id, kind, entity, run_at, attempts, payload
			from job
			where run_at <= now()
			order by run_at, id
			limit $1
			for update skip locked`,
		archive: `
			with gone as (
				delete from job
				where id = any($1::bigint[])
				returning *
			)
			insert into job_history (id, kind, entity, run_at, attempts, payload, created_at, outcome)
			select id, kind, entity, run_at, attempts + 1, payload, created_at, 'done'
			from gone`,
	}
	err = d.exec(ctx, `
		create table job (
			id bigint generated always as identity primary key,
			kind text not null,
			entity text not null,
			run_at timestamptz not null,
			attempts integer not null default 0,
			payload jsonb,
			created_at timestamptz not null default now()
		)`,
		"create index job_due on job (run_at, id)",
		"create table job_history (like job, finished_at timestamptz not null default now(), outcome text not null)",
		"create index job_history_finished_at on job_history using brin (finished_at)")
	if err != nil {
		d.drop(ctx)
		return nil, err
	}
	return q, nil
}

// skipLocked returns the loop on the tables of prescient, for the rows of a slot: it reads what a check is given, and
// writes the columns that prescient writes.
func (s *store) skipLocked(slot time.Time) *skipLocked {
	at := pq.QuoteLiteral(slot.Format(time.RFC3339))
	return &skipLocked{
		database: s.database, history: "prescient.future_job_history",
		take: `
			select id, '` + jobName + `', entity_name || ' ' || entity_key, next_check_at, check_count, payload
			from prescient.future_job
			where next_check_at = ` + at + `
			order by next_check_at, job, id
			limit $1
			for update skip locked`,
		archive: `
			with gone as (
				delete from prescient.future_job
				where next_check_at = ` + at + ` and id = any($1::bigint[])
				returning *
			)` + archiveGone,
	}
}

func (q *skipLocked) fill(ctx context.Context, rows int) error {
	if err := q.exec(ctx, "truncate job, job_history"); err != nil {
		return err
	}
	if err := q.add(ctx, rows); err != nil {
		return err
	}
	return q.exec(ctx, "vacuum (analyze) job")
}

// add inserts due rows.
func (q *skipLocked) add(ctx context.Context, rows int) error {
	_, err := q.db.ExecContext(ctx, fmt.Sprintf(`
		insert into job (kind, entity, run_at, payload)
		select '%s', 'order ' || i, now(), (%s)::jsonb
		from generate_series(1000000001, 1000000000 + $1::bigint) as i`, jobName, payload), rows)
	return err
}

// work does the due rows in a number of loops.
func (q *skipLocked) work(ctx context.Context, rows, loops, limit int) (part, error) {
	before, err := q.count(ctx, "select count(*) from "+q.history)
	if err != nil {
		return part{}, err
	}
	p, err := timed(rows, func() error {
		errs := make([]error, loops)
		var wg sync.WaitGroup
		for i := range loops {
			wg.Go(func() { errs[i] = q.loop(ctx, limit) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if err != nil {
		return p, fmt.Errorf("work in a loop: %w", err)
	}
	return p, q.expect(ctx, int(before)+rows, "select count(*) from "+q.history)
}

func (q *skipLocked) loop(ctx context.Context, limit int) error {
	for {
		n, err := q.batch(ctx, limit)
		if err != nil || n == 0 {
			return err
		}
	}
}

func (q *skipLocked) batch(ctx context.Context, limit int) (n int, err error) {
	tx, err := q.pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	rows, err := tx.Query(ctx, q.take, limit)
	if err != nil {
		return 0, err
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[skipJob])
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	ids := make([]int64, 0, len(jobs))
	for _, job := range jobs { // there is nothing to do for a job
		ids = append(ids, job.ID)
	}
	_, err = tx.Exec(ctx, q.archive, ids)
	if err != nil {
		return 0, err
	}
	return len(jobs), tx.Commit(ctx)
}

type skipJob struct {
	ID       int64
	Kind     string
	Entity   string
	RunAt    any
	Attempts int
	Payload  []byte
}
