package jobs

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Definition is a registered job.
type Definition struct {
	Name string
	// Group is the family of a job whose rows are checked by group; see RegisterGroup. Empty: not by group.
	Group string

	MaxChecks   int
	Timeout     time.Duration
	Horizon     time.Duration
	Retry       int
	MaxBackOff  int           // slots
	Deadline    time.Duration // 0: none
	Within      time.Duration // 0: the first slot
	BatchSize   int           // rows of one call at most; 0: as many as there are in a page
	Concurrency int           // 0: bounded by the runner alone
	AtMost      int           // 0: no limit
	PerSecond   int           // 0: no limit
	LimitBy     func(job FutureJob) string
	Misfire     Misfire
	SLA         time.Duration // 0: none
	Untraced    bool
	Priority    int
	DB          *sqlx.DB // where the transactions of its checks are; nil: those of the runner

	handler handler
	around  []Middleware
}

// Defaults of a job for which an option is not given.
const (
	DefaultMaxChecks = 5
	DefaultTimeout   = time.Minute
	DefaultHorizon   = 5 * 365 * 24 * time.Hour
	DefaultRetry     = 5

	DefaultMaxBackOff = 64
)

// Misfire says what catch-up does with a row whose slot was missed.
type Misfire string

// The misfire policies.
const (
	// MisfireRun checks it now; the default.
	MisfireRun Misfire = "run"
	// MisfireDefer moves it to the next slot, unchecked.
	MisfireDefer Misfire = "defer"
	// MisfireSkip archives it as Skipped, unchecked.
	MisfireSkip Misfire = "skip"
)

// must panics for a job that makes no sense.
func (d *Definition) must(ok bool, rule string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("register job %q: ", d.Name) + fmt.Sprintf(rule, args...))
	}
}

// Option changes a job from the defaults. A value that makes no sense panics in Register.
type Option func(*Definition)

// MaxChecks limits how many checks a row gets; when the last one asks for another the row ends as TooManyChecks.
// Errors do not count. Default 5.
func MaxChecks(n int) Option { return func(d *Definition) { d.MaxChecks = n } }

// Timeout ends a check's context, so long after the function was called: what was waited for a connection or a lock before that is not
// in it. A check that goes on is abandoned after the runner's grace period. Default 1 minute.
func Timeout(limit time.Duration) Option { return func(d *Definition) { d.Timeout = limit } }

// Horizon limits how far ahead of now a check may ask for the next. Default 5 years.
func Horizon(limit time.Duration) Option { return func(d *Definition) { d.Horizon = limit } }

// Retry says how many errors in a row are tried again, 1, 2, 4 ... slots later (see MaxBackOff), before the row ends
// as Failed. 0: the first error ends it. Default 5.
func Retry(n int) Option { return func(d *Definition) { d.Retry = n } }

// MaxBackOff limits the pause after an error, in slots; none leads beyond the year 9999. 1: it is tried again in the next slot.
// Default 64.
func MaxBackOff(slots int) Option { return func(d *Definition) { d.MaxBackOff = slots } }

// Deadline archives a row as DeadlinePassed, unchecked, when its check cannot start within that long after its slot.
// Default: none.
func Deadline(limit time.Duration) Option {
	return func(d *Definition) {
		d.must(limit > 0, "Deadline(%s): must be positive", limit)
		d.Deadline = limit
	}
}

// Within says that for the next check that a check asks for any slot will do from the first one at or after the instant it
// returns that is before that instant + window; see FutureJob.Within, which says it of the first check. It is whole seconds, up to
// 366 days. Default: the first slot.
func Within(window time.Duration) Option {
	return func(d *Definition) {
		err := checkWithin(window)
		d.must(err == nil, "Within(%s): %v", window, err)
		d.Within = window
	}
}

// Concurrency limits how many checks of the job one runner does at once. Default: bounded by the runner alone.
func Concurrency(n int) Option {
	return func(d *Definition) {
		d.must(n >= 1, "Concurrency(%d): must be at least 1", n)
		d.Concurrency = n
	}
}

