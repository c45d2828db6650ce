package checks

import (
	"context"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/ledger"
)

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
	err := action.RequireJob(ctx, c, db, Names(f), job)
	if _, unknown := errors.AsType[*action.RefusedError](err); unknown {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return err
}

// Meant returns a question that names similar jobs, of this binary or of names. It is empty if no
// name is similar.
func Meant(f *factory.Factory, job string, names []string) string {
	known := append(slices.Clone(names), Names(f)...)
	return spoken.Meant(job, slices.DeleteFunc(known, func(name string) bool { return name == job }))
}

// WarnOfJob warns of a job that neither this binary nor the database has. It is no error, because another binary may
// have the job. of adds to the warning what names the job.
func WarnOfJob(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, c *jobs.Client, job string, of func(err error) error,
) {
	if err := Require(ctx, f, db, c, job); err != nil {
		f.Log().WarnContext(ctx, "is the name of the job right?", "error", of(err))
	}
}

// Warn is Require for commands that only read. For them an unknown job has the same empty
// result as a job without rows.
func Warn(ctx context.Context, f *factory.Factory, db *sqlx.DB, c *jobs.Client, job string) {
	if err := Require(ctx, f, db, c, job); err != nil {
		f.Log().WarnContext(ctx, "is the name right?", "error", err)
	}
}
