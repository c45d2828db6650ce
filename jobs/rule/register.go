package rule

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	pgsql "github.com/prescient-go/prescient/sql"
)

// CheckConfig configures the checks of rules. DB and Publisher must be set; every other zero
// field means its default.
type CheckConfig struct {
	// DB returns the pool on which checks read the tables of rules, which must stay open. It must be
	// for the database of the runner. While DB returns an error, every row gets it. Do not use the
	// runner's pool: a slow query would hold connections that the runner needs to keep its leases.
	DB func(ctx context.Context) (pgsql.Pool, error)
	// Publisher gets the events of steps, in the transaction that records the check.
	Publisher event.TxPublisher
	// Source is that of the events, a URI reference. Defaults to that of the store, see event.Event.
	Source string
	// Schema holds the rules. Defaults to "prescient".
	Schema pgsql.Schema
	// Logger is told if a table is locked by another session, whose checks then wait for the next slot.
	// Defaults to slog.Default.
	Logger *slog.Logger
	// Timeout limits the query for a page of keys. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// DefaultTimeout is the default limit of the query for a page of keys.
const DefaultTimeout = 30 * time.Second

const (
	// actTime is the time of a page for its steps, beside its query.
	actTime = 30 * time.Second
	// farthest is about as far as a duration reads. Steps are at most ten years ahead.
	farthest = 290 * 365 * 24 * time.Hour
)

// Register makes a registry know the rules that were applied to the database of a run. Each run
// learns them at the beginning of its slot. A job of the registry keeps its name: a rule with the
// same name is not checked. Returns an error that names a missing field.
func Register(registry *jobs.Registry, cfg CheckConfig) error {
	if cfg.DB == nil || cfg.Publisher == nil || cfg.Timeout < 0 {
		return errors.New("register rules: DB and Publisher must be set, and Timeout not negative")
	}
	if problem := spoken.Unitless(cfg.Timeout); problem != "" {
		return errors.New("register rules: Timeout: " + problem)
	}
	c := &checker{CheckConfig: cfg}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Timeout = max(time.Millisecond, cmp.Or(c.Timeout, DefaultTimeout))
	registry.OnRule(reserved.Caller{}, func(r *jobs.Registry, name string) {
		r.Register(name, jobs.BatchInTx(c.check), jobs.MaxChecks(math.MaxInt32), jobs.Horizon(farthest),
			jobs.Timeout(c.Timeout+actTime))
	})
	return nil
}

// checker checks the rows of all rules.
type checker struct {
	CheckConfig
	rules sync.Map // *compiled by name
}

// check is the function of the job of each rule.
func (c *checker) check(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	p, err := c.lock(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	if p.rule == nil {
		for i := range rows {
			p.end(i, foundRemoved)
		}
		return p.results, nil
	}
	n := p.rule.pace.takes(len(rows))
	p.rows, p.turns, p.results = rows[:n], p.turns[:n], p.results[:n:n]
	left := slices.Repeat([]jobs.Result{{Err: leave.ErrToNext}}, len(rows)-n)
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	switch err := p.read(ctx, all); {
	case errors.Is(err, errLocked):
		for i := range p.rows {
			p.fail(i, errLocked)
		}
		return append(p.results, left...), nil
	case err != nil:
		return nil, err
	}
	if err := p.remember(ctx); err != nil {
		return nil, err
	}
	for i := range p.rows {
		p.plan(i)
	}
	err = p.fire(ctx)
	return append(p.results, left...), err
}
