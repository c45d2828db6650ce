package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// pruned is how many events one transaction deletes.
const pruned = 10_000

// Prune deletes the events that were written before an instant and that every consumer has
// acknowledged, and returns how many there were. With the zero time their age is of no account, but
// without a consumer nothing is deleted then.
func (o *Outbox) Prune(ctx context.Context, before time.Time) (int64, error) {
	return o.prune(ctx, before, false)
}

// PruneUnread deletes the events that were written before an instant, read or not, and returns
// their number. A consumer that goes on from before the last one gets a *LostError.
func (o *Outbox) PruneUnread(ctx context.Context, before time.Time) (int64, error) {
	return o.prune(ctx, before, true)
}

func (o *Outbox) prune(ctx context.Context, before time.Time, unread bool) (total int64, err error) {
	limit := sql.NullTime{Time: before, Valid: unread || !before.IsZero()}
	for n := int64(1); n > 0; total += n {
		err := pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error {
			return tx.QueryRowContext(ctx, pg.EventPrune.In(o.schema), limit, pruned, unread).Scan(&n)
		})
		if err != nil {
			return total, fmt.Errorf("prune the outbox: %w", pg.ExplainMissing(err))
		}
	}
	if before.IsZero() {
		return total, nil
	}
	return total, o.pruneSent(ctx, before)
}

// pruneSent deletes the records of messages that were sent before an instant.
func (o *Outbox) pruneSent(ctx context.Context, before time.Time) error {
	for n := int64(1); n > 0; {
		err := pgsql.InTx(ctx, o.db, func(tx *sqlx.Tx) error {
			return tx.QueryRowContext(ctx, pg.EventSentPrune.In(o.schema), before, pruned).Scan(&n)
		})
		if err != nil {
			return fmt.Errorf("prune the records of messages: %w", pg.ExplainMissing(err))
		}
	}
	return nil
}

// LostError is returned to a reader for which there were events that are gone.
type LostError struct {
	// After is the position of the reader, and UpTo that of the last removed event. The reader has
	// lost the events after After, up to and including UpTo.
	After, UpTo Position
	// WrittenAt is when the event at UpTo was written, and RemovedAt when it was removed, by the
	// database's clock, in UTC.
	WrittenAt, RemovedAt time.Time
}

// Error says what was lost, and how to go on.
func (e *LostError) Error() string {
	return fmt.Sprintf("events after %s, up to %s (written at %s), were removed at %s before they were read from here: "+
		"take what is missing from a backup or from who gave rise to it, then go on after %[2]s",
		e.After, e.UpTo, spoken.Instant(e.WrittenAt), spoken.Instant(e.RemovedAt))
}

// Lost returns a *LostError if events after a position, even the zero Position, were removed.
// Otherwise it returns nil.
func (o *Outbox) Lost(ctx context.Context, after Position) error {
	err := pgsql.ReadTx(ctx, o.db, func(tx *sqlx.Tx) error { return o.lost(ctx, tx, after) })
	if err != nil {
		return fmt.Errorf("read the outbox: %w", pg.ExplainMissing(err))
	}
	return nil
}

func (o *Outbox) lost(ctx context.Context, tx *sqlx.Tx, after Position) error {
	lost := &LostError{After: after}
	err := tx.QueryRowContext(ctx, pg.EventLost.In(o.schema), fmt.Sprint(after.Mark), after.Number).
		Scan(&lost.UpTo.Mark, &lost.UpTo.Number, pg.UTC(&lost.WrittenAt), pg.UTC(&lost.RemovedAt))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	// What this server has not come to is from before a restore.
	if ended, _, err := o.bounds(ctx, tx); err != nil || lost.UpTo.Mark >= ended {
		return err
	}
	return lost
}