// BatchSize limits how many rows one call of a batch function gets, and with RegisterEach how many rows share a
// transaction. Smaller calls hold locks for less time. The default is as many rows as the runner reads at once, or 50
// with RegisterEach.
func BatchSize(n int) Option {
	return func(d *Definition) {
		d.must(n >= 1, "BatchSize(%d): must be at least 1", n)
		d.BatchSize = n
	}
}

// AtMost limits how many checks of the job all runners together do at once. Runners share what is allowed out among themselves, a
// place for as long as its lease; one that finds none waits. A check that ignores the end of its context may go on when
// its place is somebody else's, as it may when its row is. Calls of a job that takes many rows count, not rows. It is not
// for RegisterGroup. Default: no limit.
func AtMost(n int) Option {
	return func(d *Definition) {
		d.must(n >= 1 && n <= math.MaxInt32, "AtMost(%d): must be from 1 to %d", n, math.MaxInt32)
		d.AtMost = n
	}
}

// PerSecond limits how many checks of the job all runners together begin within any second. What counts is as with AtMost.
// Default: no limit.
func PerSecond(n int) Option {
	return func(d *Definition) {
		d.must(n >= 1, "PerSecond(%d): must be at least 1", n)
		d.PerSecond = n
	}
}

// LimitBy has AtMost and PerSecond hold for each key of their own, such as that of a tenant, which is found in the payload or
// the entity of a row. It is called by several goroutines at once.
func LimitBy(key func(job FutureJob) string) Option {
	return func(d *Definition) {
		d.must(key != nil, "LimitBy: the function is nil")
		d.LimitBy = key
	}
}

// Limited tells whether all runners together may do only so much of the job.
func (d *Definition) Limited() bool { return d.AtMost > 0 || d.PerSecond > 0 }

// OnMisfire sets what catch-up does with rows whose slot was missed. Default MisfireRun.
func OnMisfire(policy Misfire) Option { return func(d *Definition) { d.Misfire = policy } }

// SLA says how long after its slot a check is to begin at the latest; one begins never before. Nothing is done to a late
// one (see Deadline), but it is counted: status tells how many kept it. Lateness is measured in steps of 100 ms. Default: none.
func SLA(limit time.Duration) Option {
	return func(d *Definition) {
		d.must(limit > 0, "SLA(%s): must be positive", limit)
		d.SLA = limit
	}
}

// Untraced keeps no trace of checks that do not end their row, for a job whose rows are checked again and again. Errors
// and what ends a row are kept all the same.
func Untraced() Option { return func(d *Definition) { d.Untraced = true } }

// Priority has runs claim the rows of a job of higher priority before those of lower, in each slot; rows that are
// claimed already are not waited for. A job that waits for connections lets jobs without a transaction pass, unless a
// run has as few workers. A job that is at a limit of its own lets all others pass. Default 0.
func Priority(n int) Option { return func(d *Definition) { d.Priority = n } }

// Through has the transactions of the job's checks come from a pool of its own: one of another role, or of another driver
// (see package pgxjobs). It is of the database that the runner works on, and its role has the rights of a runner. Default: the
// runner's pool.
func Through(db pgsql.Pool) Option {
	return func(d *Definition) {
		d.DB = pgsql.Sqlx(db)
		d.must(d.DB != nil, "Through: %v", pgsql.ErrNoDatabase)
	}
}

