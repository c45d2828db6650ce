package daemon

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/locked"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/retention"
	"github.com/prescient-go/prescient/slots"
)

const (
	// often is the pause between two catch-ups. A shorter width shortens it.
	often = time.Minute
	// lookBack is how long before the end of the last catch-up the next one starts to look. A
	// transaction that was open for that long may have left stragglers there.
	lookBack = 10 * time.Minute
	// thoroughly is how often catch-up reads the whole ledger, at some 5 us of database time a
	// slot: half a second for every day of slots of one second.
	thoroughly = time.Hour
	// pruning is how often history is pruned.
	pruning = 24 * time.Hour
	// mostCatchUps bounds the catch-ups that go on at once. All but the last one have nothing to start, or
	// only what waits for the limit of its own job.
	mostCatchUps = 2
)

// catchUpState is part of state. Its instants, other than until, are local and monotonic. A catch-up is complete if it
// has come to all slots that it found, even if it left rows in some. The last one is the one that began last. It also
// looks at the slots that the one before it still works on.
type catchUpState struct {
	runner   *slots.Runner // of all of them. Nil before the first
	going    int           // catch-ups that go on
	begun    int           // catch-ups that have begun
	starts   bool          // the last one has slots to begin, or checks to start
	due      bool          // a slot was done since the last one began
	ended    time.Time     // when the last one ended, or had nothing more to start
	until    time.Time     // no slot before it had work left when the last complete one ended; zero before the first
	thorough time.Time     // when the last complete one that read the whole ledger began
	pruned   time.Time     // when history was last pruned
	err      error         // of the last one
	missed   int64         // slots that began without a run here, since the last complete one began
}

// beginCatchUp begins a catch-up when it is time for one. A check of an earlier one may go on for long.
func (d *daemon) beginCatchUp(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, now := &d.catchUp, elapsed.Now()
	if c.starts || c.going == mostCatchUps ||
		!c.due && !c.ended.IsZero() && now.Sub(c.ended) < min(often, d.grid.Width()) {
		return
	}
	whole := c.thorough.IsZero() || now.Sub(c.thorough) >= thoroughly
	since, until := d.catchUpRange(whole)
	missed := c.missed
	c.going, c.begun, c.starts, c.due = c.going+1, c.begun+1, true, false
	nth := c.begun
	d.work.Go(func() {
		left, err := d.catchUpOn(ctx, since, until, func() { d.catchUpWaits(nth) })
		d.catchUpWaits(nth)
		d.mu.Lock()
		c.going, c.err = c.going-1, err
		if !left.IsZero() && nth == c.begun {
			c.until = left
			c.missed -= missed
			if d.last != nil && d.last.Slot.Before(left) {
				d.lastErr = nil // catch-up has done what that run left
			}
			if whole {
				c.thorough = now
			}
		}
		d.mu.Unlock()
		d.give(ctx, err)
		if ctx.Err() == nil && !pg.IsTransient(err) {
			d.prune(ctx)
		}
	})
}

// catchUpWaits notes that a catch-up has nothing to start. If it is the last one, another one may begin.
func (d *daemon) catchUpWaits(nth int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := &d.catchUp; nth == c.begun {
		c.starts, c.ended = false, elapsed.Now()
	}
}

// catchUpRange returns the slots to look at, from since up to but not including until. Call it with
// mu held.
func (d *daemon) catchUpRange(whole bool) (since, until time.Time) {
	until = d.current
	if d.done.Equal(until) {
		until = d.grid.Next(until) // catch-up takes its stragglers; before that the slot belongs to its run
	}
	if whole {
		return time.Time{}, until
	}
	since = d.catchUp.until
	if d.current.Before(since) {
		since = d.current // the clock was set back
	}
	return d.grid.Floor(since.Add(-lookBack)), until
}

// leftTo returns whether catch-up left a slot to another runner, which may die, or to the next catch-up, which tries
// refused and locked rows again. A slot that only has rows of unregistered jobs is not: no runner may ever come for
// them.
func leftTo(r slots.Result) bool {
	return r.State == slots.StateOpen && (r.Held || len(r.Unknown) == 0)
}

