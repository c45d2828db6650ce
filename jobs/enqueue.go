package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
)

// ErrExists is returned under Reject for a key that waits already. Like every unique violation it
// has aborted the transaction, except after EnqueueAll and for a client with Config.Around: their
// savepoint leaves the transaction as it was before the call.
var ErrExists = errors.New("a check with this key is waiting already")

// EnqueueAction says what Enqueue did.
type EnqueueAction string

// The actions.
const (
	// ActionInserted means that no row of the key waited, and that a new row waits.
	ActionInserted EnqueueAction = "inserted"
	// ActionKept means that a row of the key waited already and stays unchanged. See Keep.
	ActionKept EnqueueAction = "kept"
	// ActionReplaced means that the row that waited has ended, and that a new row waits. See Replace.
	ActionReplaced EnqueueAction = "replaced"
	// ActionPushedBack means that PushBack has treated the row that waits. Its slot may be the same as before.
	ActionPushedBack EnqueueAction = "pushed_back"
	// ActionRecorded means that the waiting row is due. See OnConflict.
	ActionRecorded EnqueueAction = "recorded"
	// ActionRecent means that nothing was enqueued. See Request.UnlessEndedWithin.
	ActionRecent EnqueueAction = "recent"
)

// EnqueueResult is the row that now waits. With ActionRecorded it is the row that is due, in its
// begun slot. With ActionRecent it is the row that ended last as OutcomeDone, in the slot that it ended in.
type EnqueueResult struct {
	ID     int64
	Slot   time.Time // UTC
	Action EnqueueAction
}

// EnqueueCounts counts what EnqueueMany did.
type EnqueueCounts struct {
	Inserted   int64
	Kept       int64
	Replaced   int64
	PushedBack int64
	Recorded   int64
	Recent     int64
}

// OnConflict is an option of Enqueue, EnqueueMany and EnqueueAll. It chooses what happens to a key
// that waits already. Defaults to Keep. If a call is given several, the last one counts. Anonymous
// rows never conflict.
//
// A row whose slot has begun is due, and no enqueue moves it, so that frequent requests never delay
// its check. But the check may have begun already, and may see nothing of this transaction. So
// Keep, Replace and PushBack record a request on the row, and return ActionRecorded. The
// transaction that records the outcome of the check honours the request:
//
//   - If the row has ended, a new row waits for the requested instant, with the given payload.
//   - If the row waits for a later slot, Keep drops the request, Replace puts the new row in its
//     place, and PushBack moves the row.
//
// A row has at most one request. A further request treats it as an enqueue treats a waiting row:
// Keep leaves it, Replace takes its place, and PushBack moves its instant later. Cancel ends the
// row and its request. Reject records nothing and returns ErrExists.
//
// The call decides whether the slot has begun, not the commit. If Keep finds a row that waits, and the transaction
// stays open until after its slot has begun, the check may run without what the transaction wrote, and no other check
// follows. So a long transaction should enqueue late, or use Replace: no run can end the new row before the commit.
type OnConflict interface {
	validate() error
	args() (policy string, maxMicros any)
}

// policy is an OnConflict without a parameter.
type policy string

const (
	// Keep leaves the waiting row unchanged. It is the default.
	Keep policy = "keep"
	// Replace ends the waiting row as OutcomeReplaced and puts the new one in its place.
	Replace policy = "replace"
	// Reject returns ErrExists.
	Reject policy = "error"
)

func (policy) validate() error       { return nil }
func (p policy) args() (string, any) { return string(p), nil }

// PushBack moves the waiting row to the new row's slot if that is later. It moves it at most to
// maxWait after the slot of the first check, and the row is then checked there. 0 is no limit. A
// move within the same slot writes nothing.
func PushBack(maxWait time.Duration) OnConflict { return pushBack(maxWait) }

type pushBack time.Duration

func (p pushBack) validate() error {
	if p < 0 {
		return &FieldError{"max_wait", "must not be negative"}
	}
	if problem := spoken.Unitless(time.Duration(p)); problem != "" {
		return &FieldError{"max_wait", problem}
	}
	return nil
}

func (p pushBack) args() (string, any) {
	if p > 0 {
		return "push_back", time.Duration(p).Microseconds()
	}
	return "push_back", nil
}

// lastOf returns the policy of a call, which is the last one given.
func lastOf(on []OnConflict) OnConflict {
	if len(on) == 0 || on[len(on)-1] == nil {
		return Keep
	}
	return on[len(on)-1]
}

// Enqueue enqueues one check, which exists if and only if tx commits; EnqueueNow needs no transaction. If a check of
// the same key waits already, it stays unchanged, unless on chooses otherwise; see OnConflict. A bad request returns a
// FieldError for each field, and nothing is written. A trigger on future_job that suppresses the row or changes its
// key is an error of SQLSTATE 27000.
func (c *Client) Enqueue(ctx context.Context, tx Tx, request Request, on ...OnConflict) (EnqueueResult, error) {
	return c.enqueue(ctx, tx, request, lastOf(on))
}

// EnqueueNow is Enqueue in a transaction of its own, which it commits before it returns. Use it if no transaction of
// the application creates the need for the check. It uses the pool that NewClient got.
func (c *Client) EnqueueNow(ctx context.Context, request Request, on ...OnConflict) (EnqueueResult, error) {
	return c.enqueue(ctx, OwnTx(c.pool), request, lastOf(on))
}

func (c *Client) enqueue(ctx context.Context, db DB, request Request, on OnConflict) (EnqueueResult, error) {
	if err := errors.Join(c.validate(request), on.validate()); err != nil {
		return EnqueueResult{}, fmt.Errorf("enqueue %s: %w", request.Key(), err)
	}
	var e EnqueueResult
	one := []Request{request}
	err := c.through(ctx, db, one, c.validateAll, func(ctx context.Context, db DB, list []Request) (err error) {
		e, err = c.write(ctx, db, list[0], on)
		return err
	})
	if err != nil {
		return EnqueueResult{}, fmt.Errorf("enqueue %s: %w", request.Key(), err)
	}
	return e, nil
}

// write enqueues a request that has been validated.
func (c *Client) write(ctx context.Context, db DB, r Request, on OnConflict) (e EnqueueResult, err error) {
	policy, maxMicros := on.args()
	args := []any{
		r.JobExec, r.EntityName, r.EntityKey, r.checkAt(), nullable(string(r.Payload)), r.item(),
		nullable(r.GroupKey), policy, maxMicros, c.clock(), r.within(), seconds(r.UnlessEndedWithin),
	}
	err = c.row(ctx, db, pg.Enqueue, args, &e.ID, pg.UTC(&e.Slot), &e.Action)
	return e, explain(on, err)
}

func nullable(s string) sql.NullString {
	return sql.NullString{String: s, Valid: s != ""}
}

// explain turns the unique violation under Reject into ErrExists.
func explain(on OnConflict, err error) error {
	if on == Reject && pg.HasState(err, pqerror.UniqueViolation) {
		return fmt.Errorf("%w (%w)", ErrExists, err)
	}
	return err
}
