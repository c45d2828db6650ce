package runcmd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// knownFor is how long a job counts as known after a run that has registered it. status --check has
// the same bound.
const knownFor = 7 * 24 * time.Hour

// isNews reports whether the reader of the log does not know yet that a job's rows leave slots open.
type isNews func(c *jobs.Client, job string) (bool, error)

// unregistered lists jobs that are not registered here, and whose rows therefore leave slots open.
type unregistered struct {
	jobs  []string // sorted
	slots int      // how many slots stay open
}

// add adds the unknown jobs of a slot that a run has left open.
func (u *unregistered) add(r slots.Result) {
	if r.State != slots.StateOpen || len(r.Unknown) == 0 {
		return
	}
	u.slots++
	u.jobs = append(u.jobs, r.Unknown...)
	slices.Sort(u.jobs)
	u.jobs = slices.Compact(u.jobs)
}

// cannotRun logs the jobs whose rows leave slots open. It returns an error without text and with the
// code Found if no run of the last 7 days has registered one of these jobs, or if a query of sql_jobs
// cannot run. A job that is no news is logged at the level info.
func cannotRun(
	ctx context.Context, f *factory.Factory, b *checks.Bound, now time.Time, left unregistered, news isNews,
) error {
	if len(left.jobs) > 0 {
		nowhere, err := logUnregistered(ctx, f, b.DB, now, left, news)
		if err != nil {
			return err
		}
		if nowhere {
			return &exit.Error{Code: exit.Found}
		}
	}
	if b.Broken {
		return &exit.Error{Code: exit.Found}
	}
	return nil
}

// logUnregistered logs the jobs whose rows leave slots open. It reports whether no run of the last 7
// days has registered one of them.
func logUnregistered(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, now time.Time, all unregistered, news isNews,
) (bool, error) {
	c, err := database.Client(ctx, f, db, nil)
	if err != nil {
		return false, err
	}
	elsewhere, nowhere, err := splitBy(all.jobs, func(job string) (bool, error) {
		at, err := admin.New(c).RegisteredAt(ctx, db, job)
		return now.Sub(at) < knownFor, err
	})
	if err != nil {
		return false, err
	}
	for _, left := range []struct {
		jobs  []string
		level slog.Level
		text  string
	}{
		{elsewhere, slog.LevelWarn, "rows are left, and their slots open, since their jobs are not registered here: " +
			"run these with a binary that has them"},
		{nowhere, slog.LevelError, "rows are left, and their slots open, since no run of the last 7 days has " +
			"registered their jobs: run these with a binary that has them, or cancel the rows if a name is wrong"},
	} {
		fresh, known, err := splitBy(left.jobs, func(job string) (bool, error) { return news(c, job) })
		if err != nil {
			return false, err
		}
		if len(fresh) > 0 {
			//nolint:sloglint // one of the two constant texts above
			f.Log().Log(ctx, left.level, left.text, "jobs", spoken.Some(fresh), "slots", all.slots)
		}
		if len(known) > 0 {
			//nolint:sloglint // likewise
			f.Log().InfoContext(ctx, left.text, "jobs", spoken.Some(known), "slots", all.slots)
		}
	}
	return len(nowhere) > 0, nil
}

// splitBy returns the names for which is returns true, and the other names.
func splitBy(names []string, is func(name string) (bool, error)) (with, without []string, err error) {
	for _, name := range names {
		yes, err := is(name)
		if err != nil {
			return nil, nil, err
		}
		if yes {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	return with, without, nil
}

// allNews is isNews of a command that an operator types: every job is news.
func allNews(*jobs.Client, string) (bool, error) { return true, nil }

// newsOfCatchUp returns isNews of catch-up. Every job is news at a terminal, and if the settings set
// the level of the log. In the mail of cron a job is news once a day (UTC).
func newsOfCatchUp(ctx context.Context, f *factory.Factory, db *sqlx.DB, now time.Time) isNews {
	if !f.Quiet() {
		return allNews
	}
	return func(_ *jobs.Client, job string) (fresh bool, err error) {
		err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
			names := []string{}
			err := tx.SelectContext(ctx, &names, pgsql.JobTell.In(f.Schema()), job, now.UTC().Format(time.DateOnly))
			fresh = len(names) > 0
			return err
		})
		if err != nil {
			return false, fmt.Errorf("record that job %s was named: %w", job, err)
		}
		return fresh, nil
	}
}

// newsOfRun returns isNews of run, whose log cron mails: the same rows would be mailed in every slot.
// A job is news if its first slot with rows was not left open before, and in the first slot of each
// day (UTC).
func newsOfRun(ctx context.Context, db *sqlx.DB, slot time.Time, view runView) isNews {
	if slot.Equal(slot.Truncate(24 * time.Hour)) {
		return allNews
	}
	leftNow := map[int64]bool{view.Slot.Unix(): true}
	var listed time.Time // every slot up to here is in the view, if it leaves slots out
	if c := view.CatchUp; c != nil {
		for _, s := range c.Slots {
			leftNow[s.Slot.Unix()] = leftNow[s.Slot.Unix()] || s.Was != slots.StateOpen
		}
		if c.MoreSlots > 0 {
			listed = c.Slots[len(c.Slots)-1].Slot
		}
	}
	return func(c *jobs.Client, job string) (bool, error) {
		first, _, err := admin.New(c).ListPage(ctx, db, admin.Filter{JobExec: job, Limit: 1})
		if err != nil || len(first) == 0 {
			return false, err
		}
		at := first[0].NextCheckAt
		return leftNow[at.Unix()] || !listed.IsZero() && at.After(listed), nil
	}
}
