package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// CheckFunc does one check; see Row. It returns when to check again, rounded up to a slot, or nil if
// the row is finished. The runner retries an error, a panic, a call of runtime.Goexit and a timeout
// in later slots; see Retry.
//
// ctx ends at the job's timeout, when the grace period of a stopped run is over, and when the runner
// loses the lease or the permit of the row. A check may run again after a crash, so its effects must
// be idempotent.
type CheckFunc func(ctx context.Context, job FutureJob) (next *time.Time, err error)

// TxCheckFunc is a CheckFunc that writes through a transaction; see InTx. Its writes and the check's
// outcome commit together, once. It must not commit or roll back, also not by a statement: that is
// an error. An error rolls back all of its writes.
type TxCheckFunc func(ctx context.Context, tx *sqlx.Tx, job FutureJob) (next *time.Time, err error)

// Result is a check's answer about one row: when to check again, or nil if the row is finished, or
// an error. In a batch the error belongs only to that row.
type Result struct {
	Next *time.Time
	Err  error
	// Payload replaces the row's payload, also after an error: for the next check, or in history if
	// the row ends. It is any JSON value. Nil keeps the payload, as does an error that rolls back the
	// transaction of an InTx.
	Payload json.RawMessage
	// Enqueue lists checks to enqueue in the transaction of the outcome. Nothing is enqueued if Err
	// is not nil, or if the row's owner has cancelled or moved the row meanwhile. A key that waits
	// already is kept; see Keep. The actor of such a check is "check of " and the name of the job,
	// also if the function has called SetActor. A payload has at most the 1048576 bytes of the
	// database, because no Config.MaxPayload applies here.
	Enqueue []Request
}

// validate returns the errors of the payload and the checks of a result.
func (r *Result) validate() error {
	err := validatePayload(r.Payload, math.MaxInt)
	for i, job := range r.Enqueue {
		if bad := job.Validate(); bad != nil {
			err = errors.Join(err, fmt.Errorf("check %d that it enqueues: %w", i+1, bad))
		}
	}
	return err
}

// checked returns the result, or one with an error alone if it asks for what no database would take.
func (r *Result) checked() Result {
	err := sound(r.Err)
	if wrong := r.validate(); wrong != nil {
		return Result{Err: errors.Join(err, wrong)}
	}
	result := *r
	result.Err = err
	return result
}

// BatchFunc does the checks of up to a page of rows of its job in one call; see Batch. So one query
// can look up a thousand orders. It returns a result for each row, in their order. If it returns an
// error, or any other number of results, every row has failed. After a panic, a timeout,
// runtime.Goexit, an error of PostgreSQL about a value, or an error that wraps ErrDivide, the runner
// calls it again with each half of the rows. The rules of CheckFunc hold for the batch as a whole:
// all rows of a call have one lease.
type BatchFunc func(ctx context.Context, batch []FutureJob) ([]Result, error)

// TxBatchFunc is a BatchFunc that writes through a transaction; see BatchInTx. Its writes and the
// outcomes of all its rows commit together, once. The error of one row does not undo the writes for
// it; an error of the whole call does.
type TxBatchFunc func(ctx context.Context, tx *sqlx.Tx, batch []FutureJob) ([]Result, error)

// Answer is the type of the first result of a function of a single row, which returns an error as
// well: when to check again, or a Result, which can also change the payload and enqueue further
// checks. An error in Result.Err has the effect of a returned error.
type Answer interface{ *time.Time | Result }

// Handler is a function together with its shape: how many rows a call gets, and whether it gets a
// transaction. Row, InTx, Each, Batch, BatchInTx and Group make one. J is FutureJob, or a *Job for
// a Kind.
type Handler[J any] struct {
	one    func(ctx context.Context, tx *sqlx.Tx, job J) (Result, error)
	many   func(ctx context.Context, tx *sqlx.Tx, batch []J) ([]Result, error)
	inTx   bool
	each   bool    // one is called for many rows in one transaction
	size   int     // the default of BatchSize
	family *family // of Group
	bad    error   // a mistake that registering reports
}

// family is the function that checks groups of rows.
type family struct {
	name  string
	kinds sync.Map // by the name of the job, the Kind that decodes its rows; a Kind has one type in a family
}

// Row makes a handler of a function that gets one row. See CheckFunc for its rules.
func Row[J any, A Answer](fn func(ctx context.Context, job J) (A, error)) Handler[J] {
	if fn == nil {
		return Handler[J]{}
	}
	return Handler[J]{one: func(ctx context.Context, _ *sqlx.Tx, job J) (Result, error) {
		return answered(fn(ctx, job))
	}}
}

