package jobs

import (
	"context"
	"slices"
)

// Middleware is called around every call of a job's function, whatever its shape, for a team's own logging, tracing and
// metrics. It calls next, once, with ctx or one made of it, and returns what next returned, or results and an error of
// its own.
//
// rows are those that the function gets: one, a page of one job, or what is due of a group, then of any job of
// job.Group. They are a copy: what a middleware changes in them nobody sees. The error of next is every row's; a
// Result.Err is that of one row of a batch.
//
// One that returns an error without a call of next has failed all rows. Panics and runtime.Goexit pass through it to
// the runner, which makes them the error of the rows; a middleware that has to clean up does it in a defer. It is inside
// the timeout of the job, and of a job with a transaction inside that, before its commit: what it reports as done may
// still be rolled back and be checked again. It is called by many goroutines at once.
type Middleware func(ctx context.Context, job *Definition, rows []FutureJob, next func(ctx context.Context) ([]Result, error)) ([]Result, error)

// Use puts a middleware around every job of the registry, those that are registered later, too. The first one used is
// the outermost. Like Register it is not for a registry that a run reads, and panics when m is nil.
func (r *Registry) Use(m Middleware) {
	if m == nil {
		panic("use middleware: the function is nil")
	}
	r.around = append(slices.Clip(r.around), m)
	for name, d := range r.jobs {
		wrapped := *d // a clone of the registry keeps the one it has
		wrapped.around = r.around
		r.jobs[name] = &wrapped
	}
}
