package jobs

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
)

// FutureJob is a row of the table future_job: a check that waits, as its function, Client.Related
// and package admin return it. An application enqueues a Request. Its JSON has durations in nanoseconds, and leaves out
// an instant that is zero and a payload that is nil.
type FutureJob struct {
	// ID is assigned by the database and stays the same until the row is in history.
	ID int64 `json:"id"`
	// JobExec is the name of the function that does the check.
	JobExec string `json:"job_exec"`
	// EntityName and EntityKey name the checked entity, such as "orders" and "42".
	EntityName string `json:"entity_name"`
	EntityKey  string `json:"entity_key"`
	// ItemKey distinguishes several checks of one job on one entity. Usually empty.
	ItemKey string `json:"item_key"`
	// Anonymous rows have no natural key; see Request.Anonymous.
	Anonymous bool `json:"anonymous"`
	// GroupKey names the rows that a group job gets in one call. Empty: the rows of the entity.
	GroupKey string `json:"group_key"`
	// Payload is any JSON value, or nil. See the function Payload.
	Payload json.RawMessage `json:"payload,omitzero"`

	// CheckCount is the number of earlier checks that returned without an error: 0 at the first.
	CheckCount int `json:"check_count"`
	// ErrorCount is the number of consecutive errors since the last check without one.
	ErrorCount int `json:"error_count"`
	// LastError is the last error's text, or empty.
	LastError string `json:"last_error"`
	// Spent is the run time of all checks so far, counted like admin.HistoryRow.Duration.
	Spent time.Duration `json:"spent_ns"`
	// FirstCheckAt is the slot of the first check, and NextCheckAt the slot that the row waits for,
	// in UTC.
	FirstCheckAt time.Time `json:"first_check_at,omitzero"`
	NextCheckAt  time.Time `json:"next_check_at,omitzero"`
	// EnqueuedAt and EnqueuedBy are the instant (UTC) and the database role that wrote the row.
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	EnqueuedBy string    `json:"enqueued_by"`
	// TraceParent is the W3C traceparent of the enqueue, for the job's function; see
	// SetTraceParent. Usually empty.
	TraceParent string `json:"traceparent"`

	// Slot is the slot being run (UTC), for the job's function. It is never "now".
	Slot time.Time `json:"slot,omitzero"`
	// Lateness is the start of this check minus its slot: at least 0.
	Lateness time.Duration `json:"lateness_ns"`
	// CaughtUp is true if catch-up runs the row because its slot was missed, or because the job was paused when a run
	// closed or left the slot.
	CaughtUp bool `json:"caught_up"`
	// Instant is the instant (UTC) of the crontab that a periodic function is called for; see
	// Registry.Periodic. Zero for any other job.
	Instant time.Time `json:"instant,omitzero"`
}

// After returns the instant that is wait after the slot of the check, for a function that asks for another check. It
// counts from the slot and not from now, so a check that runs late delays no later one.
func (j FutureJob) After(wait time.Duration) *time.Time { return new(j.Slot.Add(wait)) }

// Key returns the natural key.
func (j FutureJob) Key() Key {
	return Key{JobExec: j.JobExec, EntityName: j.EntityName, EntityKey: j.EntityKey, ItemKey: j.ItemKey}
}

// ErrNoPayload is returned by Payload for a row that has none.
var ErrNoPayload = errors.New("the row has no payload")

// Payload decodes a job's payload into a T. It ignores unknown fields. It returns ErrNoPayload if
// the row has no payload.
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
func scanJob(row *sql.Rows, j *FutureJob) error { return j.ReadRow(reserved.Caller{}, row) }

// ReadRow reads a row of a statement of prescient that begins with the columns of a future job; more
// takes the columns after them. It is for prescient's packages alone.
func (j *FutureJob) ReadRow(_ reserved.Caller, row *sql.Rows, more ...any) error {
	dest := []any{
		&j.ID, &j.JobExec, pg.UTC(&j.NextCheckAt), &j.EntityName, &j.EntityKey, &j.ItemKey, &j.Anonymous, &j.GroupKey,
		pg.UTC(&j.FirstCheckAt), &j.CheckCount, &j.ErrorCount, &j.LastError, pg.Micros(&j.Spent), (*[]byte)(&j.Payload),
		pg.UTC(&j.EnqueuedAt), &j.EnqueuedBy,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return fmt.Errorf("read future job: %w", err)
	}
	return nil
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
