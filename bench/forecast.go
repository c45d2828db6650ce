package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
)

// forecasts measures how long a forecast of a day takes, out of more and more rows that wait, and how far the run times that it tells
// are off.
func forecasts(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "forecast")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	if err := s.lived(ctx, b.rows); err != nil {
		return err
	}
	sizes := []int{10 * b.rows, 30 * b.rows, 300 * b.rows}
	if b.short {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		if err := b.lookAhead(ctx, s, size); err != nil {
			return err
		}
	}
	return b.runTimes(ctx, s)
}

// lived gives the store two weeks of a ledger with two jobs, and rows of history.
func (s *store) lived(ctx context.Context, rows int) error {
	return s.exec(ctx,
		fmt.Sprintf("select prescient.ensure_job(name) from unnest('{%s,bench.batch,bench.wait}'::text[]) as name", jobName),
		fmt.Sprintf(`insert into prescient.slot_run (slot, state, kind, planned, opened_at, finished_at, runners, workers)
			select slot, 'done', 'run', 20000, slot, slot + interval '2 seconds', 1, 64
			from generate_series(timestamptz '%s' - interval '14 days', '%[1]s'::timestamptz - interval '15 minutes', '15 minutes') as slot`,
			s.first.Format(time.RFC3339)),
		`insert into prescient.slot_job (slot, job, planned, finished, spent)
			select slot, job, 10000, 10000, interval '10 seconds' from prescient.slot_run, prescient.job`,
		fmt.Sprintf(`insert into prescient.future_job_history (
				id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at
			)
			select n, '%s', 'order', n::text, slot, slot, 1, 0, '1 ms', slot - n %% 200 * interval '10 minutes', 'bench', 'done', slot
			from generate_series(1, %d) as n, lateral (select timestamptz '%s' - n %% 1000 * interval '15 minutes' as slot) as s`,
			jobName, 10*rows, s.first.Format(time.RFC3339)),
		"vacuum analyze prescient.future_job_history",
	)
}

// lookAhead grows the table to a size, whose rows wait for 2,000 slots, and forecasts 96 of them.
func (b *bench) lookAhead(ctx context.Context, s *store, size int) error {
	have, err := s.count(ctx, "select count(*) from prescient.future_job")
	if err != nil {
		return err
	}
	if err := s.fill(ctx, size-int(have), "n * 7919 % 2000", true); err != nil {
		return err
	}
	var took []float64
	var rows int64
	for range b.rounds {
		started := clock()
		f, err := forecast.Compute(ctx, forecast.Config{
			DB: s.db, Registry: register(finish), Now: func() time.Time { return s.slot(-1) }, For: 95 * s.grid.Width(),
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(started).Seconds())
		rows = 0
		for _, slot := range f.Slots {
			rows += slot.Waiting
		}
	}
	waiting, err := s.count(ctx, "select count(*) from prescient.future_job where next_check_at < $1", s.slot(96))
	if err != nil {
		return err
	}
	b.report.add(figure{
		Workload: "forecast", Case: fmt.Sprintf("a day of %s that wait", short(size)), Subject: "prescient, time", Unit: "s",
		Value: median(took),
		Note: fmt.Sprintf("the first time %.2f s; it counted %d rows in the next 24 hours, which are %d", took[0], rows,
			waiting),
	}, 0, nil)
	return nil
}

// runTimes runs slots of a mixed workload, a day and a half of them, and compares how long each of the last took with what would
// have been told an hour before it.
func (b *bench) runTimes(ctx context.Context, s *store) error {
	if err := s.empty(ctx); err != nil {
		return err
	}
	registry := register(finish)
	registry.Register("bench.batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(batch)), nil
	}))
	registry.Register("bench.wait", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		time.Sleep(2 * time.Millisecond)
		return nil, nil
	}))
	// The first forecast is made for a slot of the second day.
	day := int(24 * time.Hour / s.grid.Width())
	slots := day + day/24 + b.forecast
	part := func(n int) int { return max(1, n*b.rows/usual.rows) }
	most := 0
	for k := range slots {
		all := 0
		for job, n := range map[string]int{
			jobName: part(500 + k*7919%4000), "bench.batch": part(500 + k*104729%9000), "bench.wait": part(200 + k*1299709%5000),
		} {
			all += n
			if err := s.waitFor(ctx, job, k, n); err != nil {
				return err
			}
		}
		most = max(most, all)
		if _, err := s.run(ctx, registry, s.slot(k), all); err != nil {
			return err
		}
	}
	// They were asked for by another clock than that of the slots.
	if err := s.exec(ctx,
		"update prescient.future_job_history set enqueued_at = slot - interval '3 hours', finished_at = slot"); err != nil {
		return err
	}
	tested, err := forecast.Backtest(ctx, forecast.Config{DB: s.db, Now: func() time.Time {
		return s.slot(slots)
	}}, 48*time.Hour, time.Hour)
	if err != nil {
		return err
	}
	for what, e := range map[string]forecast.Errors{"rows of a slot": tested.Rows, "run time of a slot": tested.Took} {
		b.report.add(figure{
			Workload: "forecast", Case: what, Subject: "median error of what is told an hour before", Unit: "%",
			Value: 100 * e.Median,
			Note:  fmt.Sprintf("%d slots of up to %d rows; 9 of 10 are off by no more than %.0f %%", e.Slots, most, 100*e.P90),
		}, 0, nil)
	}
	return nil
}

// waitFor lets n rows of a job wait for slot k.
func (s *store) waitFor(ctx context.Context, job string, k, n int) error {
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(`
		insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at, payload)
		select prescient.find_job($1), 'order', i::text, $2, $2, (%s)::jsonb
		from generate_series(1, $3::bigint) as i`, payload), job, s.slot(k), n)
	if err != nil {
		return fmt.Errorf("fill slot %d: %w", k, err)
	}
	return nil
}
