package jobs

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/slots/grid"
)

// Request is a check to enqueue. Set JobExec, EntityName, EntityKey and CheckAt; the rest is
// optional. The row that it becomes is a FutureJob.
type Request struct {
	// JobExec is the registered name of the function that does the check: 1 to 200 bytes.
	JobExec string
	// EntityName and EntityKey name the checked entity, such as "orders" and "42". They have 1 to
	// 200 and 1 to 500 bytes.
	EntityName string
	EntityKey  string
	// CheckAt is the instant of the first check, which runs in the first slot at or after it. An
	// instant in the past means the next slot. See Client.FromNow.
	CheckAt time.Time
	// Within spreads checks over a window: any slot from the first one at or after CheckAt, and
	// before CheckAt + Within, will do. Enqueue chooses the slot by the key, so a key always gets
	// the same one, and many keys are spread evenly. Whole seconds, up to 366 days. If the window
	// has no slot, and for 0, it is the first slot at or after CheckAt.
	Within time.Duration
	// UnlessEndedWithin enqueues the check only if the last check of its key that ended as OutcomeDone did
	// so longer ago than this. A key that waits is treated as OnConflict says. A request that is
	// recorded on a due row keeps the condition, so it is dropped if the row ends as OutcomeDone. A row that
	// was pruned from history does not count. Whole seconds, up to 366 days. 0: no condition. Not for
	// anonymous rows. In a transaction above read committed it is an error (SQLSTATE 22023), because a
	// row that ends after its snapshot was taken is not in it.
	UnlessEndedWithin time.Duration
	// ItemKey distinguishes several checks of one job on one entity. Up to 500 bytes, usually
	// empty.
	ItemKey string
	// Anonymous rows have no natural key. They cannot be found or cancelled by key, and are not
	// unique, so their job must find out by itself what to do. In bulk they are written faster, because
	// they have no index of the key. ItemKey must be empty. A group job gets an anonymous row without a GroupKey in a call
	// with that row only.
	Anonymous bool
	// GroupKey names the rows that a group job gets in one call. Up to 500 bytes. Empty: the rows
	// of the entity.
	GroupKey string
	// Payload is any JSON value, nested up to 5,000 levels deep, or nil. See SetPayload.
	Payload json.RawMessage
}

// Key returns the natural key.
func (r Request) Key() Key {
	return Key{JobExec: r.JobExec, EntityName: r.EntityName, EntityKey: r.EntityKey, ItemKey: r.ItemKey}
}

// SetPayload stores v as JSON. The check reads it with Payload.
func (r *Request) SetPayload(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode payload: %w", err)
	}
	r.Payload = text
	return nil
}

// checkAt returns the requested instant, as the database keeps it.
func (r Request) checkAt() time.Time {
	if r.CheckAt.IsZero() {
		return r.CheckAt
	}
	return grid.RoundMicro(r.CheckAt)
}

// slot returns the slot of a request, at or after earliest.
func (r Request) slot(g grid.Grid, earliest time.Time) time.Time {
	return spread.Key(r.Key()).PickSlot(g, r.checkAt(), r.Within, earliest)
}

// size returns the bytes of text of a request.
func (r Request) size() int {
	return len(r.JobExec) + len(r.EntityName) + len(r.EntityKey) + len(r.ItemKey) + len(r.GroupKey) + len(r.Payload)
}

// within is the window in seconds.
func (r Request) within() sql.NullInt64 { return seconds(r.Within) }

func (r Request) conditional() bool { return r.UnlessEndedWithin != 0 }

func (r Request) item() sql.NullString {
	return sql.NullString{String: r.ItemKey, Valid: !r.Anonymous}
}

func seconds(d time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(d / time.Second), Valid: d != 0}
}
