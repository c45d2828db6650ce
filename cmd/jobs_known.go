package cmd

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/spoken"
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

// cannotRun names the jobs whose rows have left slots open. It returns an error without words and with the code Found if no run has
// registered one of these jobs, or if a query cannot run. Jobs that are no news are named where success is told of.
func (a *App) cannotRun(ctx context.Context, db *sqlx.DB, now time.Time, results []resultView, isNews func(job string) (bool, error)) error {
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
	for _, left := range []struct {
		jobs  []string
		level slog.Level
		text  string
	}{
		{elsewhere, slog.LevelWarn, "rows are left, and their slots open, since their jobs are not registered here: " +
			"run these with a binary that has them"},
		{nowhere, slog.LevelError, "rows are left, and their slots open, since no run of the last 7 days has registered their jobs: " +
			"run these with a binary that has them, or cancel the rows where a name is wrong"},
	} {
		news, known, err := splitBy(left.jobs, isNews)
		if err != nil {
			return err
		}
		if len(news) > 0 {
			a.log.Log(ctx, left.level, left.text, "jobs", spoken.Some(news), "slots", len(slotsOf)) //nolint:sloglint // one of the two constant texts above
		}
		if len(known) > 0 {
			a.done(true).InfoContext(ctx, left.text, "jobs", spoken.Some(known), "slots", len(slotsOf)) //nolint:sloglint // likewise
		}
	}
	if len(nowhere) > 0 || a.broken {
		return &ExitError{Code: Found}
	}
	return nil
}

func splitBy(names []string, by func(name string) (bool, error)) (with, without []string, err error) {
	for _, name := range names {
		is, err := by(name)
		if err != nil {
			return nil, nil, err
		}
		if is {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	return with, without, nil
}

// allNews is for a command that a person types.
func allNews(string) (bool, error) { return true, nil }

// news tells which jobs of rows that are left are news to who reads the log of run. Cron would mail the same rows in every slot. News are
// jobs whose first slot with rows was not left open before. In the first slot of a day all are.
func (a *App) news(ctx context.Context, db *sqlx.DB, slot time.Time, view runView) func(job string) (bool, error) {
	if slot.Equal(slot.Truncate(24 * time.Hour)) {
		return allNews
	}
	leftNow := map[int64]bool{view.Slot.Unix(): true}
	if view.CatchUp != nil {
		for _, s := range view.CatchUp.Slots {
			leftNow[s.Slot.Unix()] = leftNow[s.Slot.Unix()] || s.Was != slots.StateOpen
		}
	}
	return func(job string) (bool, error) {
		c, err := a.client(ctx, db)
		if err != nil {
			return false, err
		}
		first, err := c.List(ctx, db, jobs.Filter{JobExec: job, Limit: 1})
		return len(first) > 0 && leftNow[first[0].NextCheckAt().Unix()], err
	}
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
