package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// JobStatus sums up the checks of a job over some time. It leaves out slots that have a runner.
type JobStatus struct {
	JobExec string `json:"job_exec"`
	// ServedAt is when a run last had the job, to the hour; null: never.
	ServedAt *time.Time `json:"served_at"`
	// Unserved reports that rows of the job have waited for at least a width, in slots up to the
	// next day, and that no run of the last 7 days had the job.
	Unserved bool  `json:"unserved"`
	Checked  int64 `json:"checked"`
	Failed   int64 `json:"failed"` // checks that ended in an error
	// GaveUp counts the rows that are in history as failed, without those that an operator has acknowledged.
	GaveUp int64 `json:"gave_up"`
	// MaxChecks counts the rows in history as max_checks: they ended because they asked for one check
	// too many.
	MaxChecks int64 `json:"max_checks"`
	// LastSlot is the slot in which rows of the job were last checked, at LastAt, also by catch-up. The
	// counts are those of that slot. Null: none in that time.
	LastSlot    *time.Time `json:"last_slot"`
	LastChecked int64      `json:"last_checked"` // checks in LastSlot
	LastFailed  int64      `json:"last_failed"`  // of these, checks that failed
	LastLate    int64      `json:"last_late"`    // of these, checks that began later than the SLA
	LastGaveUp  int64      `json:"-"`            // as GaveUp
	// LastSettled counts the rows that failed in that slot and need no operator any more: they were cancelled or replaced
	// before their retry, or were given up and then acknowledged.
	LastSettled int64      `json:"-"`
	LastAt      *time.Time `json:"last_at"`       // when rows of LastSlot were last checked; UTC
	Error       string     `json:"error"`         // what it failed with last; empty: it did not
	GaveUpError string     `json:"gave_up_error"` // of the last row of GaveUp that has an error; empty: none has
	// SLA is that of the job; 0: none. Late counts the checks that began later.
	SLA         duration.Text `json:"sla"`
	Late        int64         `json:"late"`
	LatenessP50 duration.Text `json:"lateness_p50"` // the median of lateness, at most a fifth or 100 ms too large
	LatenessP99 duration.Text `json:"lateness_p99"` // its 99th percentile, at most a fifth or 100 ms too large
}

// Kept returns the share of checks that kept the SLA.
func (j JobStatus) Kept() string {
	if j.Checked == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(j.Checked-j.Late)/float64(j.Checked))
}

// aheadFor is how far ahead Jobs looks for rows of jobs that no run knows.
const aheadFor = 24 * time.Hour

// Jobs returns the status of jobs since an instant, in the order of their names: of those that were checked, whose rows
// were given up or ended by max_checks, or that are unserved.
func (l *Ledger) Jobs(ctx context.Context, since time.Time) ([]JobStatus, error) {
	now := l.now()
	args := []any{since, now, now.Add(aheadFor)}
	list, err := list(ctx, l, pg.LedgerJobs, args, func(row *sql.Rows, j *JobStatus) error {
		return row.Scan(&j.JobExec, pg.Micros(&j.SLA), pg.UTC(&j.ServedAt), &j.Unserved, &j.Checked, &j.Failed, &j.Late,
			pg.UTC(&j.LastSlot), &j.LastChecked, &j.LastFailed, &j.LastLate, pg.UTC(&j.LastAt), &j.GaveUp, &j.LastGaveUp,
			&j.LastSettled, &j.MaxChecks, &j.Error, &j.GaveUpError, pg.Micros(&j.LatenessP50), pg.Micros(&j.LatenessP99))
	})
	if err != nil {
		return nil, fmt.Errorf("read the state of the jobs: %w", err)
	}
	return list, nil
}

// LateSlot is a slot in which checks of a job began later than its SLA.
type LateSlot struct {
	Slot    time.Time `json:"slot"`
	JobExec string    `json:"job_exec"`
	Checked int64     `json:"checked"`
	Late    int64     `json:"late"`
}

// LateSlots returns the newest slots since an instant in which checks began later than the SLA of their job.
func (l *Ledger) LateSlots(ctx context.Context, since time.Time, limit int) ([]LateSlot, error) {
	slots, err := list(ctx, l, pg.LedgerLate, []any{since, l.now(), limit}, func(row *sql.Rows, s *LateSlot) error {
		return row.Scan(pg.UTC(&s.Slot), &s.JobExec, &s.Checked, &s.Late)
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
	_, err = list(ctx, l, pg.LedgerSlow, []any{since, l.now()}, func(row *sql.Rows, _ *struct{}) error {
		return row.Scan(pg.UTC(&slot), pg.Micros(&took))
	})
	if err != nil {
		return slot, took, fmt.Errorf("read how long the newest slots took: %w", err)
	}
	return slot, took, nil
}

// OverdueSince returns the first slot with rows of a job that is left to catch-up, or nil. The current slot is
// left to its run until a run has opened it. It lists the rows through c and db.
func (l *Ledger) OverdueSince(ctx context.Context, c *admin.Client, db jobs.DB, job string) (*time.Time, error) {
	current := l.Grid().Floor(l.Now())
	until := l.Grid().Next(current)
	if _, err := l.Show(ctx, current); errors.Is(err, ErrNoSlot) {
		until = current
	} else if err != nil {
		return nil, err
	}
	list, _, err := c.ListPage(ctx, db, admin.Filter{JobExec: job, To: until, Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0].NextCheckAt, nil
}

// Rules returns the names of the rules that were applied, in their order.
func (l *Ledger) Rules(ctx context.Context) ([]string, error) {
	names, err := list(ctx, l, pg.RuleNames, nil, func(row *sql.Rows, name *string) error { return row.Scan(name) })
	return names, wrapped("list the rules", err)
}

// Knows returns a function that reports whether a run with a registry checks the rows of a job: a
// job of the registry, or a rule, if the registry knows rules.
func (l *Ledger) Knows(ctx context.Context, registry *jobs.Registry) (knows func(job string) bool, err error) {
	if registry.KnowsRules(reserved.Caller{}) {
		names, err := l.Rules(ctx)
		if err != nil {
			return nil, err
		}
		registry = registry.WithRules(reserved.Caller{}, names)
	}
	return func(job string) bool {
		_, is := registry.Lookup(job)
		return is
	}, nil
}
