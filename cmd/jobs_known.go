package cmd

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// mostNames is how many jobs of the database are looked at to find one by its name.
const mostNames = 100_000

// jobNames is the jobs that are linked into the binary or bound by the settings: the stock one may have none.
func (a *App) jobNames() (names []string) {
	for d := range a.registry.All() {
		names = append(names, d.Name)
	}
	for _, job := range a.Config().HTTPJobs {
		names = append(names, job.Name)
	}
	for _, job := range a.Config().SQLJobs {
		names = append(names, job.Name)
	}
	return names
}

// has tells whether the commands of this binary that run slots have a job.
func (a *App) has(job string) bool {
	return job == schedule.JobExec || slices.Contains(a.jobNames(), job)
}

// known is an error of usage for the name of a job that neither this binary nor the database has, which names those it may
// have been meant for. An empty name stands for any job.
func (a *App) known(ctx context.Context, db *sqlx.DB, c *jobs.Client, job string) error {
	if job == "" || a.has(job) {
		return nil
	}
	names, err := c.Names(ctx, db, mostNames)
	if pgsql.HasState(err, pqerror.InsufficientPrivilege) {
		return nil // who may only ask for checks does not get to know
	}
	if err != nil || slices.Contains(names, job) {
		return err
	}
	return usagef("there is no job %s: this binary does not have it, and the database has never heard of it%s",
		job, a.meant(job, names))
}

// meant asks whether another job was meant: one of this binary, or of these names. It is empty if no name is near.
func (a *App) meant(job string, names []string) string {
	others := append(slices.Clone(names), a.jobNames()...)
	others = slices.DeleteFunc(others, func(name string) bool { return name == job })
	slices.Sort(others)
	if near := nearest(job, slices.Compact(others)); len(near) > 0 {
		return didYouMean(near)
	}
	return ""
}

// warnNoSuchJob is known for commands that only read, whose result is empty as it is for a job that has nothing.
func (a *App) warnNoSuchJob(ctx context.Context, db *sqlx.DB, c *jobs.Client, job string) {
	if err := a.known(ctx, db, c, job); err != nil {
		a.log.WarnContext(ctx, "is the name right?", "error", err)
	}
}

// knownFor is how long a job counts as known after a run that has registered it, as with status --check.
const knownFor = 7 * 24 * time.Hour

// cannotRun names the jobs whose rows have left slots open, and is an error, without words and with the code Found, where
// nobody will take the rows of one, since no run has registered it, and where a query cannot run.
func (a *App) cannotRun(ctx context.Context, db *sqlx.DB, now time.Time, results []resultView) error {
	var names []string
	slotsOf := map[time.Time]bool{}
	for _, r := range results {
		if r.State == slots.StateOpen && len(r.Unknown) > 0 {
			names = append(names, r.Unknown...)
			slotsOf[r.Slot] = true
		}
	}
	slices.Sort(names)
	elsewhere, nowhere, err := a.registeredElsewhere(ctx, db, now, slices.Compact(names))
	if err != nil {
		return err
	}
	if len(elsewhere) > 0 {
		a.log.WarnContext(ctx, "rows are left, and their slots open, since their jobs are not registered here: "+
			"run these with a binary that has them", "jobs", elsewhere, "slots", len(slotsOf))
	}
	if len(nowhere) > 0 {
		a.log.ErrorContext(ctx, "rows are left, and their slots open, since no run of the last 7 days has registered their jobs: "+
			"run these with a binary that has them, or cancel the rows where a name is wrong", "jobs", nowhere, "slots", len(slotsOf))
	}
	if len(nowhere) > 0 || a.broken {
		return &ExitError{Code: Found}
	}
	return nil
}

// registeredElsewhere tells the jobs that runs of other binaries have registered from those that none has.
func (a *App) registeredElsewhere(ctx context.Context, db *sqlx.DB, now time.Time, names []string) (elsewhere, nowhere []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	c, err := a.client(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	for _, job := range names {
		at, err := c.RegisteredAt(ctx, db, job)
		switch {
		case err != nil:
			return nil, nil, err
		case now.Sub(at) < knownFor:
			elsewhere = append(elsewhere, job)
		default:
			nowhere = append(nowhere, job)
		}
	}
	return elsewhere, nowhere, nil
}
