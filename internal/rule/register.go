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

// CheckConfig is that of package jobs/rule, which says what its fields mean.
type CheckConfig struct {
	DB        func(ctx context.Context) (pgsql.Pool, error)
	Publisher event.TxPublisher
	Source    string
	Schema    pgsql.Schema
	Logger    *slog.Logger
	Timeout   time.Duration
}

// DefaultTimeout is the default limit of the query for a page of keys.
const DefaultTimeout = 30 * time.Second

const (
	// actTime is the time of a page for its steps, beside its query.
	actTime = 30 * time.Second
	// farthest is about as far as a duration reads. Steps are at most ten years ahead.
	farthest = 290 * 365 * 24 * time.Hour
)

// Register is that of package jobs/rule.
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
