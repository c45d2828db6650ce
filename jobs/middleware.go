package jobs

import (
	"context"
	"slices"
)

// Middleware is called around every call of a job's function, whatever its shape, for a team's own logging, tracing and
// metrics. It calls next, once, with ctx or one made of it, and returns what next returned, or results and an error of
// its own.
//
// What a middleware changes in the rows of a call, the function does not see. The error of next belongs to every row; a
// Result.Err belongs to one row of a batch.
//
// One that returns an error without a call of next has failed all rows. Panics and runtime.Goexit pass through it to
// the runner, which makes them the error of the rows; a middleware that has to clean up does it in a defer. It is inside
// the timeout of the job, and of a job with a transaction inside that, before its commit: what it reports as done may
// still be rolled back and be checked again. It is called by many goroutines at once.
type Middleware func(ctx context.Context, call Call, next func(ctx context.Context) ([]Result, error)) ([]Result, error)

// Call is a call of a job's function, for Middleware.
type Call struct {
	// JobExec is the name of the job. In a call of a group the rows may be of any job of Group.
	JobExec string
	// Group is the family given to RegisterGroup. Empty: not by group.
	Group string
	// Rows are a copy of what the function gets: one row, a page of one job, or what is due of a group.
	Rows []FutureJob
}

// Use puts a middleware around every job of the registry, those that are registered later, too. The first one used is
// the outermost. Like Register it is not for a registry that a run reads, and panics when m is nil.
func (r *Registry) Use(m Middleware) {
	if m == nil {
		panic("use middleware: the function is nil")
	}
	r.around = append(slices.Clip(r.around), m)
	for _, job := range r.registered {
		job.around = r.around
		r.put(job)
	}
}
