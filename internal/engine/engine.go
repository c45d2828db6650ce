// Package engine gives the packages that run jobs what package jobs keeps from applications: the
// definitions of a registry, its spans, and the statement that enqueues.
package engine

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/prescient-go/prescient/internal/engine/bridge"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Definition is a registered job.
type Definition = bridge.Definition[jobs.FutureJob, jobs.Result, jobs.Misfire]

func set(r *jobs.Registry) *bridge.Set[jobs.FutureJob, jobs.Result, jobs.Misfire] {
	return bridge.SetOf(r).(*bridge.Set[jobs.FutureJob, jobs.Result, jobs.Misfire])
}

// All yields the registered jobs in the order of their names.
func All(r *jobs.Registry) iter.Seq[*Definition] {
	return func(yield func(*Definition) bool) {
		list := set(r).Jobs
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !yield(list[name]) {
				return
			}
		}
	}
}

// Lookup returns the job of a name, and whether it is registered.
func Lookup(r *jobs.Registry, name string) (*Definition, bool) {
	d, ok := set(r).Jobs[name]
	return d, ok
}

// Clone returns a registry with the same jobs, middleware and spans. Jobs that are added to the
// clone do not change the original.
func Clone(r *jobs.Registry) *jobs.Registry { return bridge.Clone(r).(*jobs.Registry) }

// OnRule makes a registry know the rules of the database. A run calls add for each of them with a
// copy of the registry. Call OnRule before a run uses the registry.
func OnRule(r *jobs.Registry, add func(r *jobs.Registry, name string)) {
	set(r).Rule = func(registry any, name string) { add(registry.(*jobs.Registry), name) }
}

// KnowsRules tells whether OnRule was called.
func KnowsRules(r *jobs.Registry) bool { return set(r).Rule != nil }

// WithRules returns a registry with the jobs of rules besides its own. The original stays as it is.
// A name that is registered keeps its job.
func WithRules(r *jobs.Registry, names []string) *jobs.Registry {
	if add := set(r).Rule; add != nil && len(names) > 0 {
		r = Clone(r)
		for _, name := range names {
			if _, taken := Lookup(r, name); !taken {
				add(r, name)
			}
		}
	}
	return r
}

// Span begins a span of a trace: work of a run that is not a call of a job's function, which
// jobs.Middleware sees. It returns the context of the work, and the function that ends the span
// with the error of the work, if any, and attributes. It is called by several goroutines at once.
//
// The spans are "run", of a slot by one runner; "claim", of the rows that a runner holds while it
// reads, checks and records them; and "publish", of events. A call of a function is within its
// claim, and what it publishes is within the call.
type Span = bridge.StartSpan

// Trace makes the runs of a registry begin their spans with start. Call it before a run uses the
// registry.
func Trace(r *jobs.Registry, start Span) { set(r).Start = start }

// StartSpan begins a span, if Trace was called.
func StartSpan(
	ctx context.Context, r *jobs.Registry, name string, attrs ...slog.Attr,
) (context.Context, func(err error, attrs ...slog.Attr)) {
	if start := set(r).Start; start != nil {
		return start(ctx, name, attrs...)
	}
	return ctx, func(error, ...slog.Attr) {}
}

// ErrDefer is the error of a row that could not be checked, and that waits for the next slot without an
// error.
var ErrDefer = errors.New("the check is deferred to the next slot")

// Validate returns the errors of a check, as an enqueue of it would.
func Validate(job jobs.FutureJob) error { return bridge.Validate(job) }

// EnqueueStatement returns the statement of jobs.Client.EnqueueMany with jobs.Keep, for a message
// with other statements. The rows must be valid. clock is for replays; nil asks the database.
func EnqueueStatement(list []jobs.FutureJob, clock any) (pgsql.Statement, []any) {
	return bridge.Enqueue(list, clock)
}
