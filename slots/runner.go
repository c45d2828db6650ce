package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Run runs a slot, together with other runners that are at it. It waits for a boundary that is at
// most Config.Early ahead. It does nothing for a slot that is done, or whose rows other runners
// hold for a whole lease. Run refuses a slot from before the ledger's beginning, except the slot
// that has begun last. It refuses a slot that is further ahead than Config.Early, also if the clock
// is set back meanwhile.
//
// A run waits for rows that other sessions have locked until shortly before the next slot begins, and
// longer while other rows of its slot wait for a permit. It then returns ErrLocked, and CatchUp takes
// the rest. See Config.LeaveLocked.
//
// When ctx ends the run stops. It gives running checks Config.Grace, records their outcomes, hands its claims back and
// returns ErrStopped within another ten seconds. The result is valid beside any error.
func (r *Runner) Run(ctx context.Context, slot time.Time) (Result, error) {
	slot = slot.UTC()
	if err := r.refuseBeforeLedger(slot); err != nil {
		return Result{Slot: slot, Kind: KindRun}, err
	}
	for again := false; ; again = true {
		waited, err := await(ctx, r.Grid(), slot, r.cfg.Early, r.Now)
		if err == nil && (waited || again) { // the width may have been changed meanwhile, or rules applied
			r, err = r.again(ctx)
		}
		if err != nil {
			return Result{Slot: slot, Kind: KindRun}, err
		}
		result, err := r.run(ctx, slot, selection{
			kind: KindRun, judge: check, beside: newBeside(&r.cfg), letNext: func() {}, untilNext: !r.cfg.LeaveLocked,
		})
		early, ok := errors.AsType[earlyError](err)
		if !ok || early.ahead > max(r.cfg.Early, defaultEarly) {
			return result, err
		}
		// The database's clock is a little behind the one that was waited for.
		if !elapsed.Sleep(ctx, early.ahead) {
			return result, ErrStopped
		}
	}
}

// again returns a copy of the runner that knows the width and the rules as they are now.
// Unlike NewRunner, it waits for a database that is away for a while.
func (r *Runner) again(ctx context.Context) (*Runner, error) {
	fresh := *r
	err := r.server.Retry(ctx, db.Retryable, func() (err error) {
		fresh.setting, err = pgsql.ReadSetting(ctx, r.cfg.DB, r.server.Schema)
		return err
	})
	if err == nil {
		fresh.server.Citus, fresh.server.Version = fresh.setting.Citus, fresh.setting.Server.Version
	}
	if err == nil && r.own.KnowsRules(reserved.Caller{}) {
		err = fresh.register(ctx, db.Retryable)
	}
	if err != nil && ctx.Err() != nil {
		err = ErrStopped
	}
	return &fresh, err
}

// refuseBeforeLedger returns an error for a slot from before the ledger's beginning. The slot that has begun last is
// always run, because its rows are due.
func (r *Runner) refuseBeforeLedger(slot time.Time) error {
	if slot.IsZero() || !r.Grid().Contains(slot) || !slot.Before(r.setting.Since) ||
		!slot.Before(r.Grid().Floor(r.Now())) {
		return nil
	}
	return fmt.Errorf("slot %s is %w, which begins at %s. catch-up runs the rows that were left there",
		spoken.Instant(slot), phase.ErrBeforeLedger, spoken.Instant(r.setting.Since))
}

func isEarly(err error) bool {
	_, ok := errors.AsType[earlyError](err)
	return ok
}

// run runs a slot. If Shared.Runs bounds the slots at once, a run keeps its place until it has nothing to start, or
// for some seconds only rows that wait for the limit of their own job: what it still does takes few connections.
func (r *Runner) run(ctx context.Context, slot time.Time, sel selection) (Result, error) {
	if turns := permit.Semaphore(r.cfg.Shared.Runs); turns != nil {
		if !turns.Acquire(ctx, ctx) {
			return Result{Slot: slot, Kind: sel.kind}, ErrStopped
		}
		next := sel.letNext
		sel.letNext = sync.OnceFunc(func() {
			turns.Release()
			next()
		})
		defer sel.letNext()
	}
	started := elapsed.Now()
	ctx, end := r.cfg.Registry.StartSpan(reserved.Caller{}, ctx, "run",
		slog.Time("slot", slot), slog.String("kind", string(sel.kind)), slog.String("runner", r.cfg.Name))
	n := newRun(ctx, r, slot, sel)
	result, err := n.do()
	result.Took = time.Since(started)
	end(err, result.LogValue().Group()...)
	result.logFailures(ctx, r.cfg.Logger, r.cfg.Told)
	if r.cfg.Observer != nil && !isEarly(err) {
		n.report.tell("Observer.Ran", func() { r.cfg.Observer.Ran(result, err) })
	}
	if err != nil {
		return result, fmt.Errorf("run slot %s: %w", spoken.Instant(slot), err)
	}
	return result, nil
}
