package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// holder is a queue that gets new jobs and does them, round after round.
type holder struct {
	name   string
	note   string
	db     *database
	add    func(ctx context.Context, round int) error
	work   func(ctx context.Context, round int) (part, error)
	target *target // of its last round over the first
	versus *target // of prescient's last round over its last
}

// heldBack gives each queue rounds of new jobs while another transaction keeps a snapshot, so that nothing of what
// the rounds leave behind can be removed.
func heldBack(ctx context.Context, b *bench) error {
	rows := b.rows / 2
	if b.short {
		rows = b.rows / 10
	}
	all, err := b.holders(ctx, rows)
	for _, h := range all {
		defer h.db.drop(ctx)
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d rounds of %s", b.jobRounds, short(rows))
	var own series
	for i, h := range all {
		for _, t := range []*target{h.target, h.versus} {
			if t != nil {
				t.other = b.short // fewer jobs leave less behind
			}
		}
		rates, err := b.holdBack(ctx, what, h)
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		first, last := rates[:3], rates[len(rates)-3:]
		note := "first: the median of the first three rounds, last: of the last three"
		if h.note != "" {
			note += "; " + h.note
		}
		b.report.compare(figure{
			Workload: "held-back vacuum", Case: what, Subject: h.name + ", last", Against: "its first", Note: note,
		}, last, first, h.target)
		if i == 0 {
			own = last
			continue
		}
		b.report.compare(figure{
			Workload: "held-back vacuum", Case: what, Subject: all[0].name + ", last", Against: h.name + ", last", Note: h.note,
		}, own, last, h.versus)
	}
	return nil
}

// holdBack measures the rounds of one queue.
func (b *bench) holdBack(ctx context.Context, what string, h holder) (rates series, err error) {
	tx, err := h.db.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("hold back vacuum: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	var tables int
	if err := tx.QueryRowContext(ctx, "select count(*) from pg_class").Scan(&tables); err != nil {
		return nil, fmt.Errorf("hold back vacuum: %w", err)
	}
	for round := range b.jobRounds {
		p, err := b.measure(ctx, side{
			prepare: func(ctx context.Context) error { return h.add(ctx, round) },
			measure: func(ctx context.Context) (part, error) { return h.work(ctx, round) },
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, p.rate())
		b.log.InfoContext(ctx, "measured", "what", what, "side", h.name, "round", round+1, "took",
			p.took.Round(time.Millisecond), "per_second", int64(p.rate()))
	}
	return rates, nil
}

// holders sets up the queues, prescient first. What was set up is returned beside an error, too.
func (b *bench) holders(ctx context.Context, rows int) (all []holder, err error) {
	s, err := b.server.store(ctx, "held_prescient")
	if err != nil {
		return all, err
	}
	all = append(all, holder{
		name: "prescient", db: s.database, target: atLeast(0.9),
		add: func(ctx context.Context, round int) error { return s.insert(ctx, rows, fmt.Sprint(round), true) },
		work: func(ctx context.Context, round int) (part, error) {
			return s.run(ctx, register(finish), s.slot(round), rows)
		},
	})
	r, err := b.server.river(ctx, "held_river")
	if err != nil {
		return all, err
	}
	all = append(all, holder{
		name: "River, 1000 workers", note: riverKeeps, db: r.database, versus: atLeast(15),
		add: func(ctx context.Context, _ int) error { return r.add(ctx, rows, time.Time{}) },
		work: func(ctx context.Context, round int) (part, error) {
			return r.work(ctx, rows, (round+1)*rows, 1000, nil)
		},
	})
	for _, limit := range []int{100, 1000} {
		if b.short && limit == 1000 {
			continue
		}
		k, err := b.server.skipLocked(ctx, fmt.Sprintf("held_skip_locked_%d", limit))
		if err != nil {
			return all, err
		}
		all = append(all, holder{
			name: fmt.Sprintf("SKIP LOCKED, 4 x %d", limit), note: skipKeeps, db: k.database,
			add:  func(ctx context.Context, _ int) error { return k.add(ctx, rows) },
			work: func(ctx context.Context, _ int) (part, error) { return k.work(ctx, rows, 4, limit) },
		})
	}
	return all, nil
}
