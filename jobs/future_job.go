package jobs

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/slots/grid"
)

// FutureJob is a pending check. To enqueue one, set JobExec, EntityName, EntityKey and CheckAt; the rest is
// optional or filled in by the store.
type FutureJob struct {
	// JobExec is the registered name of the function that does the check: 1 to 200 bytes.
	JobExec string
	// EntityName and EntityKey name the checked entity, such as "orders" and "42". They have 1 to
	// 200 and 1 to 500 bytes.
	EntityName string
	EntityKey  string
	// CheckAt is the requested instant of the first check, which runs in the first slot at or after
	// it. An instant in the past means the next slot. See Client.FromNow. Zero in a row that was
	// read.
	CheckAt time.Time
	// Within spreads checks over a window: any slot from the first one at or after CheckAt, and
	// before CheckAt + Within, will do. Enqueue chooses the slot by the key, so a key always gets
	// the same one, and many keys are spread evenly. Whole seconds, up to 366 days. If the window
	// has no slot, and for 0, it is the first slot at or after CheckAt. Zero in a row that was
	// read.
	Within time.Duration
	// UnlessEndedWithin enqueues the check only if the last check of its key that ended as Done did
	// so longer ago than this. A key that waits is treated as OnConflict says. A request that is
	// recorded on a due row keeps the condition, so it is dropped if the row ends as Done. A row that
	// was pruned from history does not count. Whole seconds, up to 366 days. 0: no condition. Not for
	// anonymous rows. Zero in a row that was read.
	UnlessEndedWithin time.Duration
	// ItemKey distinguishes several checks of one job on one entity. Up to 500 bytes, usually
	// empty.
	ItemKey string
	// Anonymous rows have no natural key. They cannot be found or cancelled by key, and are not
	// unique, so their job must find out by itself what to do. They are about twice as fast to
	// write. ItemKey must be empty. A group job gets an anonymous row without a GroupKey in a call
	// with that row only.
	Anonymous bool
	// GroupKey names the rows that a group job gets in one call. Up to 500 bytes. Empty: the rows
	// of the entity.
	GroupKey string
	// Payload is any JSON value, nested up to 5,000 levels deep, or nil. See SetPayload and Payload.
	Payload json.RawMessage

	// ID is assigned by the database and stays the same until the row is in history. Zero: not
	// stored yet.
	ID int64
	// CheckCount is the number of earlier checks that returned without an error: 0 at the first.
	CheckCount int
	// ErrorCount is the number of consecutive errors since the last check without one.
	ErrorCount int
	// LastError is the last error's text, or empty.
	LastError string
	// TotalRuntime is the run time of all checks so far, counted like admin.HistoryRow.Duration.
	TotalRuntime time.Duration
	// FirstCheckAt is the slot of the first check, and NextCheckAt the slot that the row waits for,
	// in UTC. Both are zero in a job that is not stored yet.
	FirstCheckAt time.Time
	NextCheckAt  time.Time
	// EnqueuedAt and EnqueuedBy are the instant (UTC) and the database role that wrote the row.
	EnqueuedAt time.Time
	EnqueuedBy string
	// TraceParent is the W3C traceparent of the enqueue, for the job's function; see
	// SetTraceParent. Usually empty.
	TraceParent string

	// Slot is the slot being run (UTC), for the job's function. It is never "now".
	Slot time.Time
	// Lateness is the start of this check minus its slot: at least 0.
	Lateness time.Duration
	// CaughtUp is true if the slot was missed and catch-up runs it.
	CaughtUp bool
	// Instant is the instant (UTC) of the crontab that a periodic function is called for; see
	// Registry.Periodic. Zero for any other job.
	Instant time.Time
}

// checkAt returns the requested instant, as the database keeps it. For a row that was read it
// returns its slot.
func (j FutureJob) checkAt() time.Time {
	if j.CheckAt.IsZero() {
		return j.NextCheckAt
	}
	return grid.RoundMicro(j.CheckAt)
}

// Key returns the natural key.
func (j FutureJob) Key() Key {
	return Key{JobExec: j.JobExec, EntityName: j.EntityName, EntityKey: j.EntityKey, ItemKey: j.ItemKey}
}

// SetPayload stores v as JSON.
func (j *FutureJob) SetPayload(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode payload: %w", err)
	}
	j.Payload = text
	return nil
}

// ErrNoPayload is returned by Payload for a row that has none.
var ErrNoPayload = errors.New("the job has no payload")

// Payload decodes a job's payload into a T. It ignores unknown fields. It returns ErrNoPayload if
// the job has no payload.
func Payload[T any](j FutureJob) (T, error) {
	var v T
	if len(j.Payload) == 0 {
		return v, ErrNoPayload
	}
	if err := json.Unmarshal(j.Payload, &v); err != nil {
		return v, fmt.Errorf("decode payload of %s: %w", j.Key(), err)
	}
	return v, nil
}

// scanJob reads a row of the statement job_related.
func scanJob(row *sql.Rows, j *FutureJob) error { return ScanJob(row, j) }

// ScanJob reads a row that begins with the columns of a future job; more takes the columns after
// them. It is for the statements of this module.
func ScanJob(row *sql.Rows, j *FutureJob, more ...any) error {
	var spent int64
	dest := []any{
		&j.ID, &j.JobExec, &j.NextCheckAt, &j.EntityName, &j.EntityKey, &j.ItemKey, &j.Anonymous, &j.GroupKey,
		&j.FirstCheckAt, &j.CheckCount, &j.ErrorCount, &j.LastError, &spent, (*[]byte)(&j.Payload), &j.EnqueuedAt,
		&j.EnqueuedBy,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return fmt.Errorf("read future job: %w", err)
	}
	j.FirstCheckAt, j.NextCheckAt, j.EnqueuedAt = j.FirstCheckAt.UTC(), j.NextCheckAt.UTC(), j.EnqueuedAt.UTC()
	j.TotalRuntime = time.Duration(spent) * time.Microsecond
	return nil
}

// place returns the slot of a job to enqueue, at or after earliest.
func (j FutureJob) place(g grid.Grid, earliest time.Time) time.Time {
	return spread.Key(j.Key()).PickSlot(g, j.checkAt(), j.Within, earliest)
}

// Key is the natural key of a check: at most one row with it waits at any time.
type Key struct {
	JobExec    string `json:"job_exec"`
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"`
	ItemKey    string `json:"item_key"` // usually empty
}

// String returns the key for messages, such as "order.unshipped on orders 42".
func (k Key) String() string {
	s := fmt.Sprintf("%s on %s %s", k.JobExec, k.EntityName, k.EntityKey)
	if k.ItemKey != "" {
		s += " item " + k.ItemKey
	}
	return s
}
