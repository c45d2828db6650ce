// Package demo tells the story of `prescient dev-db demo`: two days of a shop in virtual time. It
// uses a real database and the real engine, in a schema that it drops at the end.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// DefaultSeed gives a story in which everything happens that the text mentions, also alerts from
// caught-up checks.
const DefaultSeed = 40

// Options configures a story. The zero value tells the story of seed 0 without colours.
type Options struct {
	Seed   uint64 // of the orders
	Colour bool   // out is a terminal that shows colours
	Width  int    // of the terminal; 0: lines are not wrapped
	Name   string // of the binary, for the commands to try next
}

// Facts are the figures of a story.
type Facts struct {
	Orders  int
	Waiting int // orders with a waiting check, at the end
	Ended   int // orders whose checks are in history, at the end
	Primary int // alerts
	Final   int
	Missed  []time.Time // slots that the status showed as missed after the outage
	Caught  int64       // checks of catch-up
	Told    int         // alerts of checks that knew they were caught up
	// Messages counts what the receiver has got.
	Messages int
	Trouble  int // slots in trouble at the end
}

const (
	listed      = 3 // alerts shown of each chapter
	outageSlots = 3
)

// outage is the first slot without a run, and end the last slot of the story.
var (
	outage = start.Add(34 * time.Hour)
	end    = start.Add(48 * time.Hour)
)

// teller tells the story while it happens.
type teller struct {
	*replay.Replay
	*printer
	db     *sqlx.DB
	shop   shop
	orders []order   // in the order of their placement
	known  time.Time // the tables have everything up to this instant
	told   int       // alerts that were shown
	facts  Facts
}

// Tell plays the story and writes it to out. Open db with replay.Connect.
func Tell(ctx context.Context, db *sqlx.DB, out io.Writer, o Options) (_ Facts, err error) {
	t := &teller{printer: &printer{out: out, colour: o.Colour, width: o.Width}, db: db, orders: generate(o.Seed)}
	registry := jobs.NewRegistry()
	registry.Register(unshipped, jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return t.shop.check(ctx, tx, job)
	}))
	if t.Replay, err = replay.Open(ctx, db, registry, start); err != nil {
		return Facts{}, err
	}
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	t.shop = shop{t.Schema}
	err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, t.shop.sql(tables))
		return err
	})
	if err != nil {
		return Facts{}, fmt.Errorf("create the tables of the demo: %w", err)
	}
	if err := t.nameOps(ctx); err != nil {
		return Facts{}, err
	}
	for _, chapter := range []func(context.Context) error{t.monday, t.outage, t.catchUp, t.close} {
		if err := errors.Join(chapter(ctx), t.err); err != nil {
			return t.facts, err
		}
	}
	t.next(o.Name)
	return t.facts, t.err
}

// apply writes what the shop does up to and including a slot.
func (t *teller) apply(ctx context.Context, slot time.Time) error {
	before := t.known
	t.known = slot
	now := func(at time.Time) bool { return at.After(before) && !at.After(slot) }
	t.Set(slot.Add(-time.Microsecond)) // a slot that has begun accepts no more checks
	return pgsql.InTx(ctx, t.db, func(tx *sqlx.Tx) error {
		for _, o := range t.orders {
			if now(o.placed) {
				if _, err := t.place(ctx, tx, o); err != nil {
					return fmt.Errorf("place order %d: %w", o.id, err)
				}
			}
			if now(o.shipped) {
				if err := t.shop.ship(ctx, tx, o); err != nil {
					return fmt.Errorf("ship order %d: %w", o.id, err)
				}
			}
		}
		return nil
	})
}

// pass runs each slot in [from, to).
func (t *teller) pass(ctx context.Context, from, to time.Time) (sum slots.Result, n int, err error) {
	for slot := range t.Ledger.Grid().Between(from, to) {
		if err := t.apply(ctx, slot); err != nil {
			return sum, n, err
		}
		t.Set(slot)
		result, err := t.Run(ctx)
		if err != nil {
			return sum, n, err
		}
		sum.Checked += result.Checked
		sum.Finished += result.Finished
		sum.Rescheduled += result.Rescheduled
		n++
	}
	return sum, n, nil
}

// fresh returns the alerts that were raised since its last call.
func (t *teller) fresh(ctx context.Context) ([]alert, error) {
	all, err := t.shop.alerts(ctx, t.db)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	slices.SortStableFunc(all, func(a, b alert) int { return a.raised().Compare(b.raised()) })
	list := all[t.told:]
	t.told = len(all)
	return list, nil
}

// raised returns when an alert was raised.
func (a alert) raised() time.Time { return a.Slot.Add(a.Late) }
