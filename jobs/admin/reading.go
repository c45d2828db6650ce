package admin

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Filter narrows a list of waiting checks. Zero fields do not narrow.
type Filter struct {
	JobExec    string
	EntityName string
	EntityKey  string
	From, To   time.Time // slots from From up to but not including To
	After      Position  // only the checks behind it
	Limit      int       // checks of the list; default: all of them; of a page: 100
}

// List returns the waiting checks, ordered by slot. It reads them page by page, on a pool each page
// in a transaction of its own. A check that moves meanwhile to a later slot may come again. After an
// error the list ends.
func (c *Client) List(ctx context.Context, db jobs.DB, f Filter) iter.Seq2[jobs.FutureJob, error] {
	return seq.Pages(f.After, f.Limit, func(after Position, limit int) ([]jobs.FutureJob, Position, error) {
		f := f
		f.After, f.Limit = after, limit
		return c.ListPage(ctx, db, f)
	})
}

// ListPage returns the first checks of List, up to Limit, or fewer once their payloads have 4 MiB. If
// more checks follow, next is the After of the next page. Otherwise it is zero.
func (c *Client) ListPage(ctx context.Context, db jobs.DB, f Filter) (page []jobs.FutureJob, next Position, err error) {
	from, to := span(f.From, f.To)
	limit := cmp.Or(f.Limit, defaultLimit)
	args := []any{
		nullable(f.JobExec), nullable(f.EntityName), from, to, limit + 1, f.After.at, f.After.job, f.After.id,
		nullable(f.EntityKey), pageBytes,
	}
	type numbered struct {
		jobs.FutureJob
		job int64
	}
	waiting, err := rows(ctx, c, db, pg.JobList, args, func(row *sql.Rows, v *numbered) error {
		return jobs.ScanJob(row, &v.FutureJob, &v.job)
	})
	if err != nil {
		return nil, Position{}, fmt.Errorf("list checks: %w", err)
	}
	n := fitting(waiting, limit, func(v numbered) int { return len(v.Payload) })
	if n < len(waiting) {
		last := waiting[n-1]
		next = Position{last.NextCheckAt, last.job, last.ID}
	}
	for _, v := range waiting[:n] {
		page = append(page, v.FutureJob)
	}
	return page, next, nil
}

// defaultLimit is the default of the Limit of a page.
const defaultLimit = 100

// Show returns the waiting checks of one entity, at most the first MaxRows. It leaves out anonymous
// checks.
func (c *Client) Show(ctx context.Context, db jobs.DB, entityName, entityKey string) ([]jobs.FutureJob, error) {
	waiting, err := rows(ctx, c, db, pg.JobShow, []any{entityName, entityKey, MaxRows}, scanJob)
	if err != nil {
		return nil, fmt.Errorf("show the checks of %s %s: %w", entityName, entityKey, err)
	}
	return waiting, nil
}

// HistoryRow is a row of history. It keeps Lateness in steps of 100 ms, and Duration in whole
// milliseconds if the row was checked alone. With these steps, rows with the same end are recorded
// together, at two thirds of the cost. A row of a batch has its share of the time of the batch.
type HistoryRow struct {
	jobs.FutureJob               // Slot is its slot at the end
	Outcome        jobs.Outcome  `json:"outcome"`
	EndedAt        time.Time     `json:"ended_at"`    // UTC, by the database's clock
	Duration       time.Duration `json:"duration_ns"` // run time of the last check; 0: no check ran
	Runner         string        `json:"runner"`      // that ran the last check; empty: its owner ended it
	// Attempts are the checks that failed and were retried, the oldest first, as far as the row's
	// journal has them; see Timeline. If an error ended the row, LastError has it.
	Attempts []FailedAttempt `json:"attempts"`
	// Acked tells who has acknowledged that the row failed. Nil: no operator has.
	Acked *Acked `json:"acked"`
}

// FailedAttempt is a check that failed.
type FailedAttempt struct {
	Slot   time.Time `json:"slot"` // UTC
	Runner string    `json:"runner"`
	Error  string    `json:"error"` // of the check
}

