package jobs

import (
	"fmt"
	"math"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// DefaultHorizon is how far ahead a check may be requested and a function may ask for another one, unless
// Config.Horizon or the option Horizon says otherwise: five years of 365 days.
const DefaultHorizon = 5 * 365 * 24 * time.Hour

// Misfire says what catch-up does with a row whose slot was missed; see OnMisfire.
type Misfire string

// The misfire policies.
const (
	// MisfireRun checks it now; the default.
	MisfireRun Misfire = "run"
	// MisfireDefer moves it to the next slot, unchecked.
	MisfireDefer Misfire = "defer"
	// MisfireSkip archives it as OutcomeSkipped, unchecked.
	MisfireSkip Misfire = "skip"
	// MisfireEach calls a periodic function once for each missed instant; see Registry.Periodic.
	MisfireEach Misfire = "each"
)

// must panics for a job with bad options.
func must(d *Definition, ok bool, rule string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("register job %q: ", d.Name) + fmt.Sprintf(rule, args...))
	}
}

// mustLast panics for an option with a duration that is no time, or whose unit was forgotten.
func mustLast(d *Definition, option string, limit time.Duration) {
	must(d, limit > 0, "%s(%s): must be positive", option, limit)
	problem := spoken.Unitless(limit)
	must(d, problem == "", "%s: %s", option, problem)
}

// Option changes a default of a job. A bad value panics in Register, and so does a duration below 1 ms, which is a
// number without a unit. The zero Option changes nothing.
type Option struct{ set func(*Definition) }

// MaxChecks limits the checks of a row. If the last one returns a next time, the row ends as
// OutcomeMaxChecks. Errors do not count. Default 5.
func MaxChecks(n int) Option { return Option{func(d *Definition) { d.MaxChecks = n }} }

// Timeout ends a check's context, this long after the call of the function. Waiting for a
// connection or a lock before the call does not count. A check that goes on is abandoned after the
// runner's grace period, also if the runner has lost the lease of the row. Default 1 minute.
func Timeout(limit time.Duration) Option { return Option{func(d *Definition) { d.Timeout = limit }} }

// Horizon limits how far ahead of now a check may set the next. A later one ends the row as OutcomeHorizon. Default 5
// years.
func Horizon(limit time.Duration) Option { return Option{func(d *Definition) { d.Horizon = limit }} }

// Retry limits the consecutive errors of a row that are retried, 1, 2, 4 ... slots later (see
// MaxBackOff). One more error ends the row as OutcomeFailed. 0: the first error ends it, as an error
// of GiveUp always does. Default 5.
func Retry(n int) Option { return Option{func(d *Definition) { d.Retry = n }} }

// MaxBackOff limits the pause after an error, in slots, for a job whose rows must not fall far
// behind once the cause is fixed. With 1, a row is retried in every slot, like the job that
// publishes schedules. No pause leads beyond the year 9999. Default 64.
func MaxBackOff(slots int) Option { return Option{func(d *Definition) { d.MaxBackOff = slots }} }

// Deadline archives a row as OutcomeDeadline, unchecked, if its check cannot start within this time
// after its slot. Default: none.
func Deadline(limit time.Duration) Option {
	return Option{func(d *Definition) {
		mustLast(d, "Deadline", limit)
		d.Deadline = limit
	}}
}

// Within spreads the next check over a window. Any slot will do from the first one at or after the
// instant that the check returns, and before that instant + window. Request.Within does so for
// the first check. Whole seconds, up to 366 days. Default: the first slot.
func Within(window time.Duration) Option {
	return Option{func(d *Definition) {
		err := checkWithin(window)
		must(d, err == nil, "Within(%s): %v", window, err)
		d.Within = window
	}}
}

// Concurrency limits the concurrent checks of the job in one runner. Default: only the runner's own
// bounds.
func Concurrency(n int) Option {
	return Option{func(d *Definition) {
		must(d, n >= 1, "Concurrency(%d): must be at least 1", n)
		d.Concurrency = n
	}}
}

// BatchSize limits the rows of one call of a batch function and, with Each, the rows that
// share a transaction. Smaller calls hold locks for less time. Defaults to the page that the runner
// reads, or to 50 with Each.
func BatchSize(n int) Option {
	return Option{func(d *Definition) {
		must(d, n >= 1, "BatchSize(%d): must be at least 1", n)
		d.BatchSize = n
	}}
}

// AtMost limits the concurrent checks of the job over all runners. Runners share the permits. A
// permit belongs to a runner until its lease expires; a runner without a permit waits. If a runner
// loses a permit, the contexts of the checks that need it end. A check that ignores the end of its
// context may go on when its permit belongs to another runner, as it may when its row does. For a
// job that takes many rows, calls count, not rows. It is not for Group. Default: no limit.
func AtMost(n int) Option {
	return Option{func(d *Definition) {
		must(d, n >= 1 && n <= math.MaxInt32, "AtMost(%d): must be from 1 to %d", n, math.MaxInt32)
		d.AtMost = n
	}}
}

// PerSecond limits the checks of the job that all runners together begin within any second. It
// counts like AtMost. Default: no limit.
func PerSecond(n int) Option {
	return Option{func(d *Definition) {
		must(d, n >= 1, "PerSecond(%d): must be at least 1", n)
		d.PerSecond = n
	}}
}

// LimitBy applies AtMost and PerSecond to each key separately, such as a tenant. The given function
// finds the key in the payload or the entity of a row. It is called concurrently.
func LimitBy(key func(job FutureJob) string) Option {
	return Option{func(d *Definition) {
		must(d, key != nil, "LimitBy: the function is nil")
		d.LimitBy = key
	}}
}

