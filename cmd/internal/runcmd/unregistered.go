package runcmd

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// knownFor is how long a job counts as known after a run that has registered it. status --check has
// the same bound.
const knownFor = 7 * 24 * time.Hour

// isNews returns those of the jobs of which the reader of the log does not know yet that their rows leave
// slots open. It asks about all of them at once, because an application may enqueue rows of any number
// of names that no binary has.
type isNews func(names []string) (map[string]bool, error)

// mostUnregistered is how many jobs unregistered holds. An application may enqueue rows of any number of names, of
// other ones in each slot.
const mostUnregistered = 1000

// unregistered holds jobs that are not registered here, and whose rows therefore leave slots open.
type unregistered struct {
	jobs  map[string]bool
	slots int // how many slots stay open
}

// add adds the unknown jobs of a slot that a run has left open.
func (u *unregistered) add(r slots.Result) {
	if r.State != slots.StateOpen || len(r.Unknown) == 0 {
		return
	}
	u.slots++
	if u.jobs == nil {
		u.jobs = map[string]bool{}
	}
	for _, job := range r.Unknown {
		if len(u.jobs) == mostUnregistered {
			break
		}
		u.jobs[job] = true
	}
}

// cannotRun logs the jobs whose rows leave slots open. It returns an error without text and with the
// code Left if no run of the last 7 days had one of these jobs, or if a query of sql_jobs
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
			return &exit.Error{Code: exit.Left}
		}
	}
	if b.Broken {
		return &exit.Error{Code: exit.Left}
	}
	return nil
}

// logUnregistered logs the jobs whose rows leave slots open. It reports whether no run of the last 7
// days has registered one of them.
func logUnregistered(
	ctx context.Context, f *factory.Factory, db *sqlx.DB, now time.Time, all unregistered, news isNews,
) (bool, error) {
	names := slices.Sorted(maps.Keys(all.jobs))
	registered, err := askAbout(ctx, db, pg.JobElsewhere.In(f.Schema()), pq.Array(names), now.Add(-knownFor))
	if err != nil {
		return false, fmt.Errorf("read which jobs other runs have registered: %w", err)
	}
	elsewhere, nowhere := splitBy(names, registered)
	for _, left := range []struct {
		jobs  []string
		level slog.Level
		text  string
	}{
		{elsewhere, slog.LevelWarn, "rows are left, and their slots open, since their jobs are not registered here: " +
			"run these with a binary that has them"},
		{nowhere, slog.LevelError, "rows are left, and their slots open, since no run of the last 7 days had " +
			"their jobs: run these with a binary that has them, or cancel the rows if a name is wrong"},
	} {
		if len(left.jobs) == 0 {
			continue
		}
		told, err := news(left.jobs)
		if err != nil {
			return false, err
		}
		fresh, known := splitBy(left.jobs, told)
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

// askAbout returns the names that a statement returns.
func askAbout(ctx context.Context, db *sqlx.DB, query string, args ...any) (map[string]bool, error) {
	found := map[string]bool{}
	err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		names := []string{}
		err := tx.SelectContext(ctx, &names, query, args...)
		for _, name := range names {
			found[name] = true
		}
		return err
	})
	return found, err
}

// splitBy returns the names that are in a set, and the other names.
func splitBy(names []string, set map[string]bool) (with, without []string) {
	for _, name := range names {
		if set[name] {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	return with, without
}

// allNews is isNews of a command that an operator types: every job is news.
func allNews(names []string) (map[string]bool, error) {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all, nil
}

// newsOfCatchUp returns isNews of catch-up. Every job is news at a terminal, and if the settings set
// the level of the log. In the mail of cron a job is news once a day (UTC).
func newsOfCatchUp(ctx context.Context, f *factory.Factory, db *sqlx.DB, now time.Time) isNews {
	if !f.Quiet() {
		return allNews
	}
	return func(names []string) (map[string]bool, error) {
		told, err := askAbout(ctx, db, pg.JobTell.In(f.Schema()), pq.Array(names), now.UTC().Format(time.DateOnly))
		if err != nil {
			return nil, fmt.Errorf("record which jobs were named: %w", err)
		}
		return told, nil
	}
}

// newsOfRun returns isNews of run, whose log cron mails: the same rows would be mailed in every slot.
// A job is news if its first slot with rows was not left open before, and in the first slot of each
// day (UTC).
func newsOfRun(ctx context.Context, db *sqlx.DB, schema pgsql.Schema, slot time.Time, view runView) isNews {
	if slot.Equal(slot.Truncate(24 * time.Hour)) {
		return allNews
	}
	leftNow := []time.Time{view.Slot}
	listed := sql.NullTime{} // every slot up to here is in the view, if it leaves slots out
	if c := view.CatchUp; c != nil {
		for _, s := range c.Slots {
			if s.Was != slots.StateOpen {
				leftNow = append(leftNow, s.Slot)
			}
		}
		if c.MoreSlots > 0 {
			listed = sql.NullTime{Time: c.Slots[len(c.Slots)-1].Slot, Valid: true}
		}
	}
	return func([]string) (map[string]bool, error) {
		fresh, err := askAbout(ctx, db, pg.JobLeft.In(schema), pq.Array(leftNow), listed)
		if err != nil {
			return nil, fmt.Errorf("read the first slots of the jobs whose rows are left: %w", err)
		}
		return fresh, nil
	}
}
