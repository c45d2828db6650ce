package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	pgsql "github.com/prescient-go/prescient/sql"
)

// maxFinal keeps every check within the horizon, even after the grid rounds it up.
const maxFinal = jobs.DefaultHorizon - 48*time.Hour

func (r rule) validate() error {
	switch {
	case r.primary < 0:
		return fmt.Errorf("--primary %s: must not be negative", r.primary)
	case r.final <= r.primary:
		return fmt.Errorf("--final %s: must be longer than --primary, which is %s", r.final, r.primary)
	case r.final > maxFinal:
		return fmt.Errorf("--final %s: must be at most %s", r.final, maxFinal)
	case r.primary%time.Microsecond != 0 || r.final%time.Microsecond != 0:
		return errors.New("--primary and --final: must be whole microseconds")
	}
	return nil
}

// summary counts what a replay has done so far.
type summary struct {
	orders    int
	slots     int64
	asked     int64 // checks that were enqueued
	checks    int64
	ended     int64 // rows that are finished
	cancelled int64 // of them
	alerts    []alert
	took      time.Duration
}

// player plays orders through the engine.
type player struct {
	*virtual
	shop shop
	rule rule
	sum  summary
}

// play runs at least one order, sorted by when they were placed, through the engine in virtual time
// and in a schema of its own. It calls progress after every slot with work.
func play(ctx context.Context, db *sqlx.DB, orders []order, r rule, progress func(summary)) (_ summary, err error) {
	p := &player{rule: r}
	registry := jobs.NewRegistry()
	registry.Register(unshipped, jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return p.shop.checkUnshipped(ctx, tx, job)
	}), jobs.Retry(0))
	registerAlerts(registry, func() shop { return p.shop }, jobs.Retry(0))
	if p.virtual, err = newVirtual(ctx, db, registry, orders[0].placedAt); err != nil {
		return summary{}, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()

	p.shop = shop{schema: p.schema}
	if err := p.shop.create(ctx, db); err != nil {
		return summary{}, err
	}
	if err := p.play(ctx, orders, progress); err != nil {
		return p.sum, fmt.Errorf("replay slot %s: %w", p.now.Format(time.RFC3339), err)
	}
	p.sum.alerts, err = p.shop.alerts(ctx, db)
	return p.sum, err
}

// play goes from slot to slot until every order has come and no check waits.
func (p *player) play(ctx context.Context, orders []order, progress func(summary)) (err error) {
	g := p.client.Grid()
	todo := timeline(g, orders)
	slot, last := todo[0].slot, g.Ceil(orders[len(orders)-1].placedAt.Add(p.rule.final))
	for {
		if len(todo) > 0 && todo[0].slot.Equal(slot) {
			if err := p.apply(ctx, todo[0]); err != nil {
				return err
			}
			todo = todo[1:]
		}
		if err := p.run(ctx, slot); err != nil {
			return err
		}
		progress(p.sum)
		left := p.sum.asked - p.sum.ended
		switch {
		case left == 0 && p.sum.orders == len(orders):
			return nil
		case !slot.Before(last):
			return fmt.Errorf("%d checks were not done to the end", left)
		}
		next := last
		if len(todo) > 0 && todo[0].slot.Before(last) {
			next = todo[0].slot
		}
		from := slot
		if slot, err = p.next(ctx, next); err != nil {
			return err
		}
		p.sum.slots += int64(slot.Sub(from)/g.Width()) - 1 // those between have no rows
	}
}

// apply writes the events up to a slot, with the clock just before it: a slot that has begun takes
// no more checks.
func (p *player) apply(ctx context.Context, s step) error {
	p.now = s.slot.Add(-time.Microsecond)
	checks, err := p.rule.ask(s.placed)
	if err != nil {
		return err
	}
	p.sum.orders += len(s.placed)
	p.sum.asked += int64(len(checks))
	return pgsql.InTx(ctx, p.db, func(tx *sqlx.Tx) error {
		if len(s.placed) > 0 {
			if err := p.shop.place(ctx, tx, s.placed); err != nil {
				return err
			}
			if _, err := p.client.EnqueueMany(ctx, tx, checks); err != nil {
				return err
			}
		}
		if len(s.shipped) > 0 {
			if _, err := p.shop.ship(ctx, tx, s.shipped); err != nil {
				return err
			}
			if p.rule.cancel {
				n, err := cancelAlerts(ctx, tx, p.client, s.shipped)
				p.sum.ended, p.sum.cancelled = p.sum.ended+n, p.sum.cancelled+n
				return err
			}
		}
		return nil
	})
}

// run runs a slot. A check that fails ends the replay, because the result would be wrong.
func (p *player) run(ctx context.Context, slot time.Time) error {
	p.now = slot
	result, err := p.runner.Run(ctx, slot)
	if err != nil {
		return err
	}
	p.sum.slots++
	p.sum.checks += result.Checked
	p.sum.ended += result.Finished
	if result.Failed == 0 {
		return nil
	}
	newest := admin.HistoryFilter{Outcome: jobs.OutcomeFailed, Limit: 1}
	for last, err := range admin.New(p.client).History(ctx, p.db, newest) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%d checks failed, the last of them: %s", result.Failed, last.LastError)
	}
	return nil
}