// HistoryFilter narrows a list of ended checks. Zero fields do not narrow.
type HistoryFilter struct {
	JobExec    string
	Outcome    jobs.Outcome
	EntityName string
	EntityKey  string
	From, To   time.Time // ended from From up to but not including To
	After      Position  // only the checks behind it, which ended earlier
	Limit      int       // checks of the list; default: all of them; of a page: 100
}

// History returns the ended checks, the latest first. It reads them page by page, on a pool each page
// in a transaction of its own. After an error the list ends.
func (c *Client) History(ctx context.Context, db jobs.DB, f HistoryFilter) iter.Seq2[HistoryRow, error] {
	return seq.Pages(f.After, f.Limit, func(after Position, limit int) ([]HistoryRow, Position, error) {
		f := f
		f.After, f.Limit = after, limit
		return c.HistoryPage(ctx, db, f)
	})
}

// HistoryPage returns the first checks of History, up to Limit, or fewer once their payloads have
// 4 MiB. If more checks follow, next is the After of the next page. Otherwise it is zero.
func (c *Client) HistoryPage(
	ctx context.Context, db jobs.DB, f HistoryFilter,
) (page []HistoryRow, next Position, err error) {
	from, to := span(f.From, f.To)
	var before int64 // the ids of the rows that ended at to
	if !f.After.IsZero() && f.After.at.Before(to) {
		to, before = f.After.at, f.After.id
	}
	limit := cmp.Or(f.Limit, defaultLimit)
	since := from
	if f.EntityName == "" {
		since = grid.Later(from, grid.Earlier(to, c.jobs.Now()).Add(-firstSpan))
	}
	for span := firstSpan; ; span *= spanGrowth {
		args := []any{
			since, to, nullable(f.JobExec), nullable(string(f.Outcome)), limit + 1, nullable(f.EntityName),
			nullable(f.EntityKey), pageBytes, before,
		}
		ended, err := rows(ctx, c, db, pg.HistoryList, args, scanEnded)
		if err != nil {
			return nil, Position{}, fmt.Errorf("list history: %w", err)
		}
		n := fitting(ended, limit, func(e HistoryRow) int { return len(e.Payload) })
		if n < len(ended) {
			next = Position{at: ended[n-1].EndedAt, id: ended[n-1].ID}
		}
		if n < len(ended) || !since.After(from) {
			return ended[:n], next, nil
		}
		if since = grid.Later(from, since.Add(-span*spanGrowth)); span > longestSpan {
			since = from
		}
	}
}

// The rows that ended last are looked for in the last minutes of a history, then in more and more of it: the latest 100
// of 5,000,000 rows would otherwise take a sort of all. A filter by entity has an index.
const (
	firstSpan   = 10 * time.Minute
	longestSpan = 30 * 24 * time.Hour
	spanGrowth  = 16
)

func scanEnded(row *sql.Rows, e *HistoryRow) error {
	var lateness, duration *int64
	var attempts []byte
	var ack string
	err := jobs.ScanJob(row, &e.FutureJob, &e.Outcome, &e.EndedAt, &lateness, &duration, &e.Runner, &attempts, &ack)
	if err == nil {
		err = json.Unmarshal(attempts, &e.Attempts)
	}
	if err == nil {
		e.Acked, err = scanAcked(ack)
	}
	for i := range e.Attempts {
		e.Attempts[i].Slot = e.Attempts[i].Slot.UTC()
	}
	e.Slot, e.NextCheckAt = e.NextCheckAt, time.Time{}
	e.EndedAt = e.EndedAt.UTC()
	e.Lateness, e.Duration = micros(lateness), micros(duration)
	return err
}

func micros(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Microsecond
}

// Stats sums up the ended checks of one job with one outcome.
type Stats struct {
	JobExec     string        `json:"job_exec"`
	Outcome     jobs.Outcome  `json:"outcome"`
	Count       int64         `json:"count"` // rows
	SLA         duration.Text `json:"sla"`   // of the job; 0s: none
	Late        int64         `json:"late"`  // rows whose last check began later than the SLA
	LatenessP50 duration.Text `json:"lateness_p50"`
	LatenessP99 duration.Text `json:"lateness_p99"`
	DurationP50 duration.Text `json:"duration_p50"` // the median of the run times
	DurationP99 duration.Text `json:"duration_p99"` // the 99th percentile of the run times
}

