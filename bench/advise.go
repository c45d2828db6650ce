package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/advise"
)

// advised measures how long advise takes out of more and more history.
func advised(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "advise")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	sizes := []int{b.rows, 10 * b.rows, 100 * b.rows}
	if b.short {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		if err := b.advise(ctx, s, size); err != nil {
			return err
		}
	}
	return nil
}

// advise grows history to a size, two months of 20 jobs, and asks for advice on all of them.
func (b *bench) advise(ctx context.Context, s *store, size int) error {
	have, err := s.count(ctx, "select count(*) from prescient.future_job_history")
	if err != nil {
		return err
	}
	for from := int(have); from < size; from += chunk {
		if err := s.ended(ctx, from, min(size, from+chunk), 100*b.rows); err != nil {
			return err
		}
	}
	if err := s.exec(ctx, "vacuum analyze prescient.future_job_history"); err != nil {
		return err
	}
	var took []float64
	var read int64
	for range b.rounds {
		started := clock()
		list, n, err := advise.Advise(ctx, s.db, "", advise.Options{Bounds: advise.Bounds{Time: time.Minute}}, s.grid.Width())
		if err != nil {
			return err
		}
		if len(list) != 20 {
			return fmt.Errorf("advice on %d jobs, want 20", len(list))
		}
		took, read = append(took, time.Since(started).Seconds()), n
	}
	b.report.add(figure{
		Workload: "advise", Case: fmt.Sprintf("advise out of %s rows of history", short(size)), Subject: "prescient, time",
		Unit: "s", Value: median(took),
		Note: fmt.Sprintf("the first time %.2f s; it read %d rows", took[0], read),
	}, 0, nil)
	return nil
}

// ended adds rows from one number to another of all to history, oldest first, with the journals of three checks that
// found nothing.
func (s *store) ended(ctx context.Context, from, to, all int) error {
	for month := range 4 {
		if err := s.exec(ctx,
			fmt.Sprintf("select prescient.make_history_month(now() - interval '%d months')", month)); err != nil {
			return err
		}
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(`
		insert into prescient.future_job_history (
			id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, payload, enqueued_at, enqueued_by, outcome,
			lateness, duration, finished_at, journal
		)
		select i, 'bench.' || i %% 20, 'order', i::text, first, first + interval '3 days', 4, 0, '4 ms', (%s)::jsonb, first, 'bench', 'done', '1 s', '1 ms',
			at, (select string_agg(format('["next",%%s,"bench",1000,1000]', extract(epoch from first)::bigint + d * 86400), chr(10) order by d) from generate_series(0, 2) as d)
		from generate_series($1::bigint, $2::bigint - 1) as i,
			lateral (select now() - interval '60 days' * (1 - i / $3::double precision) as at) as v,
			lateral (select date_bin('15 minutes', at, timestamptz '1970-01-01 00:00:00+00') - interval '3 days' as first) as f`, payload), from, to, all)
	if err != nil {
		return fmt.Errorf("fill history: %w", err)
	}
	return s.checkpoint(ctx)
}
