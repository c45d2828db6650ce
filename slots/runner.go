package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// ErrStopped is returned by a run that was stopped before its slot was done. What was checked is recorded; the rest
// is left for another runner or for catch-up.
var ErrStopped = errors.New("stopped before the slot was done")

// ErrAbandoned is returned by a run that left checks behind which went on after their timeout and the grace period.
// They end with the process, which should exit soon, and with a failure.
var ErrAbandoned = errors.New("checks ignored their timeout")

// ErrLeaseLost is the cause of the context of a check whose runner lost its lease: another runner may be doing the
// same check.
var ErrLeaseLost = errors.New("lease lost")

// Result is what one runner did for one slot.
type Result struct {
	Slot time.Time
	Kind Kind
	// State is StateOpen when other runners still hold shards, or rows were left on purpose.
	State State
	// Planned is the number of rows when the slot was opened, by all runners; an estimate when there were many.
	Planned int64
	// Checked = Finished + Rescheduled + Failed: the rows whose outcome this runner recorded.
	Checked     int64
	Finished    int64
	Rescheduled int64
	Failed      int64
	// Yielded rows were cancelled or moved by their owner while they were being checked, and are left at that.
	Yielded int64
	// TakenOver and Lost are shards taken over from, and lost to, other runners.
	TakenOver int
	Lost      int
	// Abandoned checks went on after their timeout and the grace period.
	Abandoned int
	Took      time.Duration
}

// LogValue is the result as the attributes of a log line.
func (r Result) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Time("slot", r.Slot), slog.String("kind", string(r.Kind)), slog.String("state", string(r.State)),
		slog.Int64("planned", r.Planned), slog.Int64("checked", r.Checked), slog.Int64("finished", r.Finished),
		slog.Int64("rescheduled", r.Rescheduled), slog.Int64("failed", r.Failed), slog.Int64("yielded", r.Yielded),
		slog.Int("taken_over", r.TakenOver), slog.Int("lost", r.Lost), slog.Int("abandoned", r.Abandoned),
		slog.Duration("took", r.Took),
	)
}

// Run runs a slot, together with any other runners that are at it. It waits for a boundary that is at most
// Config.Early ahead. A slot that is done, or whose shards others hold for a whole lease, is nothing to do.
//
// When ctx ends the run stops: it gives running checks Config.Grace, records what they return, hands its shards back
// and returns ErrStopped. The result is valid beside any error.
func (r *Runner) Run(ctx context.Context, slot time.Time) (Result, error) {
	slot = slot.UTC()
	if err := Await(ctx, r.Grid(), slot, r.cfg.Early, r.Now); err != nil {
		return Result{Slot: slot, Kind: KindRun}, err
	}
	return r.run(ctx, slot, KindRun, selection{judge: check})
}

// selection is which rows a run takes and what it does with them.
type selection struct {
	job     string // the only job to take; empty: all
	limit   int64  // rows to take at the most; 0: no limit
	partial bool   // rows may stay in the slot on purpose: for the reasons above, or the judge's
	judge   judge
}

// judge decides about a row before its check. The verdict is for actRecord.
type judge func(d *jobs.Definition, m jobs.Moment) (jobs.Verdict, action)

type action int

const (
	actCheck  action = iota // call the job's function
	actRecord               // record the verdict without a call
	actLeave                // leave the row in its slot
)

// check is the judge of a run: guards first, then the job's function.
func check(d *jobs.Definition, m jobs.Moment) (jobs.Verdict, action) {
	if v, ok := d.Before(m); !ok {
		return v, actRecord
	}
	return jobs.Verdict{}, actCheck
}

func (r *Runner) run(ctx context.Context, slot time.Time, kind Kind, sel selection) (Result, error) {
	started := monotonic()
	result := Result{Slot: slot, Kind: kind}
	l := &ledger{db: r.cfg.DB, schema: r.schema, slot: slot, runner: r.cfg.Name, lease: r.cfg.Lease}
	var err error
	result.State, result.Planned, err = l.open(ctx, kind, kind == KindCatchUp)
	if err == nil && result.State == StateOpen {
		result, err = newScan(ctx, r, l, sel, result).run()
	}
	result.Took = time.Since(started)
	if err != nil {
		return result, fmt.Errorf("run slot %s: %w", slot.Format(time.RFC3339), err)
	}
	return result, nil
}
