package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// peer is a side whose jobs do nothing.
type peer struct {
	side
	queue bool // a job queue, other than a loop written by hand
	river bool
	drop  func(ctx context.Context)
}

// peers has the due jobs done that do nothing. Every table holds the due jobs alone, vacuumed and analysed.
func peers(ctx context.Context, b *bench) error {
	all, err := b.peers(ctx)
	for _, p := range all {
		defer p.drop(ctx)
	}
	if err != nil {
		return err
	}
	sides := make([]side, len(all))
	for i, p := range all {
		sides[i] = p.side
	}
	what := fmt.Sprintf("%s due no-op jobs", short(b.rows))
	rates, err := b.interleave(ctx, what, sides...)
	if err != nil {
		return err
	}
	const own = 2 // one by one, in batches
	for _, i := range []int{0, 1} {
		b.comparePeers(what, all[i].name, rates[i], all[own:], rates[own:])
	}
	if b.short {
		return nil
	}
	return b.scheduled(ctx)
}

// comparePeers adds a line for each peer; those that a target is about have it.
func (b *bench) comparePeers(what, subject string, own series, all []peer, rates []series) {
	bestRiver, bestQueue := -1, -1
	for i, p := range all {
		if p.river && (bestRiver < 0 || rates[i].median() > rates[bestRiver].median()) {
			bestRiver = i
		}
		if p.queue && (bestQueue < 0 || rates[i].median() > rates[bestQueue].median()) {
			bestQueue = i
		}
	}
	for i, p := range all {
		f := figure{Workload: "peers", Case: what, Subject: subject, Against: p.name, Note: p.note}
		if i == bestRiver {
			b.report.compare(f, own, rates[i], atLeast(4))
			if i != bestQueue {
				continue
			}
			f.Note = "the best of the job queues; " + p.note
		}
		if i == bestQueue {
			b.report.compare(f, own, rates[i], atLeast(1.5))
			continue
		}
		if i != bestRiver {
			b.report.compare(f, own, rates[i], nil)
		}
	}
}

// peers sets up all of them. The first two are prescient. What was set up is returned beside an error, too.
func (b *bench) peers(ctx context.Context) (all []peer, err error) {
	n := b.rows
	add := func(d *database, p peer) {
		if d != nil {
			p.drop = d.drop
		} else {
			p.drop = func(context.Context) {}
		}
		all = append(all, p)
	}

	s, err := b.server.store(ctx, "prescient")
	if err != nil {
		return all, err
	}
	prepare := func(ctx context.Context) error {
		return errors.Join(s.empty(ctx), s.fill(ctx, n, "0", true))
	}
	add(s.database, peer{side: side{name: "prescient", prepare: prepare, measure: func(ctx context.Context) (part, error) {
		return s.run(ctx, register(finish), s.slot(0), n)
	}}})
	add(nil,
		peer{side: side{name: "prescient, in batches", prepare: prepare, measure: func(ctx context.Context) (part, error) {
			return s.run(ctx, registerBatch(finishBatch), s.slot(0), n)
		}}})

	r, err := b.server.river(ctx, "river")
	if err != nil {
		return all, err
	}
	for i, workers := range []int{1000, 10_000} {
		if b.short && i > 0 {
			continue
		}
		p := peer{queue: true, river: true, side: side{
			name: fmt.Sprintf("River, %d workers", workers), note: riverKeeps,
			prepare: func(ctx context.Context) error { return r.fill(ctx, n, time.Time{}) },
			measure: func(ctx context.Context) (part, error) { return r.work(ctx, n, n, workers, nil) },
		}}
		if i == 0 {
			add(r.database, p)
		} else {
			add(nil, p)
		}
	}

	g, err := b.server.gue(ctx, "gue")
	if err != nil {
		return all, err
	}
	few := max(100, n/10) // it takes long, and its rate does not depend on it
	add(g.database, peer{queue: true, side: side{
		name: "gue, 16 workers", note: fmt.Sprintf("%s; %s jobs", gueKeeps, short(few)),
		prepare: func(ctx context.Context) error { return g.fill(ctx, few) },
		measure: func(ctx context.Context) (part, error) { return g.work(ctx, few, 16) },
	}})

	k, err := b.server.skipLocked(ctx, "skiplocked")
	if err != nil {
		return all, err
	}
	for i, shape := range [][2]int{{4, 100}, {2, 5000}} {
		p := peer{side: side{
			name: fmt.Sprintf("SKIP LOCKED, %d x %d", shape[0], shape[1]), note: skipKeeps,
			prepare: func(ctx context.Context) error { return k.fill(ctx, n) },
			measure: func(ctx context.Context) (part, error) { return k.work(ctx, n, shape[0], shape[1]) },
		}}
		if i == 0 {
			add(k.database, p)
		} else {
			add(nil, p)
		}
	}

	same := s.skipLocked(s.slot(0))
	add(nil, peer{side: side{
		name: "SKIP LOCKED on prescient's tables, 2 x 5000", note: skipKeeps, prepare: prepare,
		measure: func(ctx context.Context) (part, error) { return same.work(ctx, n, 2, 5000) },
	}})
	return all, nil
}

