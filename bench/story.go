package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/jobs"
)

// untold takes from a schema what only the story of a row needs: the name of the application that enqueues, and the entries
// of its trace.
const untold = `
	alter table prescient.future_job alter column enqueued_app drop default;
	create or replace function prescient.traced(trace text, entry text) returns text language sql immutable as 'select trace';
	do $$
	begin
		execute (
			select replace(pg_get_functiondef(oid), 'nullif(current_setting(''application_name''), '''')', 'null')
			from pg_proc
			where proname = 'enqueue_many' and pronamespace = 'prescient'::regnamespace
		);
	end
	$$`

// story is what it costs that prescient why can tell it: rows that are enqueued, moved and finished in a schema that keeps it,
// against those of one that does not.
func story(ctx context.Context, b *bench) error {
	var both []*store
	for _, name := range []string{"story_told", "story_untold"} {
		s, err := b.server.store(ctx, name)
		if err != nil {
			return err
		}
		defer s.drop(ctx)
		both = append(both, s)
	}
	if err := both[1].exec(ctx, untold); err != nil {
		return err
	}
	if err := b.storyOfEnqueues(ctx, both); err != nil {
		return err
	}
	return b.storyOfRuns(ctx, both)
}

func (b *bench) compareStories(ctx context.Context, what string, sides ...side) error {
	rates, err := b.interleave(ctx, what, sides...)
	if err == nil {
		b.report.compare(figure{Workload: "story", Case: what, Subject: "with its story", Against: "without"}, rates[0],
			rates[1], atLeast(0.9))
	}
	return err
}

func (b *bench) storyOfEnqueues(ctx context.Context, both []*store) error {
	few := max(100, b.rows/5)
	if b.short {
		few = max(100, b.rows/40)
	}
	var single, many []side
	for i, name := range []string{"told", "untold"} {
		client, err := jobs.NewClient(ctx, both[i].db, jobs.Config{})
		if err != nil {
			return err
		}
		e := &enqueuing{bench: b, store: both[i], client: client}
		single = append(single, e.into(name, few, func(ctx context.Context) error {
			return spread(few, func(i int) error {
				_, err := client.Enqueue(ctx, e.store.db, e.job(i, true))
				return err
			})
		}))
		many = append(many, e.into(name, b.rows, func(ctx context.Context) error {
			for list := range slices.Chunk(slices.Collect(e.jobs(b.rows, true)), 5000) {
				if _, err := client.EnqueueMany(ctx, e.store.db, list); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	if err := b.compareStories(ctx, fmt.Sprintf("enqueue %s one by one, %d connections", short(few), oneByOne),
		single...); err != nil {
		return err
	}
	return b.compareStories(ctx, fmt.Sprintf("enqueue %s, EnqueueMany, 5000 a call", short(b.rows)), many...)
}

// storyOfRuns moves and finishes rows that have just been enqueued, and then those that have moved 20 times before: a trace
// grows no longer.
func (b *bench) storyOfRuns(ctx context.Context, both []*store) error {
	table := floorCase{b.rows, 10 * b.rows, true, true, nil}
	var rings []*ring
	for _, s := range both {
		if err := s.empty(ctx); err != nil {
			return err
		}
		r := &ring{store: s, floorCase: table}
		if err := r.make(ctx); err != nil {
			return err
		}
		rings = append(rings, r)
	}
	for _, old := range []bool{false, true} {
		age := "new rows"
		if old {
			age = "rows that have moved 20 times"
			trace := strings.Repeat("\n"+"arGngAEE0gAM", 20)[1:] // see internal/trace
			if err := rings[0].exec(ctx, "update prescient.future_job set trace = '"+trace+"'"); err != nil {
				return err
			}
			for _, r := range rings {
				if err := r.exec(ctx, "vacuum full analyze prescient.future_job"); err != nil {
					return err
				}
			}
		}
		for _, op := range []operation{moveAll, finishAll} {
			var sides []side
			for i, name := range []string{"told", "untold"} {
				r := rings[i]
				sides = append(sides, side{name: name, prepare: r.prepare, measure: func(ctx context.Context) (part, error) {
					return r.run(ctx, op, register(r.check(op), jobs.MaxChecks(1_000_000)))
				}})
			}
			if err := b.compareStories(ctx, fmt.Sprintf("%s, %s, %s", op.name, table, age), sides...); err != nil {
				return err
			}
		}
	}
	return nil
}
