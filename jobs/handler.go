package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"
)

// CheckFunc does one check. It returns when to look again, rounded up to a slot, or nil if the row
// is finished. The runner retries an error, a panic, a call of runtime.Goexit and a timeout in
// later slots; see Retry.
//
// ctx ends at the job's timeout, when the grace period of a stopped run is over, and when the runner
// loses the lease or the permit of the row. A check may run again after a crash, so its effects must
// be idempotent.
type CheckFunc func(ctx context.Context, job FutureJob) (next *time.Time, err error)

// TxCheckFunc is a CheckFunc that writes through a transaction. Its writes and the check's outcome
// commit together, once. It must not commit or roll back, also not by a statement: that is an
// error. An error rolls back all of its writes.
type TxCheckFunc func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (next *time.Time, err error)

// ResultFunc is a CheckFunc that returns a Result, so it can change the row's payload and enqueue
// further checks. Both are written together with the outcome of the check. An error in Result.Err
// has the effect of a returned error.
type ResultFunc func(ctx context.Context, job FutureJob) (Result, error)

// Result is a check's answer about one row: when to look again, or nil if the row is finished, or
// an error. In a batch the error belongs only to that row.
type Result struct {
	Next *time.Time
	Err  error
	// Payload replaces the row's payload, also after an error: for the next check, or in history if
	// the row ends. It is any JSON value. Nil keeps the payload.
	Payload json.RawMessage
	// Enqueue lists checks to enqueue in the transaction of the outcome. Nothing is enqueued if Err
	// is not nil, or if the row's owner has cancelled or moved the row meanwhile. A key that waits
	// already is kept; see Keep.
	Enqueue []FutureJob
}

// validate returns the errors of the payload and the checks of a result.
func (r *Result) validate() error {
	err := validatePayload(r.Payload, math.MaxInt)
	for i, job := range r.Enqueue {
		if bad := job.validate(DefaultMaxPayload); bad != nil {
			err = errors.Join(err, fmt.Errorf("check %d that it enqueues: %w", i+1, bad))
		}
	}
	return err
}

// BatchFunc does the checks of up to a page of rows of its job in one call, so that one query can
// look up a thousand orders. It returns a result for each row, in their order. If it returns an
// error, or any other number of results, every row has failed. After a panic, a timeout,
// runtime.Goexit, an error of PostgreSQL about a value, or an error that wraps ErrDivide, the runner
// calls it again with each half of the rows. The rules of CheckFunc hold for the batch as a whole:
// all rows of a call have one lease.
type BatchFunc func(ctx context.Context, batch []FutureJob) ([]Result, error)

// TxBatchFunc is a BatchFunc that writes through a transaction. Its writes and the outcomes of all
// its rows commit together, once. The error of one row does not undo the writes for it; an error of
// the whole call does.
type TxBatchFunc func(ctx context.Context, tx *sqlx.Tx, batch []FutureJob) ([]Result, error)

// handler calls a job's function, for one row or for many. Exactly one of both is set. tx is nil
// unless inTx.
type handler struct {
	one  func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error)
	many TxBatchFunc
	inTx bool
}

func (h handler) isNil() bool { return h.one == nil && h.many == nil }

func (fn CheckFunc) handler() (h handler) {
	if fn != nil {
		h.one = func(ctx context.Context, _ *sqlx.Tx, job FutureJob) (result Result, err error) {
			result.Next, err = fn(ctx, job)
			return result, err
		}
	}
	return h
}

func (fn TxCheckFunc) handler() (h handler) {
	if fn != nil {
		h.inTx = true
		h.one = func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (result Result, err error) {
			result.Next, err = fn(ctx, tx, job)
			return result, err
		}
	}
	return h
}

func (fn ResultFunc) handler() (h handler) {
	if fn != nil {
		h.one = func(ctx context.Context, _ *sqlx.Tx, job FutureJob) (Result, error) { return fn(ctx, job) }
	}
	return h
}

func (fn BatchFunc) handler() (h handler) {
	if fn != nil {
		h.many = func(ctx context.Context, _ *sqlx.Tx, batch []FutureJob) ([]Result, error) { return fn(ctx, batch) }
	}
	return h
}

func (fn TxBatchFunc) handler() handler { return handler{many: fn, inTx: true} }
