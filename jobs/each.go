package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
)

// defaultEachSize is the number of rows that Each puts into one transaction by default; see
// BatchSize. A session of PostgreSQL caches 64 subtransactions. With more, every snapshot of the
// server costs more.
const defaultEachSize = 50

// ErrDivide marks an error of a BatchFunc or a TxBatchFunc as a failure of the whole call. The
// runner then rolls back the transaction, and calls the function again with each half of the rows,
// down to the single row, which then owns the error. It does so without ErrDivide if the error is one
// of PostgreSQL about a value, such as a cast or a constraint. Any other error that the function
// returns belongs to every row of the call.
var ErrDivide = errors.New("the call failed as a whole")

// Each makes a handler of a function of one row, like InTx, and lets up to 50 rows share a
// transaction, or as many as BatchSize allows. It calls fn for one row after the other, with a
// savepoint around each. That is several times the rate of InTx for short functions that only use
// the database. It gains nothing for a function that takes 20 milliseconds.
//
// An error, a panic and an SQL error belong to their row: its writes are rolled back, and the other
// rows go on. If the call fails as a whole, the runner divides it into halves; see ErrDivide.
// Causes are a timeout, a broken connection, a deadlock, and a deferred constraint at the commit.
//
// Because the rows share a transaction, it differs from InTx:
//   - Locks are held until the last row of the call is done. A check may wait for something outside
//     its transaction that itself waits for such a lock. Then it waits until its timeout.
//   - set local, set role, temporary tables and cursors of one row remain for the next one.
//   - What a check did outside the database may be repeated because of another row.
//   - All rows of the call see the same now(), and share the timeout.
func Each[J any, Tx DB, A Answer](fn func(ctx context.Context, tx Tx, job J) (A, error)) Handler[J] {
	h := InTx(fn)
	h.each, h.size = true, defaultEachSize
	return h
}

// checkEach calls the function of one row for one row of a call after the other.
func checkEach(
	one func(ctx context.Context, tx *sqlx.Tx, row FutureJob) (Result, error),
) func(ctx context.Context, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
	return func(ctx context.Context, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
		results := make([]Result, len(rows))
		for i, row := range rows {
			var err error
			results[i], err = checkInSavepoint(ctx, tx, func() (Result, error) { return one(ctx, tx, row) })
			if err != nil {
				return nil, err
			}
		}
		return results, nil
	}
}

// checkInSavepoint calls fn between a savepoint and its end. It returns an error, which wraps
// ErrDivide, if the transaction cannot go on.
func checkInSavepoint(
	ctx context.Context, tx *sqlx.Tx, fn func() (Result, error),
) (result Result, err error) {
	if _, err := tx.ExecContext(ctx, "savepoint prescient_each"); err != nil {
		return result, divide(err)
	}
	result = callOne(fn)
	if result.Err == nil {
		// It fails if the function went on after an error of a statement.
		_, result.Err = tx.ExecContext(ctx, "release savepoint prescient_each")
	}
	if result.Err == nil {
		return result, nil
	}
	result.Next, result.Enqueue = nil, nil
	if ctx.Err() != nil || pg.IsRetryable(result.Err) || pg.IsLockTimeout(result.Err) {
		return result, divide(result.Err)
	}
	for _, statement := range []string{"rollback to savepoint prescient_each", "release savepoint prescient_each"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return result, divide(errors.Join(result.Err, err))
		}
	}
	if pg.HasState(result.Err, pqerror.InFailedSQLTransaction) {
		result.Err = fmt.Errorf("the check went on after an error of its transaction: %w", result.Err)
	}
	return result, nil
}

// beside calls fn for an instant of a periodic function, such that an error of it leaves what the calls before it did:
// with a transaction, between a savepoint and its end. It returns an error if the transaction cannot go on.
func beside(ctx context.Context, tx *sqlx.Tx, fn func() (Result, error)) (Result, error) {
	if tx != nil {
		return checkInSavepoint(ctx, tx, fn)
	}
	return callOne(fn), nil
}

func divide(err error) error { return fmt.Errorf("%w: %w", ErrDivide, err) }

// callOne turns an error, a panic and a result that no database would take into the error of the result.
func callOne(fn func() (Result, error)) (result Result) {
	defer func() {
		if p := recover(); p != nil {
			result = Result{Err: &PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	result, err := fn()
	if err != nil {
		result = Result{Err: err}
	}
	return result.checked()
}

// PanicError is the error of a row whose check panicked in a call that goes on with other rows.
type PanicError struct {
	Value any    // that the check panicked with
	Stack []byte // of its goroutine at the panic, as text
}

// Error returns "panic: " and the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
