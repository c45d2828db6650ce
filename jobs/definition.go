package jobs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// Definition is a registered job with its options. It must not be changed.
type Definition struct {
	Name string
	// Group is the family of a job whose rows are checked by group; see the function Group.
	// Empty: the job has no groups.
	Group string

	// Each is the option of its name. Register sets the default of an option that is not given.
	MaxChecks   int
	Timeout     time.Duration
	Horizon     time.Duration
	Retry       int                        // 0: the first error ends the row
	MaxBackOff  int                        // slots
	Deadline    time.Duration              // 0: none
	Within      time.Duration              // 0: the first slot
	BatchSize   int                        // rows of one call at most; 0: all rows of a page
	Concurrency int                        // 0: only the runner's limit
	AtMost      int                        // 0: no limit
	PerSecond   int                        // 0: no limit
	LimitBy     func(job FutureJob) string // nil: AtMost and PerSecond are for the whole job
	Misfire     Misfire
	SLA         time.Duration // 0: none
	Priority    int
	DB          *sqlx.DB // for the transactions of its checks; nil: the runner's

	// Crontab gives the instants of a periodic function, by the clocks of Zone; see
	// Registry.Periodic. Empty: the job is not periodic.
	Crontab string
	Zone    string

	instants crontab.Crontab // of Crontab
	handler  handler
	around   []Middleware
}

// InTx reports whether the job writes through a transaction.
func (d *Definition) InTx() bool { return d.handler.inTx }

// Batched reports whether the job takes many rows at once.
func (d *Definition) Batched() bool { return d.handler.many != nil }

// Grouped reports whether the job gets all due rows of a group at once.
func (d *Definition) Grouped() bool { return d.Group != "" }

// Limited reports whether the job has a limit over all runners.
func (d *Definition) Limited() bool { return d.AtMost > 0 || d.PerSecond > 0 }

// Call calls the job's function inside its middleware: with one row, unless it is Batched, and with
// a transaction if it is InTx. It returns a result for each row, or an error, which belongs to
// every row. The function may change the slice of rows.
func (d *Definition) Call(_ reserved.Caller, ctx context.Context, tx *sqlx.Tx, rows []FutureJob) ([]Result, error) {
	results, err := d.within(ctx, d.around, tx, rows)
	if err == nil && len(results) != len(rows) {
		return nil, wrongCount(len(results), len(rows))
	}
	for i := range results {
		results[i] = results[i].checked()
	}
	if err == nil && d.InTx() && !d.Batched() { // so that the writes are rolled back
		err = results[0].Err
	}
	return results, sound(err)
}

func wrongCount(results, rows int) error {
	return fmt.Errorf("the batch function returned %s for %s",
		spoken.Count(results, "result", "results"), spoken.Count(rows, "row", "rows"))
}

// within calls the function inside the remaining middleware.
func (d *Definition) within(
	ctx context.Context, around []Middleware, tx *sqlx.Tx, rows []FutureJob,
) ([]Result, error) {
	switch {
	case len(around) > 0:
		call := Call{JobExec: d.Name, Group: d.Group, Rows: slices.Clone(rows)}
		return around[0](ctx, call, func(ctx context.Context) ([]Result, error) {
			return d.within(ctx, around[1:], tx, rows)
		})
	case d.handler.many != nil:
		return d.handler.many(ctx, tx, rows)
	}
	result, err := d.checkOne(ctx, tx, rows[0])
	return []Result{result}, err
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

// ErrGiveUp matches each error of GiveUp in errors.Is.
var ErrGiveUp = errors.New("the check has failed for good")

// GiveUp returns an error with which a check has failed for good: its row ends as OutcomeFailed at once, without the
// tries that Retry allows. An operator can still put the row back. The error has the text of err, and wraps it.
func GiveUp(err error) error {
	if err == nil {
		return ErrGiveUp
	}
	return givenUp{err}
}

// givenUp is an error of GiveUp.
type givenUp struct{ error }

func (e givenUp) Unwrap() error        { return e.error }
func (e givenUp) Is(target error) bool { return target == ErrGiveUp }

// All yields the registered jobs in the order of their names.
func (r *Registry) All() iter.Seq[*Definition] {
	return func(yield func(*Definition) bool) {
		for _, name := range slices.Sorted(maps.Keys(r.jobs)) {
			if !yield(r.jobs[name]) {
				return
			}
		}
	}
}

// Lookup returns the job of a name, and whether it is registered.
func (r *Registry) Lookup(name string) (*Definition, bool) {
	d, ok := r.jobs[name]
	return d, ok
}

// Clone returns a registry with the same jobs, middleware and spans. Jobs that are added to the
// clone do not change the original.
func (r *Registry) Clone() *Registry {
	clone := *r
	clone.jobs, clone.around = maps.Clone(r.jobs), slices.Clip(r.around)
	return &clone
}

// OnRule makes the registry know the rules of the database; package rule calls it. A run calls add
// for each of them with a copy of the registry. Call OnRule before a run uses the registry.
func (r *Registry) OnRule(_ reserved.Caller, add func(r *Registry, name string)) { r.addRule = add }

// KnowsRules reports whether OnRule was called.
func (r *Registry) KnowsRules(_ reserved.Caller) bool { return r.addRule != nil }

// WithRules returns a registry with the jobs of rules besides its own. The original stays as it is.
// A name that is registered keeps its job.
func (r *Registry) WithRules(_ reserved.Caller, names []string) *Registry {
	if r.addRule == nil || len(names) == 0 {
		return r
	}
	all := r.Clone()
	for _, name := range names {
		if _, taken := all.Lookup(name); !taken {
			r.addRule(all, name)
		}
	}
	return all
}

// startSpan is the type of the parameter of Registry.Trace.
type startSpan = func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context,
	func(err error, attrs ...slog.Attr))

// Trace makes the runs of the registry begin their spans with start. Package oteltrace calls it for
// OpenTelemetry. Call it before a run uses the registry.
//
// A span is work of a run that is not a call of a job's function, which Middleware sees. start returns the context of
// the work, and the function that ends the span with the error of the work, if any, and attributes. It is called by
// several goroutines at once. The spans are "run", of a slot by one runner; "claim", of the rows that a runner holds
// while it reads, checks and records them; and "publish", of events. A call of a function is within its claim, and what
// it publishes is within the call.
func (r *Registry) Trace(
	_ reserved.Caller,
	start func(ctx context.Context, name string, attrs ...slog.Attr) (
		context.Context, func(err error, attrs ...slog.Attr)),
) {
	r.start = start
}

// StartSpan begins a span, if Trace was called.
func (r *Registry) StartSpan(
	_ reserved.Caller, ctx context.Context, name string, attrs ...slog.Attr,
) (context.Context, func(err error, attrs ...slog.Attr)) {
	if r.start != nil {
		return r.start(ctx, name, attrs...)
	}
	return ctx, func(error, ...slog.Attr) {}
}

// EnqueueStatement returns the statement that enqueues the requests of results of the job, as Client.EnqueueMany does
// with Keep, for a message with other statements. The requests must be valid: neither a check nor a middleware sees
// them. clock is the present of a replay; nil asks the database. It is for prescient's packages alone.
func (d *Definition) EnqueueStatement(_ reserved.Caller, list []Request, clock any) (pg.Statement, []any) {
	return pg.EnqueueMany, columns(list, Keep, clock)
}
