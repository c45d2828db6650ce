package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/prescient-go/prescient/internal/tx"
)

// Middleware wraps every call of every job's function, of any shape, for a team's own logging,
// tracing and metrics. It calls next, once, with ctx or a context made of it. It returns what next
// returned, or its own results and error. It is called concurrently.
//
// The function does not see what a middleware changes in the rows of a call. The error of next
// belongs to every row; a Result.Err belongs to its row. A function of one row may return either: look
// at both.
//
// A middleware that returns an error without a call of next has failed all rows. Panics and
// runtime.Goexit pass through it to the runner, which makes them the error of the rows, so a
// middleware must clean up in a defer. It runs inside the timeout of the job. For a job with a
// transaction it runs before the commit: what it reports as done may still be rolled back and be
// checked again.
type Middleware func(ctx context.Context, call Call, next func(ctx context.Context) ([]Result, error)) ([]Result, error)

// Call is a call of a job's function, for Middleware.
type Call struct {
	// JobExec is the name of the job. In a call of a group the rows may be of any job of Group.
	JobExec string
	// Group is the family given to the function Group. Empty: not by group.
	Group string
	// Rows are a copy of the function's rows: one row, a page of one job, or the due rows of a
	// group.
	Rows []FutureJob
}

// Use puts a middleware around every job of the registry, including jobs that are registered later.
// The first one used is the outermost. It panics if m is nil. Like Register, it must not be called
// while a run reads the registry.
func (r *Registry) Use(m Middleware) {
	if m == nil {
		panic("use middleware: the function is nil")
	}
	r.around = append(slices.Clip(r.around), m)
	for name, job := range r.jobs {
		with := *job // a clone of the registry keeps the job that it has
		with.around = r.around
		r.jobs[name] = &with
	}
}

// EnqueueMiddleware wraps every call of Client.Enqueue and Client.EnqueueMany, and each part of a
// Client.EnqueueAll. It is for a team's own defaults, rules, audit and metrics. It calls next, once,
// with the requests of the call or with as many changed ones in the same order, and returns its
// error. If it returns an error or panics, nothing is enqueued, and nothing that it wrote through
// EnqueueCall.Tx stays, also in the caller's transaction. It is called concurrently. Its panic
// reaches the caller.
//
// The requests are valid when it gets them, and are validated again when it has changed them. It does
// not see what checks enqueue with Result.Enqueue, nor what is enqueued by SQL.
type EnqueueMiddleware func(
	ctx context.Context, call EnqueueCall, next func(ctx context.Context, requests []Request) error,
) error

// EnqueueCall is a call that enqueues, for EnqueueMiddleware.
type EnqueueCall struct {
	// Tx is the transaction of the call: the caller's, or a new one for EnqueueNow and OwnTx, with the
	// settings of its login. What a middleware writes through it is committed together with the
	// requests.
	Tx Tx
	// Requests are a copy of the requests of the call.
	Requests []Request
}

// through calls write with requests inside the middleware of the client, once validate has accepted them.
func (c *Client) through(
	ctx context.Context, db DB, list []Request, validate func(changed []Request) error,
	write func(ctx context.Context, db DB, list []Request) error,
) error {
	if len(c.cfg.Around) == 0 || len(list) == 0 {
		return write(ctx, db, list)
	}
	return tx.Mixed(ctx, db, func(db tx.DB) error {
		own := db.(Tx) //nolint:forcetypeassert // the Tx of the caller, or the *sql.Tx of In
		next := func(ctx context.Context, changed []Request) error {
			if len(changed) != len(list) {
				return fmt.Errorf("a middleware passed %d jobs of %d", len(changed), len(list))
			}
			if err := validate(changed); err != nil {
				return err
			}
			return write(ctx, db, changed)
		}
		for _, around := range slices.Backward(c.cfg.Around) {
			inner := next
			next = func(ctx context.Context, list []Request) error {
				return around(ctx, EnqueueCall{Tx: own, Requests: slices.Clone(list)}, inner)
			}
		}
		return atomically(ctx, db, func() error { return next(ctx, list) })
	})
}
