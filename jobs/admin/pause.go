package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
)

// PausedJob is a job whose rows wait until it is resumed.
type PausedJob struct {
	JobExec  string    `json:"job_exec"`
	PausedAt time.Time `json:"paused_at"` // UTC
	PausedBy string    `json:"paused_by"` // the actor (see jobs.SetActor) or, without one, the database role
}

// Pause holds back the rows of a job: runs and catch-up claim none of them, and close slots without
// them. A run that is under way finishes the rows that it has claimed. Pause returns false if the
// job was already paused. A job that was never enqueued may be paused.
func (c *Client) Pause(ctx context.Context, db jobs.DB, jobExec string) (bool, error) {
	return c.setPaused(ctx, db, "pause", pg.JobPause, jobExec)
}

// Resume ends a pause. Rows whose slots have passed meanwhile are stragglers, and catch-up takes
// them. It returns whether the job was paused.
func (c *Client) Resume(ctx context.Context, db jobs.DB, jobExec string) (bool, error) {
	return c.setPaused(ctx, db, "resume", pg.JobResume, jobExec)
}

func (c *Client) setPaused(
	ctx context.Context, db jobs.DB, verb string, stmt pg.Statement, jobExec string,
) (bool, error) {
	var changed string
	err := jobs.Key{JobExec: jobExec}.ValidateJob(reserved.Caller{})
	if err == nil {
		err = c.row(ctx, db, stmt, []any{jobExec}, &changed)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("%s job %s: %w", verb, jobExec, err)
	}
	return err == nil, nil
}

// JobNames returns at most limit names of jobs, sorted: jobs that have ever been enqueued, and
// paused jobs.
func (c *Client) JobNames(ctx context.Context, db jobs.DB, limit int) ([]string, error) {
	names, err := rows(ctx, c, db, pg.JobNames, []any{limit}, func(row *sql.Rows, name *string) error {
		return row.Scan(name)
	})
	if err != nil {
		return nil, fmt.Errorf("list the names of jobs: %w", err)
	}
	return names, nil
}

// Paused returns the paused jobs, sorted by name.
func (c *Client) Paused(ctx context.Context, db jobs.DB) ([]PausedJob, error) {
	paused, err := rows(ctx, c, db, pg.JobPaused, nil, func(row *sql.Rows, p *PausedJob) error {
		var at int64
		err := row.Scan(&p.JobExec, &at, &p.PausedBy)
		p.PausedAt = time.UnixMicro(at).UTC()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list paused jobs: %w", err)
	}
	return paused, nil
}
