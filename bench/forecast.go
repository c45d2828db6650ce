package main

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// runTimes runs slots of a mixed workload, a day and a half of them, and compares how long each of the last took with
// what was told an hour before it.
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
	hour := int(time.Hour / s.grid.Width())
	// The first forecast is made on the second day.
	slots := 25*hour + b.forecast
	part := func(n int) int { return max(1, n*b.rows/usual.rows) }
	var rows []int // of each slot that is filled
	var told []forecast.Slot
	for k := range slots {
		for i := len(rows); i < min(k+hour+1, slots); i++ {
			rows = append(rows, 0)
			for job, n := range map[string]int{
				jobName:       part(500 + i*7919%4000),
				"bench.batch": part(500 + i*104729%9000),
				"bench.wait":  part(200 + i*1299709%5000),
			} {
				rows[i] += n
				if err := s.waitFor(ctx, job, i, n); err != nil {
					return err
				}
			}
		}
		if k >= 24*hour && k+hour < slots {
			f, err := forecast.Compute(ctx, forecast.Config{
				DB: s.db, Registry: registry, Now: func() time.Time { return s.slot(k) }, For: time.Hour,
			})
			if err != nil {
				return err
			}
			told = append(told, f.Slots[hour-1])
		}
		if _, err := s.run(ctx, registry, s.slot(k), rows[k]); err != nil {
			return err
		}
	}
	var count, took []float64 // how far the forecasts were off, in parts
	for i, slot := range told {
		n := float64(rows[25*hour+i])
		count = append(count, math.Abs(float64(slot.Rows)-n)/n)
		us, err := s.count(ctx, `
			select (extract(epoch from max(j.last_at) - r.opened_at) * 1000000)::bigint
			from prescient.slot_run r join prescient.slot_job j using (slot)
			where r.slot = $1
			group by r.slot`, slot.Slot)
		if err != nil {
			return err
		}
		took = append(took, math.Abs(float64(time.Duration(slot.Took).Microseconds()-us))/float64(us))
	}
	for what, off := range map[string][]float64{"rows of a slot": count, "run time of a slot": took} {
		slices.Sort(off)
		b.report.add(figure{
			Workload: "forecast", Case: what, Subject: "median error of what is told an hour before", Unit: "%",
			Value: 100 * median(off),
			Note: fmt.Sprintf("%d slots of up to %d rows; 9 of 10 are off by no more than %.0f %%", len(off), slices.Max(rows),
				100*off[len(off)*9/10]),
		}, 0, nil)
	}
	return nil
}

// waitFor lets n rows of a job wait for slot k. They were asked for three hours before it, by the clock of the slots.
func (s *store) waitFor(ctx context.Context, job string, k, n int) error {
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(`
		insert into prescient.future_job
			(job, entity_name, entity_key, item_key, first_check_at, next_check_at, enqueued_at, payload)
		select prescient.find_job($1), 'order', i::text, null, slot, slot, slot - interval '3 hours', (%s)::jsonb
		from generate_series(1, $3::bigint) as i, (select $2::timestamptz as slot) as s`, payload), job, s.slot(k), n)
	if err != nil {
		return fmt.Errorf("fill slot %d: %w", k, err)
	}
	return nil
}
