package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs"
)

// Client reads waiting and ended rows, and does what operators do. It is safe for concurrent use.
//
// If the schema has roles (see pgsql.MakeRoles), List, Show and the methods that read history need
// a reader's rights. Pause, Resume, Retry and Prune need an operator's.
type Client struct {
	jobs *jobs.Client
}

// New returns a Client for the schema and the clock of an application's client.
func New(client *jobs.Client) *Client { return &Client{client} }

// ServedAt returns when a run last knew a job, in UTC and to the hour. The zero time: no run
// ever did, and the job's checks wait until a run does.
func (c *Client) ServedAt(ctx context.Context, db jobs.DB, jobExec string) (time.Time, error) {
	var at time.Time
	err := c.row(ctx, db, pg.JobKnown, []any{jobExec}, pg.UTC(&at))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return at, fmt.Errorf("ask who knows job %s: %w", jobExec, err)
	}
	return at, nil
}

// row runs a statement that returns one row, in the caller's transaction or in a new one.
func (c *Client) row(ctx context.Context, db jobs.DB, stmt pg.Statement, args []any, dest ...any) error {
	return tx.In(ctx, db, func(db tx.DB) error {
		return pg.One(ctx, db, stmt.In(c.jobs.Schema()), args, dest...)
	})
}

// rows runs a statement that only reads. It returns the rows, each as scan fills it in.
func rows[T any](
	ctx context.Context, c *Client, db jobs.DB, stmt pg.Statement, args []any, scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	return tx.Collect(ctx, db, stmt.In(c.jobs.Schema()), args, scan)
}

// scanJob reads a row of the statements job_list or job_show.
func scanJob(row *sql.Rows, j *jobs.FutureJob) error { return j.ReadRow(reserved.Caller{}, row) }

func nullable(s string) sql.NullString {
	return sql.NullString{String: s, Valid: s != ""}
}
