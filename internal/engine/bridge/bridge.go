// Package bridge has what package jobs hands to package engine beside its exported names. Package
// jobs sets the variables when it is initialised. They are of type any where a type of package jobs
// would be an import cycle.
package bridge

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
)

// Definition is a registered job. Its type parameters are types of package jobs; see
// engine.Definition.
type Definition[Job, Result any, Misfire ~string] struct {
	Name string
	// Group is the family of a job whose rows are checked by group; see
	// jobs.Registry.RegisterGroup. Empty: the job has no groups.
	Group string

	MaxChecks   int
	Timeout     time.Duration
	Horizon     time.Duration
	Retry       int
	MaxBackOff  int           // slots
	Deadline    time.Duration // 0: none
	Within      time.Duration // 0: the first slot
	BatchSize   int           // rows of one call at most; 0: all rows of a page
	Concurrency int           // 0: only the runner's limit
	AtMost      int           // 0: no limit
	PerSecond   int           // 0: no limit
	LimitBy     func(job Job) string
	Misfire     Misfire
	SLA         time.Duration // 0: none
	Priority    int
	DB          *sqlx.DB // for the transactions of its checks; nil: the runner's

	function Function[Job, Result]
}

// Function says how to call the function of a job.
type Function[Job, Result any] struct {
	Call    func(ctx context.Context, tx *sqlx.Tx, rows []Job) ([]Result, error)
	InTx    bool // it writes through a transaction
	Batched bool // it takes many rows at once
}

// With returns a copy of the definition with a function.
func (d *Definition[Job, Result, Misfire]) With(f Function[Job, Result]) *Definition[Job, Result, Misfire] {
	with := *d
	with.function = f
	return &with
}

// InTx reports whether the job writes through a transaction.
func (d *Definition[Job, Result, Misfire]) InTx() bool { return d.function.InTx }

// Batched reports whether the job takes many rows at once.
func (d *Definition[Job, Result, Misfire]) Batched() bool { return d.function.Batched }

// Grouped reports whether the job gets all due rows of a group at once.
func (d *Definition[Job, Result, Misfire]) Grouped() bool { return d.Group != "" }

// Limited reports whether the job has a limit over all runners.
func (d *Definition[Job, Result, Misfire]) Limited() bool { return d.AtMost > 0 || d.PerSecond > 0 }

// Call calls the job's function inside its middleware: with one row, unless it is Batched, and with
// a transaction if it is InTx. It returns a result for each row, or an error, which belongs to
// every row. The function may change the slice of rows.
func (d *Definition[Job, Result, Misfire]) Call(ctx context.Context, tx *sqlx.Tx, rows []Job) ([]Result, error) {
	return d.function.Call(ctx, tx, rows)
}

// StartSpan is engine.StartSpan without the registry.
type StartSpan func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context,
	func(err error, attrs ...slog.Attr))

// Set holds the jobs of a registry by name. Start begins its spans, and Rule adds the job of a rule
// of the database to a *jobs.Registry. Both may be nil.
type Set[Job, Result any, Misfire ~string] struct {
	Jobs  map[string]*Definition[Job, Result, Misfire]
	Start StartSpan
	Rule  func(registry any, name string)
}

// Client is the part of a *jobs.Client that package admin uses.
type Client struct {
	Schema pgsql.Schema
	// Now is the clock that slots are compared with. Clock is its instant as a parameter of
	// statements; nil asks the database.
	Now   func() time.Time
	Clock func() any
	// ValidateDue returns a jobs.FieldError for an instant that no check can be moved to.
	ValidateDue func(at time.Time) error
	// ValidateName returns a jobs.FieldError for a text that cannot be the name of a job.
	ValidateName func(job string) error
}

var (
	// SetOf returns the *Set of a *jobs.Registry.
	SetOf func(registry any) any
	// Clone returns a *jobs.Registry with the same jobs, middleware and spans.
	Clone func(registry any) any
	// ClientOf returns what package admin needs of a *jobs.Client.
	ClientOf func(client any) Client
	// Scan reads a row that begins with the columns of a future job into a *jobs.FutureJob; more
	// takes the columns after them.
	Scan func(row *sql.Rows, job any, more ...any) error
	// Validate returns the errors of a jobs.FutureJob that is to be enqueued.
	Validate func(job any) error
	// Enqueue returns the statement that enqueues a []jobs.FutureJob, and its parameters.
	Enqueue func(list, clock any) (pgsql.Statement, []any)
)
