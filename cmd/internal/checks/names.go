package checks

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
)

// MostNames bounds the jobs of the database that are read to find one by its name.
const MostNames = 100_000

// Names returns the jobs that are linked into the binary or bound by the settings. The stock
// binary may have none.
func Names(f *factory.Factory) (names []string) {
	for d := range f.Registry.All() {
		names = append(names, d.Name)
	}
	for _, job := range f.Config().HTTPJobs {
		names = append(names, job.Name)
	}
	for _, job := range f.Config().SQLJobs {
		names = append(names, job.Name)
	}
	return names
}

// Has reports whether the commands of this binary that run slots have a job.
func Has(f *factory.Factory, job string) bool {
	return job == schedule.JobExec || slices.Contains(Names(f), job)
}

// Knows returns a function that reports whether the commands of this binary that run slots have a job,
// or the database has a rule of that name. A login that may not read the rules knows none.
func Knows(ctx context.Context, f *factory.Factory, l *ledger.Ledger) (func(job string) bool, error) {
	rules, err := l.Rules(ctx)
	if err != nil && !pg.HasState(err, pqerror.InsufficientPrivilege) {
		return nil, err
	}
	return func(job string) bool { return Has(f, job) || slices.Contains(rules, job) }, nil
}

// Require returns an error of usage for a job that neither this binary nor the database has. The
// error names similar jobs. An empty name matches any job.
func Require(ctx context.Context, f *factory.Factory, db *sqlx.DB, c *jobs.Client, job string) error {
	if job == "" || Has(f, job) {
		return nil
	}
	names, err := admin.New(c).JobNames(ctx, db, MostNames)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return nil // an app's role may not read this
	}
	if err != nil || slices.Contains(names, job) {
		return err
	}
	return exit.Usagef("there is no job %s: neither this binary nor the database knows it%s",
		job, Meant(f, job, names))
}

// Meant returns a question that names similar jobs, of this binary or of names. It is empty if no
// name is similar.
func Meant(f *factory.Factory, job string, names []string) string {
	known := append(slices.Clone(names), Names(f)...)
	return cli.Meant(job, slices.DeleteFunc(known, func(name string) bool { return name == job }))
}

// Warn is Require for commands that only read. For them an unknown job has the same empty
// result as a job without rows.
func Warn(ctx context.Context, f *factory.Factory, db *sqlx.DB, c *jobs.Client, job string) {
	if err := Require(ctx, f, db, c, job); err != nil {
		f.Log().WarnContext(ctx, "is the name right?", "error", err)
	}
}
