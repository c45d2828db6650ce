// Package retention drops history, the ledger and read events of the outbox once they are older than
// history.retention. A daemon calls it once a day, and so do catch-up and run with --catch-up.
package retention

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config says what to drop. DB and Keep must be set.
type Config struct {
	DB     pgsql.Pool
	Schema pgsql.Schema
	// Now is the instant that ages are measured from. nil asks the database.
	Now func() time.Time
	// Keep is how long to keep what ended.
	Keep time.Duration
}

// Pruned counts what was dropped.
type Pruned struct {
	Partitions int   // months of history, and tables with deleted rows
	Slots      int64 // of the ledger
	Events     int64 // of the outbox
}

// Due reports whether a month of history, a day of the ledger, or a day of events that every consumer has read is old.
// It costs a process that cron starts in each slot one statement.
func Due(ctx context.Context, c Config) (due bool, err error) {
	l, err := ledger.New(ctx, c.DB, c.Schema.String(), c.Now)
	if err != nil {
		return false, err
	}
	err = pgsql.ReadTx(ctx, c.DB, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, pg.SlotIndexOnly.In(c.Schema)); err != nil {
			return err
		}
		return pg.One(ctx, tx, pg.PruneDue.In(c.Schema), []any{l.Now().Add(-c.Keep)}, &due)
	})
	return due, err
}

// errTime is the cause of the end of a Prune that has used up its time.
var errTime = errors.New("the time for retention is over")

// Prune drops what is old, in bounded transactions. After most it leaves the rest to the next call; 0: no bound. What
// it has dropped stays dropped.
func Prune(ctx context.Context, c Config, most time.Duration) (done Pruned, err error) {
	if most > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, most, errTime)
		defer cancel()
		defer func() {
			if errors.Is(context.Cause(bounded), errTime) {
				err = nil
			}
		}()
		ctx = bounded
	}
	l, err := ledger.New(ctx, c.DB, c.Schema.String(), c.Now)
	if err != nil {
		return done, err
	}
	client, err := jobs.NewClient(ctx, c.DB, jobs.Config{Schema: c.Schema.String()})
	if err != nil {
		return done, err
	}
	before := l.Now().Add(-c.Keep)
	if done.Slots, err = l.Prune(ctx, before); err != nil {
		return done, err
	}
	if done.Events, err = outbox.New(c.DB, c.Schema).Prune(ctx, before); err != nil {
		return done, err
	}
	dropped, err := admin.New(client).Prune(ctx, c.DB, before)
	done.Partitions = len(dropped)
	return done, err
}