// Stats counts the checks that ended from one instant up to but not including another, by job and
// outcome.
func (c *Client) Stats(ctx context.Context, db jobs.DB, from, to time.Time) ([]Stats, error) {
	from, to = span(from, to)
	stats, err := rows(ctx, c, db, pg.HistoryStats, []any{from, to}, func(row *sql.Rows, s *Stats) error {
		var sla, late50, late99, took50, took99 *int64
		err := row.Scan(&s.JobExec, &s.Outcome, &s.Count, &sla, &s.Late, &late50, &late99, &took50, &took99)
		s.SLA = duration.Text(micros(sla))
		s.LatenessP50, s.LatenessP99 = duration.Text(micros(late50)), duration.Text(micros(late99))
		s.DurationP50, s.DurationP99 = duration.Text(micros(took50)), duration.Text(micros(took99))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read history statistics: %w", err)
	}
	return stats, nil
}

// RetryFilter selects failed checks. Zero fields do not narrow, but a filter that only has a Limit is an error.
type RetryFilter struct {
	ID         int64 // of the one row in history
	JobExec    string
	EntityName string
	EntityKey  string
	ItemKey    *string   // nil: every item; "": rows without an item
	Since      time.Time // failed at or after
	All        bool      // all failed checks that the other fields select, perhaps every one, without acknowledged ones
	Limit      int       // default 1000
}

// IsZero reports whether the filter selects nothing, because no field but Limit is set.
func (f RetryFilter) IsZero() bool {
	f.Limit = 0
	return f == RetryFilter{}
}

// Retry moves failed checks from history, with a clean error count, into the first slot at or after
// at. The zero time is the next slot. An instant beyond the horizon is a FieldError. If a
// key already waits, nothing changes for it: its failed row stays in history, and waiting counts it.
// A row that was acknowledged (see [Client.Ack]) is moved only by its EntityKey or its ID.
// Retry never moves rows of job "schedule". Store.Resume of package schedule gives a schedule a new
// row.
func (c *Client) Retry(
	ctx context.Context, db jobs.DB, f RetryFilter, at time.Time,
) (retried, waiting int64, err error) {
	if f.IsZero() {
		return 0, 0, errors.New("retry failed checks: the filter must name something, or be All")
	}
	if at.IsZero() {
		at = c.jobs.Now()
	}
	if err := c.jobs.ValidateDue(at); err != nil {
		return 0, 0, fmt.Errorf("retry failed checks: %w", err)
	}
	if err := c.row(ctx, db, pg.HistoryRetry, append(f.args(), at, c.jobs.Clock()), &retried, &waiting); err != nil {
		return 0, 0, fmt.Errorf("retry failed checks: %w", err)
	}
	return retried, waiting, nil
}

// RetryCount says which checks Retry would find.
type RetryCount struct {
	Checks  int64
	Waiting int64 // of them; they would stay, because their key waits already
	// Digest tells these checks from as many others.
	Digest string
}

// PreviewRetry counts the checks that Retry would find.
func (c *Client) PreviewRetry(ctx context.Context, db jobs.DB, f RetryFilter) (found RetryCount, err error) {
	if err := c.row(ctx, db, pg.BoardRetry, f.args(), &found.Checks, &found.Waiting, &found.Digest); err != nil {
		return RetryCount{}, fmt.Errorf("count failed checks: %w", err)
	}
	return found, nil
}

// args returns the parameters of statements that select failed checks.
func (f RetryFilter) args() []any {
	since, _ := span(f.Since, time.Time{})
	return []any{
		nullable(f.JobExec), nullable(f.EntityName), nullable(f.EntityKey), since, cmp.Or(f.Limit, 1000), f.ItemKey,
		sql.NullInt64{Int64: f.ID, Valid: f.ID != 0},
	}
}

// span replaces zero instants by bounds that do not narrow.
func span(from, to time.Time) (time.Time, time.Time) {
	if from.IsZero() {
		from = time.Unix(0, 0)
	}
	if to.IsZero() {
		to = time.Date(10000, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return from, to
}
