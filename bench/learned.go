package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/learn"
)

// learned measures what it costs that history chooses the next checks of a job, that a job which does not learn pays nothing for one that
// does, and how long advise takes out of more and more history.
func learned(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "learned")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	if err := b.learnedChecks(ctx, s); err != nil {
		return err
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
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

// learnedChecks compares checks that ask for another, ten days later: with a curve by which they come earlier, and without.
func (b *bench) learnedChecks(ctx context.Context, s *store) error {
	later := func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		next := job.Slot.Add(10 * 24 * time.Hour)
		return &next, nil
	}
	learns := []jobs.Option{jobs.Learned(time.Hour, 9*24*time.Hour), jobs.LearnedBy("currency"), jobs.MaxChecks(60)}
	beside := register(later, jobs.MaxChecks(60))
	beside.Register("bench.other", later, learns...)
	one := func(name string, registry *jobs.Registry) side {
		return side{
			name: name,
			prepare: func(ctx context.Context) error {
				return errors.Join(s.empty(ctx), s.curves(ctx), s.fill(ctx, b.rows, "0", true))
			},
			measure: func(ctx context.Context) (part, error) { return s.run(ctx, registry, s.slot(0), b.rows) },
		}
	}
	what := short(b.rows) + " checks that ask for another"
	rates, err := b.interleave(ctx, what,
		one("learned", register(later, learns...)), one("beside one that learns", beside), one("not learned", register(later, jobs.MaxChecks(60))))
	if err != nil {
		return err
	}
	b.report.compare(figure{Workload: "learned", Case: what, Subject: "a job that learns", Against: "one that does not"}, rates[0], rates[2], atLeast(0.9))
	b.report.compare(figure{Workload: "learned", Case: what, Subject: "a job that does not, beside one that does", Against: "alone"}, rates[1], rates[2], atLeast(0.95))
	return nil
}

// curves gives the jobs curves that no run has to make anew, of as many points as there are: half is finished after five days.
func (s *store) curves(ctx context.Context) error {
	if err := s.exec(ctx, "truncate prescient.learned_curve"); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `
		insert into prescient.learned_curve (job_exec, class, ages, finished, sampled, computed_at)
		select job, class, array_agg(n * 3375 order by n), array_agg(n / 256.0 order by n), 5000, $2
		from unnest(array[$1, 'bench.other']) as job, unnest(array['', 'EUR']) as class, generate_series(1, 256) as n
		group by job, class`, jobName, s.slot(0))
	if err != nil {
		return fmt.Errorf("make curves: %w", err)
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
		list, n, err := learn.Advise(ctx, s.db, "", learn.Question{Bounds: learn.Bounds{Time: time.Minute}}, s.grid.Width())
		if err != nil {
			return err
		}
		if len(list) != 20 {
			return fmt.Errorf("advice on %d jobs, want 20", len(list))
		}
		took, read = append(took, time.Since(started).Seconds()), n
	}
	b.report.add(figure{
		Workload: "learned", Case: fmt.Sprintf("advise out of %s rows of history", short(size)), Subject: "prescient, time", Unit: "s", Value: median(took),
		Note: fmt.Sprintf("the first time %.2f s; it read %d rows", took[0], read),
	}, 0, nil)
	return nil
}

// ended adds rows from one number to another of all to history, oldest first, with the traces of three checks that found nothing.
func (s *store) ended(ctx context.Context, from, to, all int) error {
	for month := range 4 {
		if err := s.exec(ctx, fmt.Sprintf("select prescient.make_history_month(now() - interval '%d months')", month)); err != nil {
			return err
		}
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(`
		insert into prescient.future_job_history (
			id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, payload, enqueued_at, enqueued_by, outcome,
			lateness, duration, finished_at, trace
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