// OnMisfire sets what catch-up does with rows whose slot was missed, or whose job was paused when a run closed or left
// the slot. Default MisfireRun. Catch-up checks all other rows, such as rows that a run has left because they were
// locked.
func OnMisfire(policy Misfire) Option { return Option{func(d *Definition) { d.Misfire = policy }} }

// SLA sets the longest time from a slot to the start of a check. A check never begins before its
// slot. A late check is only counted (see Deadline for more), and status shows how many checks kept
// the SLA. Lateness is measured in steps of 100 ms. Default: none.
func SLA(limit time.Duration) Option {
	return Option{func(d *Definition) {
		mustLast(d, "SLA", limit)
		d.SLA = limit
	}}
}

// Priority lets runs claim the rows of a job before the rows of jobs with a lower priority, in each
// slot. Runs do not wait for rows that are claimed already. A job that waits for connections lets
// jobs without a transaction pass, unless a run has as few workers. A job at its own limit lets all
// other jobs pass. Default 0.
func Priority(n int) Option { return Option{func(d *Definition) { d.Priority = n }} }

// WithPool takes the transactions of the job's checks from another pool, of another role or driver
// (see package pgxjobs). The pool must be for the database of the runner, and its role needs the
// rights of a runner. Default: the runner's pool.
func WithPool(db pgsql.Pool) Option {
	return Option{func(d *Definition) {
		d.DB = pg.Sqlx(db)
		must(d, d.DB != nil, "WithPool: %v", pg.ErrNoDatabase)
	}}
}

// Registry holds the jobs of a binary. The zero value is empty. Register all jobs before the first
// run: it is not safe to register while a run reads it.
type Registry struct {
	jobs    map[string]*Definition
	around  []Middleware
	start   startSpan                      // nil: no spans
	addRule func(r *Registry, name string) // nil: no rules
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Register adds a job with its function, in one of the shapes:
//
//	registry.Register("order.unshipped", jobs.Row(check))    // one row
//	registry.Register("order.unshipped", jobs.InTx(check))   // one row, and a transaction of its own
//	registry.Register("order.unshipped", jobs.Each(check))   // one row, in a transaction that up to 50 rows share
//	registry.Register("order.unshipped", jobs.Batch(check))  // up to a page of rows; also BatchInTx
//	registry.Register("mail.order", jobs.Group("mails", check)) // all due rows of a group
//
// Kind.Register does so for a job with a typed payload. Register panics if the name is empty, too
// long or taken, or "schedule", which is the job of schedules. It also panics if the function is nil: a
// binary with such a mistake must not start.
func (r *Registry) Register(name string, h Handler[FutureJob], opts ...Option) {
	r.add(&Definition{Name: name}, h, opts)
}

// RegisterReserved registers a job of prescient itself, under a name that Register refuses.
func (r *Registry) RegisterReserved(_ reserved.Caller, name string, h Handler[FutureJob], opts ...Option) {
	r.insert(&Definition{Name: name}, h, opts)
}

func (r *Registry) add(d *Definition, h handler, opts []Option) {
	must(d, !reserved.IsJob(d.Name), "the name belongs to a job of prescient. Give yours another one")
	r.insert(d, h, opts)
}

func (r *Registry) insert(d *Definition, h handler, opts []Option) {
	err := checkJob(d.Name)
	must(d, err == nil, "%v", err)
	must(d, h.bad == nil, "%v", h.bad)
	must(d, !h.isNil(), "the function is nil")
	if h.each {
		h.one, h.many = nil, checkEach(h.one)
	}
	d.BatchSize = h.size
	if h.family != nil {
		d.Group = h.family.name
		for other := range r.All() {
			must(d, other.Group != d.Group || other.handler.family == h.family,
				"the family %q is registered already, with job %q. Register its jobs with one value of jobs.Group",
				d.Group, other.Name)
		}
	}
	_, taken := r.jobs[d.Name]
	must(d, !taken, "the name is registered already")
	d.MaxChecks, d.Timeout, d.Horizon, d.Misfire = defaults.MaxChecks, defaults.Timeout, DefaultHorizon, MisfireRun
	d.Retry, d.MaxBackOff = defaults.Retry, defaults.MaxBackOff
	for _, opt := range opts {
		if opt.set != nil {
			opt.set(d)
		}
	}
	must(d, d.MaxChecks >= 1, "MaxChecks(%d): must be at least 1", d.MaxChecks)
	mustLast(d, "Timeout", d.Timeout)
	mustLast(d, "Horizon", d.Horizon)
	must(d, d.Retry >= 0, "Retry(%d): must not be negative", d.Retry)
	must(d, d.MaxBackOff >= 1, "MaxBackOff(%d): must be at least 1", d.MaxBackOff)
	must(d, d.BatchSize == 0 || h.many != nil && !d.Grouped(), "BatchSize needs Batch, BatchInTx or Each")
	must(d, !d.Limited() || !d.Grouped(), "AtMost and PerSecond are not for jobs that are checked by group")
	must(d, d.DB == nil || h.inTx, "WithPool needs a function with a transaction: InTx, Each, BatchInTx or Group")
	must(d, d.LimitBy == nil || d.Limited(), "LimitBy needs AtMost or PerSecond")
	known := d.Misfire == MisfireRun || d.Misfire == MisfireDefer || d.Misfire == MisfireSkip || d.Misfire == MisfireEach
	must(d, known, "OnMisfire(%q): must be run, defer or skip, or each for a periodic function", d.Misfire)
	d.handler, d.around = h, r.around
	d.parse()
	if r.jobs == nil {
		r.jobs = map[string]*Definition{}
	}
	r.jobs[d.Name] = d
}
