package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// JobStatus sums up the checks of a job over some time. It leaves out slots that have a runner.
type JobStatus struct {
	JobExec string
	SLA     time.Duration // see jobs.SLA; 0: none
	// RegisteredAt is when a run last registered the job, to the hour; zero: never.
	RegisteredAt time.Time
	// Unregistered reports that rows of the job have waited for at least a width, in slots up to the next day, and that
	// no run of the last 7 days knew the job.
	Unregistered bool

	Checked int64
	Failed  int64 // checks that ended in an error
	Late    int64 // checks that began later than the SLA
	GaveUp  int64 // rows that are in history as failed
	// MaxChecks counts the rows in history as max_checks: they ended because they asked for one check too many.
	MaxChecks int64

	// LastSlot is the slot in which rows of the job were last checked, at LastAt, also by catch-up. The counts are those
	// of that slot.
	LastSlot    time.Time
	LastAt      time.Time
	LastChecked int64
	LastFailed  int64
	LastLate    int64
	LastGaveUp  int64  // rows that are in history as failed
	Error       string // what it failed with last; empty: it did not

	// The median and the 99th percentile of lateness, at most a fifth too large.
	LatenessP50, LatenessP99 time.Duration
}

// aheadFor is how far ahead Jobs looks for rows of jobs that no run knows.
const aheadFor = 24 * time.Hour

// Jobs returns the status of jobs since an instant, in the order of their names: of those that were checked, whose rows
// were given up or ended by max_checks, or that are unregistered.
func (l *Ledger) Jobs(ctx context.Context, since time.Time) ([]JobStatus, error) {
	now := l.now()
	args := []any{since, now, now.Add(aheadFor)}
	list, err := list(ctx, l, pgsql.LedgerJobs, args, func(row *sql.Rows, j *JobStatus) error {
		var sla, p50, p99 sql.NullInt64
		var registered, slot, at sql.NullTime
		err := row.Scan(&j.JobExec, &sla, &registered, &j.Unregistered, &j.Checked, &j.Failed, &j.Late, &slot, &j.LastChecked,
			&j.LastFailed,
			&j.LastLate, &at, &j.GaveUp, &j.LastGaveUp, &j.MaxChecks, &j.Error, &p50, &p99)
		j.SLA, j.LatenessP50, j.LatenessP99 = duration(sla), duration(p50), duration(p99)
		j.RegisteredAt, j.LastSlot = registered.Time.UTC(), slot.Time.UTC()
		j.LastAt = at.Time.UTC()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read how the jobs do: %w", err)
	}
	return list, nil
}

func duration(micros sql.NullInt64) time.Duration {
	return time.Duration(micros.Int64) * time.Microsecond
}

// LateSlot is a slot in which checks of a job began later than its SLA.
type LateSlot struct {
	Slot    time.Time
	JobExec string
	Checked int64
	Late    int64
}

// LateSlots returns the newest slots since an instant in which checks began later than the SLA of their job.
func (l *Ledger) LateSlots(ctx context.Context, since time.Time, limit int) ([]LateSlot, error) {
	slots, err := list(ctx, l, pgsql.LedgerLate, []any{since, l.now(), limit}, func(row *sql.Rows, s *LateSlot) error {
		err := row.Scan(&s.Slot, &s.JobExec, &s.Checked, &s.Late)
		s.Slot = s.Slot.UTC()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list late slots: %w", err)
	}
	return slots, nil
}

// Took returns the slot that took longest, and how long. It looks at the newest four slots since an instant that have
// the present width and were run in their time. A finished slot took until its last outcome, a running one until now.
// Took returns the zero time if there is no such slot.
func (l *Ledger) Took(ctx context.Context, since time.Time) (slot time.Time, took time.Duration, err error) {
	_, err = list(ctx, l, pgsql.LedgerSlow, []any{since, l.now()}, func(row *sql.Rows, _ *struct{}) error {
		var micros sql.NullInt64
		err := row.Scan(&slot, &micros)
		slot, took = slot.UTC(), duration(micros)
		return err
	})
	if err != nil {
		return slot, took, fmt.Errorf("read how long the newest slots took: %w", err)
	}
	return slot, took, nil
}

// Rules returns the names of the rules that were applied, in their order.
func (l *Ledger) Rules(ctx context.Context) ([]string, error) {
	names, err := list(ctx, l, pgsql.RuleNames, nil, func(row *sql.Rows, name *string) error { return row.Scan(name) })
	return names, wrapped("list the rules", err)
}

// Knows returns a function that reports whether a run with a registry checks the rows of a job: a
// job of the registry, or a rule, if the registry knows rules.
func (l *Ledger) Knows(ctx context.Context, registry *jobs.Registry) (knows func(job string) bool, err error) {
	if registry.KnowsRules() {
		names, err := l.Rules(ctx)
		if err != nil {
			return nil, err
		}
		registry = registry.WithRules(names)
	}
	return func(job string) bool {
		_, is := registry.Lookup(job)
		return is
	}, nil
}
