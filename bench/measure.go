package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// partLimit bounds one measured part with its preparation: a hang must not last.
const partLimit = 20 * time.Minute

// clock measures, and says when the jobs of River are due.
var clock = time.Now //nolint:forbidigo // see above

// side is one of the things that a workload compares.
type side struct {
	name    string
	prepare func(ctx context.Context) error // not measured; may be nil
	measure func(ctx context.Context) (part, error)
	note    string // its semantics
}

// part is what was measured once: rows in a time.
type part struct {
	rows int
	took time.Duration
	cpu
}

// rate is in rows a second.
func (p part) rate() float64 { return float64(p.rows) / p.took.Seconds() }

// series is the rates of one side, a round each.
type series []float64

func (s series) median() float64 { return median(s) }

// over returns the ratio of each round.
func (s series) over(base series) []float64 {
	var ratios []float64
	for i := range min(len(s), len(base)) {
		ratios = append(ratios, s[i]/base[i])
	}
	return ratios
}

// interleave measures the sides by turns, A B A B A B, so that what changes on the machine meets all of them.
func (b *bench) interleave(ctx context.Context, what string, sides ...side) ([]series, error) {
	all, parts := make([]series, len(sides)), make([][]part, len(sides))
	for round := range b.rounds {
		for i, s := range sides {
			p, err := b.measure(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", what, s.name, err)
			}
			all[i], parts[i] = append(all[i], p.rate()), append(parts[i], p)
			b.log.InfoContext(ctx, "measured", "what", what, "side", s.name, "round", round+1, "rows", p.rows,
				"took", p.took.Round(time.Millisecond), "per_second", int64(p.rate()))
		}
	}
	for i, s := range sides {
		if parts[i][0].server > 0 {
			b.report.note(what + ", " + costs(s.name, parts[i]))
		}
	}
	return all, nil
}

// measure prepares and measures one side once.
func (b *bench) measure(ctx context.Context, s side) (part, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, partLimit, fmt.Errorf("not done after %s", partLimit))
	defer cancel()
	if s.prepare != nil {
		if err := s.prepare(ctx); err != nil {
			return part{}, fmt.Errorf("prepare: %w", err)
		}
	}
	if err := b.server.checkpoint(ctx); err != nil {
		return part{}, err
	}
	runtime.GC()
	before := b.server.cpu()
	p, err := s.measure(ctx)
	p.cpu = b.server.cpu().minus(before)
	if err == nil && (p.rows <= 0 || p.took <= 0) {
		err = fmt.Errorf("nothing was measured: %d rows in %s", p.rows, p.took)
	}
	return p, err
}

// timed measures fn, which does something with a number of rows.
func timed(rows int, fn func() error) (part, error) {
	started := clock()
	err := fn()
	return part{rows: rows, took: time.Since(started)}, err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}