// catchUpRunner returns the runner of all catch-ups, so that they leave each other the slots that they work on. No
// other catch-up begins meanwhile.
func (d *daemon) catchUpRunner(ctx context.Context) (*slots.Runner, error) {
	d.mu.Lock()
	r := d.catchUp.runner
	d.mu.Unlock()
	if r != nil {
		return r, nil
	}
	cfg := d.cfg.Runner
	cfg.Shared.Connections = cmp.Or(cfg.Shared.Connections, d.catchUpConnections)
	r, err := slots.NewRunner(ctx, cfg)
	d.mu.Lock()
	d.catchUp.runner = r
	d.mu.Unlock()
	return r, err
}

// catchUpOn returns the first slot that catch-up left to another runner or to the next catch-up. It returns until if
// it left no slot, and the zero time if catch-up has not come to all slots. It calls begun when all is begun.
func (d *daemon) catchUpOn(ctx context.Context, since, until time.Time, begun func()) (left time.Time, err error) {
	r, err := d.catchUpRunner(ctx)
	if err != nil {
		return left, stoppedBy(ctx, false, err)
	}
	opened := false // a slot
	left = until
	caught, err := r.CatchUp(ctx, slots.CatchUp{Since: since, Until: until, Begun: begun, After: func(r slots.Result) {
		d.warnNotRegistered(ctx, r)
		if leftTo(r) && r.Slot.Before(left) {
			left = r.Slot
		}
		opened = opened || r.State != ""
	}})
	err = stoppedBy(ctx, opened, err)
	d.logCaught(ctx, caught, err)
	switch complete := caught.Total.Slots >= int64(len(caught.Slots))+caught.MoreSlots; {
	case err == nil:
		return left, nil
	case errors.Is(err, slots.ErrAbandoned):
		return time.Time{}, err
	case errors.Is(err, slots.ErrLocked):
		return left, nil // it has done all else, and the next one looks at the rest
	case errors.Is(err, slots.ErrRefused) && complete:
		return left, err
	}
	return time.Time{}, err
}

func (d *daemon) logCaught(ctx context.Context, caught slots.Caught, err error) {
	found := int64(len(caught.Slots)) + caught.MoreSlots
	left := found - caught.Total.Done
	log := d.log.With("slots", found, "left", left, "empty", caught.Empty, "checked", caught.Total.Checked,
		"failed", caught.Total.Failed)
	switch {
	case locked.Only(err):
		log.WarnContext(ctx, "catch-up left rows to the next one", "error", err)
	case err != nil && !errors.Is(err, slots.ErrStopped):
		log.ErrorContext(ctx, "catch-up failed", "error", err)
	case caught.Total.Checked > 0 || left < found || caught.Empty > 0:
		log.InfoContext(ctx, "catch-up")
	case left > 0: // other runners work on them, or no process here knows their jobs
		log.DebugContext(ctx, "catch-up")
	}
}

// prune drops what is older than Config.Keep, once a day. It only warns: a role that may not drop
// tables can still run everything.
func (d *daemon) prune(ctx context.Context) {
	d.mu.Lock()
	now := elapsed.Now()
	due := d.cfg.Keep > 0 && (d.catchUp.pruned.IsZero() || now.Sub(d.catchUp.pruned) >= pruning)
	if due {
		d.catchUp.pruned = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	done, err := retention.Prune(ctx, retention.Config{
		DB: d.cfg.Runner.DB, Schema: d.schema, Now: d.cfg.Runner.Now, Keep: d.cfg.Keep,
	}, 0)
	switch {
	case err != nil && ctx.Err() == nil:
		d.log.WarnContext(ctx, "history was not pruned; trying again tomorrow", "error", err)
	case done != retention.Pruned{}:
		d.log.InfoContext(ctx, "history pruned", "partitions", done.Partitions, "slots", done.Slots, "events", done.Events)
	}
}