// scheduled has jobs done that were asked for one instant, on the real clock: what counts is how long after the
// instant the last one is done.
func (b *bench) scheduled(ctx context.Context) error {
	const width = 4 * time.Second
	s, err := b.server.store(ctx, "scheduled")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	if s.grid, err = grid.New(width); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "select prescient.set_width($1::bigint * interval '1 second')",
		int(width/time.Second)); err != nil {
		return fmt.Errorf("set the width: %w", err)
	}
	r, err := b.server.river(ctx, "river_scheduled")
	if err != nil {
		return err
	}
	defer r.drop(ctx)

	round := 0
	ofRiver := func(workers int) func(ctx context.Context) (part, error) {
		return func(ctx context.Context) (part, error) {
			empty := func(ctx context.Context) error { return r.exec(ctx, "truncate river_job") }
			return inTime(ctx, empty, func(more time.Duration) (part, error) {
				return r.workAt(ctx, b.rows, workers, more+time.Duration(round%3)*1700*time.Millisecond)
			})
		}
	}
	what := fmt.Sprintf("%s no-op jobs scheduled for one instant", short(b.rows))
	rates, err := b.interleave(ctx, what,
		side{
			name: "prescient",
			measure: func(ctx context.Context) (part, error) {
				return inTime(ctx, s.empty, func(more time.Duration) (part, error) { return s.runAt(ctx, b.rows, more) })
			},
		},
		side{
			name: "River, 1000 workers",
			prepare: func(context.Context) error {
				round++
				return nil
			},
			measure: ofRiver(1000),
		},
		side{
			name:    "River, 10000 workers",
			measure: ofRiver(10_000),
		})
	if err != nil {
		return err
	}
	f := figure{
		Workload: "peers", Case: what, Subject: "prescient", Against: "River, 1000 workers",
		Note: "from the instant to the last job done; River looks ahead every 5 s, and " + riverKeeps,
	}
	best := 1
	if rates[2].median() > rates[1].median() {
		best, f.Against = 2, "River, 10000 workers"
	}
	b.report.compare(f, rates[0], rates[best], atLeast(8))
	return nil
}

// errLate is that the instant came before the table was filled.
var errLate = errors.New("filling took too long")

// inTime measures rows of one instant. If the instant comes before they are there, it empties the table and chooses a later one.
func inTime(
	ctx context.Context, empty func(ctx context.Context) error, measure func(more time.Duration) (part, error),
) (part, error) {
	for more := time.Duration(0); ; more = 2*more + 5*time.Second {
		if err := empty(ctx); err != nil {
			return part{}, err
		}
		if p, err := measure(more); !errors.Is(err, errLate) || more > partLimit/10 {
			return p, err
		}
	}
}

// runAt fills the next slot that is far enough ahead, and starts its run early, as cron would.
func (s *store) runAt(ctx context.Context, rows int, more time.Duration) (part, error) {
	setting, err := pgsql.ReadSetting(ctx, s.db, "")
	if err != nil {
		return part{}, err
	}
	at := s.grid.Ceil(setting.Now().Add(more + 3*time.Second + time.Duration(rows)*40*time.Microsecond))
	s.first = at
	if err := s.fill(ctx, rows, "0", true); err != nil {
		return part{}, err
	}
	if err := s.checkpoint(ctx); err != nil {
		return part{}, err
	}
	early := s.grid.Width() / 4
	select {
	case <-time.After(at.Sub(setting.Now()) - early):
	case <-ctx.Done():
		return part{}, context.Cause(ctx)
	}
	if !setting.Now().Before(at) {
		return part{}, errLate
	}
	runner, err := s.runnerNow(ctx)
	if err != nil {
		return part{}, err
	}
	result, err := runner.Run(ctx, at)
	took := setting.Now().Sub(at)
	if err == nil && result.Finished != int64(rows) {
		err = fmt.Errorf("the run finished %d of %d rows", result.Finished, rows)
	}
	return part{rows: rows, took: took}, err
}
