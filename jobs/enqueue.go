package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq/pqerror"

	pgsql "github.com/prescient-go/prescient/sql"
)

// ErrExists is returned under FailOnConflict for a key that waits already. Like every unique violation it has
// aborted the transaction.
var ErrExists = errors.New("a check with this key is waiting already")

// Action is what Enqueue did.
type Action string

// The actions.
const (
	Inserted      Action = "inserted"
	Kept          Action = "kept"
	ReplacedOther Action = "replaced"
	PushedBack    Action = "pushed_back"
	// Recorded means that the waiting row is due. See Conflict.
	Recorded Action = "recorded"
)

// Enqueued is the row that now waits. With Recorded it is the row that is due, in the slot that has begun.
type Enqueued struct {
	ID     int64
	Slot   time.Time // UTC
	Action Action
}

// Counts is what EnqueueMany did.
type Counts struct {
	Inserted   int64
	Kept       int64
	Replaced   int64
	PushedBack int64
	Recorded   int64
}

// Conflict is an option of Enqueue, EnqueueMany and EnqueueAll. It says what happens to a key that waits already. Defaults
// to Keep. If a call is given several, the last one counts. Anonymous rows never conflict.
//
// A row whose slot has begun is due, and no enqueue moves it, so a key is checked however often it is asked for. But
// its check may have begun already, and may see nothing of this transaction. So Keep, Replace and PushBack record a
// request on the row, and return Recorded. The transaction that records the outcome of the check honours the request:
//
//   - If the row has ended, a new row waits for the instant that was asked for, with the payload that was given.
//   - If the row waits for a later slot, Keep drops the request, Replace puts the new row in its place, and PushBack
//     moves the row.
//
// A row has at most one request. A further request treats it as an enqueue treats a waiting row: Keep leaves it,
// Replace takes its place, and PushBack moves its instant later. Cancel ends the row and its request. FailOnConflict
// records nothing and returns ErrExists.
//
// The call decides whether the slot has begun, so a long transaction should enqueue late.
type Conflict struct {
	policy string
	cap    time.Duration
}

var (
	// Keep leaves the waiting row as it is. It is the default, and the zero Conflict.
	Keep = Conflict{policy: "keep"}
	// Replace ends the waiting row as Replaced and puts the new one in its place.
	Replace = Conflict{policy: "replace"}
	// FailOnConflict returns ErrExists.
	FailOnConflict = Conflict{policy: "error"}
)

// PushBack moves the waiting row to the new row's slot when that is later, but no later than maxDelay after the slot
// of its first check, where it is checked; 0 is no limit. One that lands in the same slot writes nothing.
func PushBack(maxDelay time.Duration) Conflict {
	return Conflict{policy: "push_back", cap: maxDelay}
}

// lastOf returns the policy of a call: the last one that it was given.
func lastOf(on []Conflict) Conflict {
	if len(on) == 0 {
		return Keep
	}
	return on[len(on)-1]
}

func (c Conflict) validate() error {
	if c.cap < 0 {
		return &FieldError{"max_delay", "must not be negative"}
	}
	return nil
}

func (c Conflict) args() (policy string, capMicros any) {
	switch {
	case c.policy == "":
		return Keep.policy, nil
	case c.cap > 0:
		return c.policy, c.cap.Microseconds()
	}
	return c.policy, nil
}

// Enqueue asks for one check. A check of the same key that waits already stays as it is, unless on says otherwise; see
// Conflict. A bad job is refused with a FieldError for each field, and nothing is written. A trigger on future_job that
// suppresses the row or changes its key is an error of SQLSTATE 27000.
func (c *Client) Enqueue(ctx context.Context, db DB, job FutureJob, on ...Conflict) (Enqueued, error) {
	return c.enqueue(ctx, db, job, lastOf(on))
}

func (c *Client) enqueue(ctx context.Context, db DB, job FutureJob, on Conflict) (Enqueued, error) {
	if err := errors.Join(c.validate(job), on.validate()); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %s: %w", job.Key(), err)
	}
	var e Enqueued
	policy, capMicros := on.args()
	args := []any{
		job.JobExec, job.EntityName, job.EntityKey, job.checkAt(), nullable(string(job.Payload)), job.item(),
		nullable(job.GroupKey), policy, capMicros, c.clock(), job.within(),
	}
	err := c.row(ctx, db, pgsql.Enqueue, args, &e.ID, &e.Slot, &e.Action)
	if err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %s: %w", job.Key(), on.explain(err))
	}
	e.Slot = e.Slot.UTC()
	return e, nil
}

func nullable(s string) sql.NullString {
	return sql.NullString{String: s, Valid: s != ""}
}

// explain tells that the key of a row that is to be the only one waits already.
func (c Conflict) explain(err error) error {
	if c.policy == FailOnConflict.policy && pgsql.HasState(err, pqerror.UniqueViolation) {
		return fmt.Errorf("%w (%w)", ErrExists, err)
	}
	return err
}