// Registry holds the jobs of a binary; its zero value holds none. Register all before the first run; it is not safe to
// register while a run reads it.
type Registry struct {
	jobs   map[string]*Definition
	around []Middleware
	start  StartSpan
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Clone returns a registry with the same jobs, middleware and spans, to which others can be added.
func (r *Registry) Clone() *Registry {
	return &Registry{jobs: maps.Clone(r.jobs), around: slices.Clip(r.around), start: r.start}
}

// Register adds a job. It panics when the name is empty, too long or taken, or fn is nil: a binary with such a
// mistake must not start.
func (r *Registry) Register(name string, fn CheckFunc, opts ...Option) {
	r.add(&Definition{Name: name, handler: fn.handler()}, opts)
}

// RegisterResult adds a job like Register, whose function can also change the row's payload and enqueue further checks.
// It panics like Register.
func (r *Registry) RegisterResult(name string, fn ResultFunc, opts ...Option) {
	r.add(&Definition{Name: name, handler: fn.handler()}, opts)
}

// RegisterTx adds a job that writes through a transaction. It panics like Register.
func (r *Registry) RegisterTx(name string, fn TxCheckFunc, opts ...Option) {
	r.add(&Definition{Name: name, handler: fn.handler()}, opts)
}

// RegisterBatch adds a job that takes up to a page of rows at once. It panics like Register.
func (r *Registry) RegisterBatch(name string, fn BatchFunc, opts ...Option) {
	r.add(&Definition{Name: name, handler: fn.handler()}, opts)
}

// RegisterBatchTx adds a job that takes up to a page of rows at once and writes through a transaction. It panics like
// Register.
func (r *Registry) RegisterBatchTx(name string, fn TxBatchFunc, opts ...Option) {
	r.add(&Definition{Name: name, handler: fn.handler()}, opts)
}

// RegisterGroup adds a family of jobs that are checked by group: fn gets all due rows of one group_key, of any of the
// jobs, in one call, in a transaction that holds the group's advisory lock (prescient.lock_group takes the same one).
// A row without a group_key is in the group of its entity. opts hold for each of the jobs.
//
// A call gets at most 16 MiB of rows, which is 33,000 rows without payloads. The other rows of a larger group come in
// further calls, one after the other. An error that fn returns, a panic and a timeout belong to all rows of the call.
//
// It panics like Register, and when the family is registered already: one function has to check all of its jobs.
func (r *Registry) RegisterGroup(family string, names []string, fn TxBatchFunc, opts ...Option) {
	if family == "" || len(names) == 0 {
		panic(fmt.Sprintf("register group %q: it needs a name, and jobs", family))
	}
	for d := range r.All() {
		if d.Group == family {
			panic(fmt.Sprintf("register group %q: the family is registered already, with job %q. Register all of its jobs at once", family, d.Name))
		}
	}
	for _, name := range names {
		r.add(&Definition{Name: name, Group: family, handler: fn.handler()}, opts)
	}
}

// Lookup returns the job of a name, and whether it is registered.
func (r *Registry) Lookup(name string) (*Definition, bool) {
	d, ok := r.jobs[name]
	return d, ok
}

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

func (r *Registry) add(d *Definition, opts []Option) {
	err := checkName("job_exec", d.Name, 1, maxName)
	d.must(err == nil, "%v", err)
	d.must(!d.handler.isNil(), "the function is nil")
	_, taken := r.jobs[d.Name]
	d.must(!taken, "the name is registered already")
	d.MaxChecks, d.Timeout, d.Horizon, d.Misfire = DefaultMaxChecks, DefaultTimeout, DefaultHorizon, MisfireRun
	d.Retry, d.MaxBackOff = DefaultRetry, DefaultMaxBackOff
	for i, opt := range opts {
		d.must(opt != nil, "option %d is nil", i+1)
		opt(d)
	}
	d.must(d.MaxChecks >= 1, "MaxChecks(%d): must be at least 1", d.MaxChecks)
	d.must(d.Timeout > 0, "Timeout(%s): must be positive", d.Timeout)
	d.must(d.Horizon > 0, "Horizon(%s): must be positive", d.Horizon)
	d.must(d.Retry >= 0, "Retry(%d): must not be negative", d.Retry)
	d.must(d.MaxBackOff >= 1, "MaxBackOff(%d): must be at least 1", d.MaxBackOff)
	d.must(d.BatchSize == 0 || d.Batched() && !d.Grouped(), "BatchSize needs RegisterBatch, RegisterBatchTx or RegisterEach")
	d.must(!d.Limited() || !d.Grouped(), "AtMost and PerSecond are not for jobs that are checked by group")
	d.must(d.DB == nil || d.InTx(), "Through needs a function with a transaction: RegisterTx, RegisterEach, RegisterBatchTx or RegisterGroup")
	d.must(d.LimitBy == nil || d.Limited(), "LimitBy needs AtMost or PerSecond")
	known := d.Misfire == MisfireRun || d.Misfire == MisfireDefer || d.Misfire == MisfireSkip
	d.must(known, "OnMisfire(%q): must be run, defer or skip", d.Misfire)
	d.around = r.around
	if r.jobs == nil {
		r.jobs = map[string]*Definition{}
	}
	r.jobs[d.Name] = d
}
