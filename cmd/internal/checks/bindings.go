package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/httpjob"
	"github.com/prescient-go/prescient/jobs/sqljob"
	pgsql "github.com/prescient-go/prescient/sql"
)

// bind adds to the registry the jobs that the settings bind to a service or a query. The caller calls
// release when it no longer uses the registry. A name that the registry has already is an error of
// usage.
func (b *Bound) bind(f *factory.Factory) (release func(), err error) {
	b.queries, release = queriesOf(f)
	if err := register(f, b.Registry, b.queries, b.Publisher); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// logBroken logs the queries that cannot run. A process that is stopped knows nothing of them.
func (b *Bound) logBroken(ctx context.Context, f *factory.Factory) {
	for i, err := range tryQueries(ctx, b.queries) {
		if err != nil && ctx.Err() == nil {
			f.Log().ErrorContext(ctx, "a job cannot run: its rows will fail, others run",
				"job", b.queries[i].Name, "error", err)
			b.Broken = true
		}
	}
}

// register adds to a registry the jobs that the settings bind to a service, and those of queries.
func register(f *factory.Factory, registry *jobs.Registry, queries []sqljob.Config, publisher event.TxPublisher) error {
	if err := CheckNames(f, registry); err != nil {
		return err
	}
	for _, job := range f.Config().HTTPJobs {
		if err := bindHTTP(f, registry, job); err != nil {
			return &exit.Error{Code: exit.Usage, Err: err}
		}
	}
	for i, job := range f.Config().SQLJobs {
		queries[i].Publisher = publisher
		if err := sqljob.Register(registry, queries[i], options(job.Options)...); err != nil {
			return &exit.Error{Code: exit.Usage, Err: err}
		}
	}
	return nil
}

// Definitions returns a registry with every job of the binary and of the settings, to read and not
// to run. The caller calls release when it no longer uses the registry.
func Definitions(f *factory.Factory) (registry *jobs.Registry, release func(), err error) {
	registry = f.Registry.Clone()
	queries, release := queriesOf(f)
	if err := register(f, registry, queries, outbox.New(nil, f.Schema())); err != nil { // no query is run
		release()
		return nil, nil, err
	}
	return registry, release, nil
}

// CheckNames returns an error if the settings bind the name of a Go job of the binary, or of a job of
// prescient.
func CheckNames(f *factory.Factory, registry *jobs.Registry) error {
	taken := map[string]bool{}
	for d := range registry.All() {
		taken[d.Name] = true
	}
	var problems []error
	refuse := func(section, name string) {
		if reserved.IsJob(name) {
			problems = append(problems, fmt.Errorf("%s binds %q, which is a job of prescient: rename it", section, name))
			return
		}
		if taken[name] {
			problems = append(problems,
				fmt.Errorf("%s binds the job %q, which this binary has in Go: take one of them out, or rename it", section, name))
		}
	}
	for _, job := range f.Config().HTTPJobs {
		refuse("http_jobs", job.Name)
	}
	for _, job := range f.Config().SQLJobs {
		refuse("sql_jobs", job.Name)
	}
	if len(problems) > 0 {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("configuration: %w", errors.Join(problems...))}
	}
	return nil
}

func bindHTTP(f *factory.Factory, registry *jobs.Registry, job config.HTTPJob) error {
	events := f.Config().Events
	secret := job.Secret
	if secret == (config.Secret{}) {
		secret = events.Secret
	}
	return httpjob.Register(registry, httpjob.Config{
		Name: job.Name, URL: job.URL.Reveal(), Secret: secret.Reveal(), Allow: events.AllowedNetworks,
		Timeout: job.Timeout, BatchSize: job.BatchSize, Concurrency: job.Concurrency,
	}, options(job.Options)...)
}

// options returns the options of a job of the settings.
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

// queriesOf returns the jobs that the settings bind to a query, without a publisher. Jobs on one
// database share a pool.
func queriesOf(f *factory.Factory) (list []sqljob.Config, release func()) {
	pools := map[config.URL]*pool{}
	for _, job := range f.Config().SQLJobs {
		p := pools[job.Database]
		if p == nil {
			p = &pool{address: func(context.Context) (string, error) { return job.Database.Reveal(), nil }}
			if job.Database == (config.URL{}) {
				p.address = func(ctx context.Context) (string, error) { return database.Address(ctx, f) }
			}
			pools[job.Database] = p
		}
		p.size += job.Concurrency
		list = append(list, sqljob.Config{
			Name: job.Name, Query: job.Query, DB: p.open, Role: job.Role, Timeout: job.Timeout, BatchSize: job.BatchSize,
			Concurrency: job.Concurrency, Source: f.Config().Events.Source, Type: job.Type,
		})
	}
	return list, func() {
		for _, p := range pools {
			p.close()
		}
	}
}

// pool opens a pool on its first use, because a database that is down when a daemon starts may come
// up later.
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
	// Patient, because each query has its own timeout.
	db, err := database.OpenURL(ctx, url, pgsql.Patient())
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

// checkTime bounds the wait of a run, at its start, for the check whether queries can run.
const checkTime = 5 * time.Second

// tryQueries returns the problem of each query, or nil.
func tryQueries(ctx context.Context, queries []sqljob.Config) []error {
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

// Tried is a query of sql_jobs that was checked, as JSON.
type Tried struct {
	Job      string `json:"job"`      // its name
	Database string `json:"database"` // empty: that of the jobs
	Problem  string `json:"problem"`  // why the query cannot run; empty: it can
}

// TryQueries checks for each query of sql_jobs whether it can run.
func TryQueries(ctx context.Context, f *factory.Factory) []Tried {
	queries, release := queriesOf(f)
	defer release()
	views := []Tried{}
	for i, err := range tryQueries(ctx, queries) {
		job := f.Config().SQLJobs[i]
		view := Tried{Job: job.Name, Database: job.Database.String()}
		if err != nil {
			view.Problem = spoken.Error(err.Error())
		}
		views = append(views, view)
	}
	return views
}

// String describes the query to a reader.
func (v Tried) String() string {
	text := fmt.Sprintf("job %s, on %s: ", v.Job, cmp.Or(v.Database, "the database of the jobs"))
	if v.Problem == "" {
		return text + "its query can run"
	}
	return text + strings.Map(plain.Printable, v.Problem)
}