// InTx makes a handler of a function that gets one row and writes through a transaction of its own.
// See TxCheckFunc for its rules. Tx is *sqlx.Tx, *sql.Tx or an interface that *sqlx.Tx satisfies,
// such as Tx; package pgxjobs has an InTx for pgx.
func InTx[J any, Tx DB, A Answer](fn func(ctx context.Context, tx Tx, job J) (A, error)) Handler[J] {
	h := Handler[J]{inTx: true, bad: checkTx[Tx]()}
	if fn != nil {
		h.one = func(ctx context.Context, tx *sqlx.Tx, job J) (Result, error) {
			return answered(fn(ctx, asTx[Tx](tx), job))
		}
	}
	return h
}

// Batch makes a handler of a function that gets up to a page of rows of its job at once. See
// BatchFunc for its rules.
func Batch[J any](fn func(ctx context.Context, batch []J) ([]Result, error)) Handler[J] {
	if fn == nil {
		return Handler[J]{}
	}
	return Handler[J]{many: func(ctx context.Context, _ *sqlx.Tx, batch []J) ([]Result, error) { return fn(ctx, batch) }}
}

// BatchInTx makes a handler of a function that gets up to a page of rows of its job at once, and
// writes through a transaction. See TxBatchFunc for its rules, and InTx for Tx.
func BatchInTx[J any, Tx DB](fn func(ctx context.Context, tx Tx, batch []J) ([]Result, error)) Handler[J] {
	h := Handler[J]{inTx: true, bad: checkTx[Tx]()}
	if fn != nil {
		h.many = func(ctx context.Context, tx *sqlx.Tx, batch []J) ([]Result, error) {
			return fn(ctx, asTx[Tx](tx), batch)
		}
	}
	return h
}

// Group makes a handler for a family of jobs that are checked by group:
//
//	mails := jobs.Group("mails", sendMails)
//	registry.Register("mail.order", mails)
//	registry.Register("mail.invoice", mails)
//
// One call of fn gets all due rows of one group_key, of any of the jobs. It runs in a transaction
// that holds the group's advisory lock, which prescient.lock_group also takes. A row without a
// group_key is in the group of its entity. One function has to check all jobs of a family, so
// another Group of the same family cannot be registered.
//
// The options of its own job decide about each row, such as MaxChecks, Retry and Deadline. Those of the call are the
// options of one of the jobs: give all jobs of a family the same Timeout, Concurrency and WithPool.
//
// A call gets at most 16 MiB of rows, which is 33,000 rows without payloads. The other rows of a
// larger group come in further calls, one after the other. An error that fn returns, a panic and a
// timeout belong to all rows of the call. See TxBatchFunc for the other rules, and InTx for Tx.
func Group[J any, Tx DB](name string, fn func(ctx context.Context, tx Tx, batch []J) ([]Result, error)) Handler[J] {
	h := BatchInTx(fn)
	h.family = &family{name: name}
	if name == "" {
		h.bad = errors.New("the family of a group needs a name")
	}
	return h
}

// answered returns the answer of a function as a Result.
func answered[A Answer](answer A, err error) (Result, error) {
	if result, ok := any(answer).(Result); ok {
		return result, err
	}
	next, _ := any(answer).(*time.Time)
	return Result{Next: next}, err
}

// asTx returns a transaction as the type that a function takes.
func asTx[Tx DB](tx *sqlx.Tx) Tx {
	if as, ok := any(tx).(Tx); ok {
		return as
	}
	return any(tx.Tx).(Tx) // see checkTx
}

// checkTx returns an error for a type that no transaction of a run is.
func checkTx[Tx DB]() error {
	_, isSQLX := any((*sqlx.Tx)(nil)).(Tx)
	_, isSQL := any((*sql.Tx)(nil)).(Tx)
	if !isSQLX && !isSQL {
		return fmt.Errorf("a run has no transaction of type %s: take a *sqlx.Tx, a *sql.Tx or a jobs.Tx",
			reflect.TypeFor[Tx]())
	}
	return nil
}

// handler calls a job's function, for one row or for many. Exactly one of both is set. tx is nil
// unless inTx.
type handler = Handler[FutureJob]

func (h Handler[J]) isNil() bool { return h.one == nil && h.many == nil }
