package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/slots/grid"
)

// Cancel ends the waiting check of a key as OutcomeCancelled, with the request that an enqueue may have
// recorded on it. It returns whether such a check waited. A check that runs at that moment, or
// begins within seconds, runs on, but its result is not recorded. A check with a transaction does
// not begin.
func (c *Client) Cancel(ctx context.Context, tx Tx, key Key) (bool, error) {
	var found bool
	if err := key.validate(); err != nil {
		return false, fmt.Errorf("cancel %s: %w", key, err)
	}
	args := []any{key.JobExec, key.EntityName, key.EntityKey, key.ItemKey}
	if err := c.row(ctx, tx, pg.Cancel, args, &found); err != nil {
		return false, fmt.Errorf("cancel %s: %w", key, err)
	}
	return found, nil
}

// CancelEntity ends every keyed check of an entity as OutcomeCancelled, except those of schedules and rules. It
// returns their number.
func (c *Client) CancelEntity(ctx context.Context, tx Tx, entityName, entityKey string) (int64, error) {
	var n int64
	if err := errors.Join(checkEntityName(entityName), checkEntityKey(entityKey)); err != nil {
		return 0, fmt.Errorf("cancel the checks of %s %s: %w", entityName, entityKey, err)
	}
	if err := c.row(ctx, tx, pg.CancelEntity, []any{entityName, entityKey}, &n); err != nil {
		return 0, fmt.Errorf("cancel the checks of %s %s: %w", entityName, entityKey, err)
	}
	return n, nil
}

// Reschedule moves the waiting check of a key to the first slot at or after at, earlier or later.
// It returns the slot (UTC), and whether such a check waits. It also moves a row that is due. A
// request that an enqueue has recorded on the row is then for this instant; see OnConflict. A check
// that runs is treated as with Cancel.
func (c *Client) Reschedule(ctx context.Context, tx Tx, key Key, at time.Time) (slot time.Time, found bool, err error) {
	if err := c.validateChange(key, at); err != nil {
		return time.Time{}, false, fmt.Errorf("reschedule %s: %w", key, err)
	}
	args := []any{key.JobExec, key.EntityName, key.EntityKey, grid.RoundMicro(at), key.ItemKey, c.clock()}
	return c.slot(ctx, tx, "reschedule", key, pg.Reschedule, args)
}

// PushBack moves the waiting check of a key later, never earlier. For example: "it happened again,
// look an hour from now, but no later than a day after the first". maxWait counts from the slot of
// the first check; 0 is no limit. It returns the slot (UTC) that the check waits for, and whether
// such a check waits. A move within the same slot writes nothing. On a row whose slot has begun the
// call is recorded as a request with the row's own payload; see OnConflict.
func (c *Client) PushBack(
	ctx context.Context, tx Tx, key Key, at time.Time, maxWait time.Duration,
) (slot time.Time, found bool, err error) {
	on := PushBack(maxWait)
	if err := errors.Join(c.validateChange(key, at), on.validate()); err != nil {
		return time.Time{}, false, fmt.Errorf("push back %s: %w", key, err)
	}
	_, maxMicros := on.args()
	args := []any{key.JobExec, key.EntityName, key.EntityKey, grid.RoundMicro(at), maxMicros, key.ItemKey, c.clock()}
	return c.slot(ctx, tx, "push back", key, pg.PushBack, args)
}

func (c *Client) validateChange(key Key, at time.Time) error {
	if err := key.validate(); err != nil {
		return err
	}
	return c.validateDue(at)
}

// ValidateDue returns a FieldError for an instant that no check can be moved to: the zero time, and
// an instant beyond the horizon.
func (c *Client) ValidateDue(_ reserved.Caller, at time.Time) error { return c.validateDue(at) }

func (c *Client) validateDue(at time.Time) error {
	if !at.IsZero() {
		at = c.Grid().Ceil(at)
	}
	return errors.Join(validateTime(at, 0), c.validateHorizon(at, 0))
}

func (c *Client) slot(
	ctx context.Context, db DB, verb string, key Key, stmt pg.Statement, args []any,
) (time.Time, bool, error) {
	var slot sql.NullTime
	if err := c.row(ctx, db, stmt, args, &slot); err != nil {
		return time.Time{}, false, fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return slot.Time.UTC(), slot.Valid, nil
}
