package action

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Action is an action of an operator: a Quick or a Long one.
type Action interface {
	// Target names what it changes.
	Target() string
	// check refuses, without the database, an action that makes no sense. It returns a RefusedError or a
	// jobs.FieldError.
	check(s *Store) error
	// plan returns what the action would do, without What and Target.
	plan(ctx context.Context, tx Tx) (Plan, error)
}

// Quick is an action that is done in one transaction.
type Quick interface {
	Action
	do(ctx context.Context, tx Tx) (Report, error)
}

// Selection is an action on some things that an operator has selected. Each is confirmed by itself: the action leaves
// those that have changed since, and does the rest.
type Selection interface {
	Quick
	// Only returns the action on some of its members. keep has a value for each of Plan.Members.
	Only(keep []bool) Selection
}

// Long is an action with transactions of its own.
type Long interface {
	Action
	run(ctx context.Context, s *Store, actor string) (Report, error)
}

// Final is an action that ends or deletes all that a filter selects, and that cannot be undone. A command
// does it only with --yes.
type Final interface {
	Action
	final()
}

// Report says what an action has done. It is a sentence and, as JSON, what its command prints.
type Report = fmt.Stringer

// Store is the database of actions, with its clients. A field that an action does not need may be zero.
type Store struct {
	DB        *sqlx.DB
	Schema    pgsql.Schema
	Setting   pgsql.Setting // as it was when the store was made
	Ledger    *ledger.Ledger
	Client    *jobs.Client
	Schedules *schedule.Store
	Rules     *rulestore.Store
	// Runner configures the runs of CatchUp and RunCheck.
	Runner slots.Config
	// Publishing is where schedules publish.
	Publishing *schedule.PublishConfig
	// Jobs are the jobs of this binary.
	Jobs []string
	// Progress is called while RemoveRule goes on. Optional.
	Progress func(rulestore.Progress)
	// Self is how to call the binary.
	Self string
}

func (s *Store) grid() grid.Grid { return s.Ledger.Grid() }
func (s *Store) now() time.Time  { return s.Ledger.Now().UTC() }

// Tx is a transaction of a Store.
type Tx struct {
	*Store
	Tx *sqlx.Tx
}

// Plan says what an action will do.
type Plan struct {
	What   string `json:"what"`   // such as cancel
	Target string `json:"target"` // such as orders 42
	Text   string `json:"text"`   // a sentence with the numbers
	Counts
	// Warnings tell the operator what to know before.
	Warnings []string `json:"warnings"`
	// Nothing is true if there is nothing to do.
	Nothing bool `json:"nothing"`

	// Fingerprint must stay the same until the action is done, besides the numbers.
	Fingerprint any `json:"-"`
	// Members has the fingerprint of each member of a Selection, in their order; nil: the action leaves it as it is.
	Members []any `json:"-"`
	// Bounded is the action that leaves out what comes after the plan. Nil: the action itself.
	Bounded Long `json:"-"`
	// Until is the instant that bounds it, if the command has the flag --until.
	Until time.Time `json:"-"`
}

// Counts counts what an action changes.
type Counts struct {
	Rows      int64 `json:"rows"`      // that it changes, of waiting checks or of history
	Slots     int64 `json:"slots"`     // that it changes
	Schedules int64 `json:"schedules"` // that it changes
	Events    int64 `json:"events"`    // that it publishes, or dead letters that it changes
}

// RefusedError is returned if an action makes no sense, such as one on a check that does not wait.
// Nothing was done.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refusef(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Preview returns what an action would do.
func Preview(ctx context.Context, tx Tx, a Action) (Plan, error) {
	err := a.check(tx.Store)
	var plan Plan
	if err == nil {
		plan, err = a.plan(ctx, tx)
	}
	plan.What, plan.Target = Name(a), a.Target()
	if plan.Warnings == nil {
		plan.Warnings = []string{}
	}
	return plan, err
}

// Do does a Quick action. The report is never nil if the error is.
func Do(ctx context.Context, tx Tx, a Quick) (Report, error) {
	if err := a.check(tx.Store); err != nil {
		return nil, err
	}
	return a.do(ctx, tx)
}

// Run does a Long action. If it fails, the report may say what was done before.
func Run(ctx context.Context, s *Store, a Long, actor string) (Report, error) {
	if err := a.check(s); err != nil {
		return nil, err
	}
	return a.run(ctx, s, actor)
}

// bound returns the instant of Plan.Until: the one that was given, if it has passed, so that the preview names one
// instant. Otherwise it is the one that leaves out what comes after the plan.
func bound(given, found, now time.Time) time.Time {
	if given.IsZero() || given.After(now) {
		return found
	}
	return given
}

// narrowed joins pairs of a beginning and a value. It leaves out the pairs without a value.
func narrowed(pairs ...string) (text string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			text += pair[0] + pair[1]
		}
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
