package admin

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
)

// RetryFilter selects failed checks. Zero fields do not narrow, but a filter that only has a Limit is an error.
type RetryFilter struct {
	ID         int64 // of the one row in history
	JobExec    string
	EntityName string
	EntityKey  string
	ItemKey    *string   // nil: every item; "": rows without an item
	Since      time.Time // failed at or after
	All        bool      // the other fields but Limit may be zero: every failed check without an acknowledgement
	Limit      int       // the most checks of one call; default 1000
}

// IsZero reports whether the filter selects nothing, because no field but Limit is set.
func (f RetryFilter) IsZero() bool {
	f.Limit = 0
	return f == RetryFilter{}
}

// Retry moves up to Limit failed checks from history, with a clean error count, into the first slot at or after
// at. The zero time is the next slot. An instant beyond the horizon is a FieldError. If a
// key already waits, nothing changes for it: its failed row stays in history, and waiting counts it.
// A row that was acknowledged (see [Client.Ack]) is moved only by its EntityKey or its ID.
// Retry never moves rows of job "schedule". Store.Resume of package schedule gives a schedule a new
// row. If retried and waiting are Limit together, there may be more.
func (c *Client) Retry(
	ctx context.Context, db jobs.DB, f RetryFilter, at time.Time,
) (retried, waiting int64, err error) {
	if f.IsZero() {
		return 0, 0, errors.New("retry failed checks: the filter must name something, or be All")
	}
	if at.IsZero() {
		at = c.jobs.Now()
	}
	if err := c.jobs.ValidateDue(reserved.Caller{}, at); err != nil {
		return 0, 0, fmt.Errorf("retry failed checks: %w", err)
	}
	args := append(f.args(), at, c.jobs.Clock(reserved.Caller{}))
	if err := c.row(ctx, db, pg.HistoryRetry, args, &retried, &waiting); err != nil {
		return 0, 0, fmt.Errorf("retry failed checks: %w", err)
	}
	return retried, waiting, nil
}

// RetryCount says which checks Retry would find.
type RetryCount struct {
	Checks  int64
	Waiting int64 // of them; they would stay, because their key waits already
	// Digest tells these checks from as many others.
	Digest string
}

// PreviewRetry counts the checks that Retry would find, up to Limit of them.
func (c *Client) PreviewRetry(ctx context.Context, db jobs.DB, f RetryFilter) (found RetryCount, err error) {
	if f.IsZero() {
		return found, errors.New("count failed checks: the filter must name something, or be All")
	}
	if err := c.row(ctx, db, pg.BoardRetry, f.args(), &found.Checks, &found.Waiting, &found.Digest); err != nil {
		return RetryCount{}, fmt.Errorf("count failed checks: %w", err)
	}
	return found, nil
}

// args returns the parameters of statements that select failed checks.
func (f RetryFilter) args() []any {
	since, _ := span(f.Since, time.Time{})
	return []any{
		nullable(f.JobExec), nullable(f.EntityName), nullable(f.EntityKey), since, cmp.Or(f.Limit, 1000), f.ItemKey,
		sql.NullInt64{Int64: f.ID, Valid: f.ID != 0},
	}
}
