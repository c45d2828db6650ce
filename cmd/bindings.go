package cmd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/httpjob"
	"github.com/prescient-go/prescient/jobs/sqljob"
	pgsql "github.com/prescient-go/prescient/sql"
)

// bind adds to registry the jobs that the settings bind to a service or a query; what the queries find goes to
// publisher. The caller calls release when the registry is not used any more. A name that registry has already is an
// error of usage. A query that cannot run is logged, and harms the rows of its own job alone.
func (a *App) bind(ctx context.Context, registry *jobs.Registry, publisher event.Publisher) (release func(), err error) {
	queries, release := a.queries()
	if err := a.register(registry, queries, publisher); err != nil {
		release()
		return nil, err
	}
	for i, err := range checkQueries(ctx, queries) {
		if err != nil {
			a.log.ErrorContext(ctx, "a job cannot run: its rows will fail, others run", "job", queries[i].Name, "error", err)
			a.broken = true
		}
	}
	return release, nil
}

// register is bind without a look at whether the queries can run.
func (a *App) register(registry *jobs.Registry, queries []sqljob.Config, publisher event.Publisher) error {
	if err := a.checkNames(registry); err != nil {
		return err
	}
	for _, job := range a.Config().HTTPJobs {
		if err := a.bindHTTP(registry, job); err != nil {
			return &ExitError{Code: Usage, Err: err}
		}
	}
	for i, job := range a.Config().SQLJobs {
		queries[i].Publisher = publisher
		if err := sqljob.Register(registry, queries[i], options(job.Options)...); err != nil {
			return &ExitError{Code: Usage, Err: err}
		}
	}
	return nil
}

// definitions returns a registry with every job of the binary and of the settings, to be looked at and not to be run. The caller
// calls release when it is not used any more.
func (a *App) definitions(ctx context.Context) (registry *jobs.Registry, release func(), err error) {
	registry = engine.Clone(a.registry)
	unused, err := event.Open(ctx, "stdout:", event.Config{}) // no query is run
	if err != nil {
		return nil, nil, err
	}
	queries, release := a.queries()
	if err := a.register(registry, queries, unused); err != nil {
		release()
		return nil, nil, err
	}
	return registry, release, nil
}

// checkNames refuses to bind a name that is a Go job of the binary.
func (a *App) checkNames(registry *jobs.Registry) error {
	taken := map[string]bool{}
	for d := range engine.All(registry) {
		taken[d.Name] = true
	}
	var problems []error
	refuse := func(section, name string) {
		if taken[name] {
			problems = append(problems, fmt.Errorf("%s binds the job %q, which this binary has in Go: take one of them out, or rename it", section, name))
		}
	}
	for _, job := range a.Config().HTTPJobs {
		refuse("http_jobs", job.Name)
	}
	for _, job := range a.Config().SQLJobs {
		refuse("sql_jobs", job.Name)
	}
	if len(problems) > 0 {
		return &ExitError{Code: Usage, Err: fmt.Errorf("configuration: %w", errors.Join(problems...))}
	}
	return nil
}

func (a *App) bindHTTP(registry *jobs.Registry, job config.HTTPJob) error {
	events := a.Config().Events
	secret := job.Secret
	if secret == (config.Secret{}) {
		secret = events.Secret
	}
	return httpjob.Register(registry, httpjob.Config{
		Name: job.Name, URL: job.URL.Reveal(), Secret: secret.Reveal(), Allow: events.AllowedNetworks,
		Timeout: job.Timeout, BatchSize: job.BatchSize, Concurrency: job.Concurrency,
	}, options(job.Options)...)
}

// options is what a job of the settings is registered with.
func options(o config.Options) []jobs.Option {
	list := []jobs.Option{jobs.MaxChecks(o.MaxChecks), jobs.Retry(o.Retry), jobs.Within(o.Within)}
	if o.Deadline > 0 {
		list = append(list, jobs.Deadline(o.Deadline))
	}
	if o.SLA > 0 {
		list = append(list, jobs.SLA(o.SLA))
	}
	return list
}

// queries returns the jobs that the settings bind to a query, without a publisher. Those on one database share a pool.
func (a *App) queries() (list []sqljob.Config, release func()) {
	pools := map[config.URL]*pool{}
	for _, job := range a.Config().SQLJobs {
		p := pools[job.Database]
		if p == nil {
			p = &pool{address: func(context.Context) (string, error) { return job.Database.Reveal(), nil }}
			if job.Database == (config.URL{}) {
				p.address = a.address
			}
			pools[job.Database] = p
		}
		p.size += job.Concurrency
		list = append(list, sqljob.Config{
			Name: job.Name, Query: job.Query, DB: p.open, Role: job.Role, Timeout: job.Timeout, BatchSize: job.BatchSize,
			Concurrency: job.Concurrency, Source: a.Config().Events.Source, Type: job.Type,
		})
	}
	return list, func() {
		for _, p := range pools {
			p.close()
		}
	}
}

// pool is opened when it is first asked for: a database that is down when a daemon starts is there later.
type pool struct {
	address func(ctx context.Context) (string, error)
	size    int

	mu sync.Mutex
	db *sqlx.DB
}

func (p *pool) open(ctx context.Context) (pgsql.Pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db != nil {
		return p.db, nil
	}
	url, err := p.address(ctx)
	if err != nil {
		return nil, err
	}
	// Patient, since each query has a timeout of its own.
	db, err := openURL(ctx, url, pgsql.Patient())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(p.size)
	p.db = db
	return db, nil
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db != nil {
		_ = p.db.Close()
	}
}

// checkTime is how long a run waits at its start to learn whether queries can run.
const checkTime = 5 * time.Second

// checkQueries returns what is wrong with each query, or nil.
func checkQueries(ctx context.Context, queries []sqljob.Config) []error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	errs := make([]error, len(queries))
	var wg sync.WaitGroup
	for i, query := range queries {
		wg.Go(func() { errs[i] = sqljob.Check(ctx, query) })
	}
	wg.Wait()
	return errs
}
