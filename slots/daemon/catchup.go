package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// often is the pause between two catch-ups, where the width is not less.
	often = time.Minute
	// lookBack is how long before the end of the last catch-up the next one begins to look: a transaction that was open
	// for as long may have left stragglers there.
	lookBack = 10 * time.Minute
	// thoroughly is how often catch-up looks at the whole ledger, at some 5 us of the database's for each slot in it:
	// half a second for every day of slots of one second.
	thoroughly = time.Hour
	// pruning is how often history is pruned.
	pruning = 24 * time.Hour
)

// catchUpState is part of state. Its instants, other than until, are local and monotonic.
type catchUpState struct {
	busy     bool
	due      bool      // a slot was done since the last one began
	ended    time.Time // when the last one ended
	until    time.Time // the slot before which nothing was missed when the last good one began; zero before the first
	thorough time.Time // when the last good one began that looked at the whole ledger
	pruned   time.Time // when history was last pruned
	err      error     // of the last one
	missed   int64     // slots that began without a run here, since the last good one began
}

// span is the slots from one up to but not including another; from may be zero, for the first of the ledger.
type span struct{ from, to time.Time }

// beginCatchUp begins a catch-up when it is time for one.
func (d *daemon) beginCatchUp(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, now := &d.catchUp, monotonic()
	if c.busy || !c.due && !c.ended.IsZero() && now.Sub(c.ended) < min(often, d.grid.Width()) {
		return
	}
	whole := c.thorough.IsZero() || now.Sub(c.thorough) >= thoroughly
	since, until := d.catchUpRange(whole)
	list := spans(d.grid, since, until, d.busy())
	missed := c.missed
	c.busy, c.due = true, false
	d.work.Go(func() {
		err := d.catchUpOn(ctx, list)
		d.mu.Lock()
		c.busy, c.ended, c.err = false, monotonic(), err
		if err == nil {
			c.until = until
			c.missed -= missed
			if whole {
				c.thorough = now
			}
		}
		d.mu.Unlock()
		d.give(ctx, err)
		if err == nil {
			d.prune(ctx)
		}
	})
}

// catchUpRange returns the slots to look at, from since up to but not including until. Call it with mu held.
func (d *daemon) catchUpRange(whole bool) (since, until time.Time) {
	until = d.current
	if d.done.Equal(until) {
		until = d.grid.Next(until) // for its stragglers; before that it is its run's alone
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

// spans returns the slots from since up to until without those that are being run. Catch-up would take a share in
// their rows, too, as missed ones, which they are not.
func spans(g grid.Grid, since, until time.Time, running []time.Time) []span {
	var list []span
	for _, slot := range running {
		if !slot.Before(until) || slot.Before(since) {
			continue
		}
		if since.Before(slot) {
			list = append(list, span{since, slot})
		}
		since = g.Next(slot)
	}
	if since.Before(until) {
		list = append(list, span{since, until})
	}
	return list
}

func (d *daemon) catchUpOn(ctx context.Context, list []span) error {
	r, err := slots.NewRunner(ctx, d.cfg.Runner)
	if err != nil {
		return stoppedBy(ctx, false, err)
	}
	for _, s := range list {
		caught, err := r.CatchUp(ctx, slots.CatchUp{Since: s.from, Until: s.to})
		opened := len(caught.Results) > 0 && caught.Results[len(caught.Results)-1].State != ""
		err = stoppedBy(ctx, opened, err)
		d.logCaught(ctx, caught, err)
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *daemon) logCaught(ctx context.Context, caught slots.Caught, err error) {
	var checked, failed int64
	for _, r := range caught.Results {
		checked += r.Checked
		failed += r.Failed
	}
	log := d.log.With("slots", len(caught.Slots), "empty", caught.Empty, "checked", checked, "failed", failed)
	switch {
	case err != nil && !errors.Is(err, slots.ErrStopped):
		log.ErrorContext(ctx, "catch-up failed", "error", err)
	case len(caught.Slots) > 0 || caught.Empty > 0:
		log.InfoContext(ctx, "catch-up")
	}
}

// pruneLock is how long dropping a part of history waits for those who read it: everybody who records something waits
// behind it.
const pruneLock = "set local lock_timeout = '1s'"

// prune drops what is older than Config.Keep, once a day. It only warns: a role that may not drop tables can still run
// everything.
func (d *daemon) prune(ctx context.Context) {
	d.mu.Lock()
	now := monotonic()
	due := d.cfg.Keep > 0 && (d.catchUp.pruned.IsZero() || now.Sub(d.catchUp.pruned) >= pruning)
	if due {
		d.catchUp.pruned = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	dropped, forgotten, err := d.pruneNow(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		d.log.WarnContext(ctx, "history was not pruned; trying again tomorrow", "error", err)
	case len(dropped) > 0 || forgotten > 0:
		d.log.InfoContext(ctx, "history pruned", "partitions", len(dropped), "slots", forgotten)
	}
}

func (d *daemon) pruneNow(ctx context.Context) (dropped []jobs.Pruned, forgotten int64, err error) {
	db := d.cfg.Runner.DB
	ledger, err := slots.NewLedger(ctx, db, d.schema.String(), d.cfg.Runner.Now)
	if err != nil {
		return nil, 0, err
	}
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: d.schema.String()})
	if err != nil {
		return nil, 0, err
	}
	before := ledger.Now().Add(-d.cfg.Keep)
	err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pruneLock); err != nil {
			return fmt.Errorf("limit the wait for locks: %w", err)
		}
		dropped, err = client.Prune(ctx, tx, before, false)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	forgotten, err = ledger.Prune(ctx, before)
	return dropped, forgotten, err
}
