package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/spoken"
)

// CheckFunc does one check. It returns when to look again, rounded up to a slot, or nil when the row is finished.
// An error, a panic, a call of runtime.Goexit and a timeout are tried again in later slots; see Retry.
//
// ctx ends at the job's timeout, when the run is stopped, and when the runner loses its lease. A check may run again
// after a crash, so its effects must bear being repeated.
type CheckFunc func(ctx context.Context, job FutureJob) (next *time.Time, err error)

// TxCheckFunc is a CheckFunc that writes through a transaction: what it writes and the check's outcome commit
// together, once. To commit or roll back itself, by a statement too, is an error; with an error everything it wrote is rolled back.
type TxCheckFunc func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (next *time.Time, err error)

// ResultFunc is a CheckFunc that returns a Result, so it can change the row's payload and enqueue further checks. Both
// are written together with the outcome of the check. An error has the same effect in Result.Err.
type ResultFunc func(ctx context.Context, job FutureJob) (Result, error)

// Result is what a check returns about one row: when to look again, or nil if the row is finished, or an error. In a
// batch the error belongs to that row alone.
type Result struct {
	Next *time.Time
	Err  error
	// Payload, unless it is nil, replaces the row's payload where the row goes on, to its next check or after an
	// error: what the next check has to know. It is any JSON value.
	Payload json.RawMessage
	// Enqueue are checks that are asked for with the outcome: both are written in one transaction, or neither, and neither
	// where the row's owner has cancelled or moved it meanwhile. A key that waits already is kept; see Keep. Where Err is
	// not nil nothing is asked for.
	Enqueue []FutureJob
}

// validate returns what is wrong with what a result wants to be written.
func (r *Result) validate() error {
	err := validatePayload(r.Payload, math.MaxInt)
	for i, job := range r.Enqueue {
		if bad := job.validate(DefaultMaxPayload); bad != nil {
			err = errors.Join(err, fmt.Errorf("check %d that it enqueues: %w", i+1, bad))
		}
	}
	return err
}

// BatchFunc does the checks of up to a page of rows of its job at once, so that a thousand orders are looked up by one
// query. It returns a result for each row, in their order. With an error, and for any other number of results, every
// row has failed. After a panic, a timeout, runtime.Goexit, or an error that wraps ErrDivide, the runner calls it again
// with each half of the rows. The rules of CheckFunc hold for the batch as a whole; of lost leases, only rows are
// dropped whose lease it was, and ctx ends when none is left.
type BatchFunc func(ctx context.Context, batch []FutureJob) ([]Result, error)

// TxBatchFunc is a BatchFunc that writes through a transaction: what it writes and the outcomes of all its rows
// commit together, once. The error of one row does not undo what was written for it; an error of the whole does.
type TxBatchFunc func(ctx context.Context, tx *sqlx.Tx, batch []FutureJob) ([]Result, error)

// handler is how a job's function is called: for one row, or for many. One of both is set. tx is nil unless inTx.
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

// call calls the job's function inside its middleware, and validates what it returns; see engine.Definition.
func (job registered) call(ctx context.Context, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
	results, err := job.within(ctx, job.around, tx, rows)
	if err == nil && len(results) != len(rows) {
		return nil, fmt.Errorf("the batch function returned %s for %s",
			spoken.Count(len(results), "result", "results"), spoken.Count(len(rows), "row", "rows"))
	}
	for i := range results {
		results[i].Err = sound(results[i].Err)
		if err := results[i].validate(); err != nil {
			results[i] = Result{Err: errors.Join(results[i].Err, err)}
		}
	}
	return results, sound(err)
}

// sound returns err, or another error in its place if a method of err panics. The methods of a nil pointer that became
// an error may do so: errors.Is would then panic in the runner, outside the function that returned the error.
func sound(err error) (safe error) {
	defer func() {
		if recover() != nil {
			safe = fmt.Errorf("an error of type %T that has no text: one of its methods panicked", err)
		}
	}()
	if err != nil && !errors.Is(err, errNone) {
		_ = err.Error()
	}
	return err
}

// errNone is an error that no function returns. errors.Is with it calls the methods of the whole chain of an error.
var errNone = errors.New("no error")

// within calls the function inside what is left of its middleware.
func (job registered) within(ctx context.Context, around []Middleware, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
	switch {
	case len(around) > 0:
		call := Call{JobExec: job.Name, Group: job.Group, Rows: slices.Clone(rows)}
		return around[0](ctx, call, func(ctx context.Context) ([]Result, error) {
			return job.within(ctx, around[1:], tx, rows)
		})
	case job.handler.many != nil:
		return job.handler.many(ctx, tx, rows)
	}
	result, err := job.handler.one(ctx, tx, rows[0])
	return []Result{result}, err
}
