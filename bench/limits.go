package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

const (
	limitRunners = 4
	limitWorkers = 16 // of each runner
)

// limits has four runners do a slot of a job of which all of them together may do only so much: what that costs where it holds
// nothing up, and whether it is kept where it does.
func limits(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "limits")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	if err := b.idleLimits(ctx, s, "checks that do nothing", b.rows, finish,
		jobs.AtMost(limitRunners*limitWorkers)); err != nil {
		return err
	}
	short := func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}
	err = b.idleLimits(ctx, s, "checks of 10 ms", b.rows/5, short, jobs.AtMost(limitRunners*limitWorkers),
		jobs.PerSecond(10_000))
	if err != nil {
		return err
	}
	return b.bindingLimits(ctx, s, b.rows)
}

// idleLimits compares a job with limits that it never reaches to one without.
func (b *bench) idleLimits(
	ctx context.Context, s *store, what string, rows int, fn jobs.CheckFunc, opts ...jobs.Option,
) error {
	one := func(name string, opts ...jobs.Option) side {
		return side{
			name:    name,
			prepare: func(ctx context.Context) error { return errors.Join(s.empty(ctx), s.fill(ctx, rows, "0", true)) },
			measure: func(ctx context.Context) (part, error) {
				return s.runTogether(ctx, register(fn, opts...), rows)
			},
		}
	}
	what = fmt.Sprintf("%s %s, four runners", short(rows), what)
	rates, err := b.interleave(ctx, what, one("with limits", opts...), one("without"))
	if err != nil {
		return err
	}
	b.report.compare(figure{Workload: "limits", Case: what, Subject: "limits that are not reached", Against: "no limits"},
		rates[0], rates[1], atLeast(0.9))
	return nil
}

// bindingLimits has a job at 40 at once and 1,000 a second, and fails where that is exceeded.
func (b *bench) bindingLimits(ctx context.Context, s *store, rows int) error {
	const atMost, perSecond = 40, 1000
	if err := errors.Join(s.empty(ctx), s.fill(ctx, rows, "0", true)); err != nil {
		return err
	}
	var now, most atomic.Int64
	var mu sync.Mutex
	var began []time.Time
	p, err := s.runTogether(ctx, register(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		mu.Lock()
		began = append(began, time.Now())
		mu.Unlock()
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		return nil, nil
	}, jobs.AtMost(atMost), jobs.PerSecond(perSecond)), rows)
	if err != nil {
		return err
	}
	first, within := 0, 0
	for i, at := range began {
		for at.Sub(began[first]) >= time.Second {
			first++
		}
		within = max(within, i-first+1)
	}
	if most.Load() > atMost || within > perSecond {
		return fmt.Errorf("%d at once and %d within a second, and %d and %d were allowed", most.Load(), within, atMost,
			perSecond)
	}
	b.report.add(figure{
		Workload: "limits", Case: fmt.Sprintf("%s checks, %d at once and %d a second", short(rows), atMost, perSecond),
		Subject: "four runners",
		Unit:    "rows/s", Value: p.rate(), Note: fmt.Sprintf("at most %d at once, %d within a second", most.Load(), within),
	}, 0, nil)
	return nil
}

// runTogether has four runners do slot 0, which takes until the last row is recorded: a runner that has nothing to do any more looks
// every half second whether the others are through.
func (s *store) runTogether(ctx context.Context, registry *jobs.Registry, rows int) (part, error) {
	var checked atomic.Int64
	p, err := timed(rows, func() error {
		group, ctx := errgroup.WithContext(ctx)
		for n := range limitRunners {
			group.Go(func() error {
				runner, err := slots.NewRunner(ctx, slots.Config{
					DB: s.db, Registry: registry, Name: fmt.Sprint("runner ", n), Workers: limitWorkers,
					Now: func() time.Time { return s.slot(0) }, Logger: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					return err
				}
				result, err := runner.Run(ctx, s.slot(0))
				checked.Add(result.Finished)
				return err
			})
		}
		return group.Wait()
	})
	if err == nil && checked.Load() != int64(rows) {
		err = fmt.Errorf("%d of %d rows were finished", checked.Load(), rows)
	}
	if err != nil {
		return p, err
	}
	var seconds float64
	err = s.db.GetContext(ctx, &seconds,
		"select extract(epoch from finished_at - opened_at) from prescient.slot_run where slot = $1", s.slot(0))
	p.took = time.Duration(seconds * float64(time.Second))
	return p, err
}
