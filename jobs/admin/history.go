package admin

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// HistoryRow is a row of history. It keeps Lateness in steps of 100 ms, and Duration in whole
// milliseconds if the row was checked alone. With these steps, rows with the same end are recorded
// together, at two thirds of the cost. A row of a batch has its share of the time of the batch. Both
// are those of the check that ended the row. They are 0 if no check did, such as for
// OutcomeCancelled, OutcomeReplaced, OutcomeDeadline and OutcomeSkipped.
type HistoryRow struct {
	jobs.FutureJob               // Slot is its slot at the end
	Outcome        jobs.Outcome  `json:"outcome"`
	FinishedAt     time.Time     `json:"finished_at"` // UTC, by the database's clock
	Duration       time.Duration `json:"duration_ns"` // run time of the check that ended the row; 0: no check did
	Runner         string        `json:"runner"`      // that ended the row; empty: its owner did
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

// HistoryFilter narrows a list of ended rows. Zero fields do not narrow.
type HistoryFilter struct {
	JobExec    string
	Outcome    jobs.Outcome
	EntityName string
	EntityKey  string
	ItemKey    *string   // nil: every item; "": rows without an item
	From, To   time.Time // ended from From up to but not including To
	After      Position  // only the rows behind it, which ended earlier
	Limit      int       // rows of the list; default: all of them; of a page: 100
}

// History returns the ended rows, the latest first. It reads them page by page, on a pool each page
// in a transaction of its own. After an error the list ends.
func (c *Client) History(ctx context.Context, db jobs.DB, f HistoryFilter) iter.Seq2[HistoryRow, error] {
	return seq.Pages(f.After, f.Limit, func(after Position, limit int) ([]HistoryRow, Position, error) {
		f := f
		f.After, f.Limit = after, limit
		return c.HistoryPage(ctx, db, f)
	})
}

// HistoryPage returns the first rows of History, up to Limit, or fewer once their payloads have
// 4 MiB. If more rows follow, next is the After of the next page. Otherwise it is zero.
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
			nullable(f.EntityKey), seq.PageBytes, before, f.ItemKey,
		}
		ended, err := rows(ctx, c, db, pg.HistoryList, args, scanEnded)
		if err != nil {
			return nil, Position{}, fmt.Errorf("list history: %w", err)
		}
		n := seq.Fitting(ended, limit, func(e HistoryRow) int { return len(e.Payload) })
		if n < len(ended) {
			next = Position{at: ended[n-1].FinishedAt, id: ended[n-1].ID}
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
	var attempts []byte
	var ack string
	err := e.ReadRow(reserved.Caller{}, row, &e.Outcome, pg.UTC(&e.FinishedAt), pg.Micros(&e.Lateness),
		pg.Micros(&e.Duration), &e.Runner, &attempts, &ack)
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
	return err
}

func micros(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Microsecond
}

// Stats sums up the ended rows of one job with one outcome.
type Stats struct {
	JobExec     string        `json:"job_exec"`
	Outcome     jobs.Outcome  `json:"outcome"`
	Count       int64         `json:"count"`        // rows
	SLA         duration.Text `json:"sla"`          // of the job; 0s: none
	Late        int64         `json:"late"`         // rows that ended by a check which began later than the SLA
	LatenessP50 duration.Text `json:"lateness_p50"` // the median of the checks that ended rows, exact; 0s: none did
	// the 99th percentile of the checks that ended rows, exact; 0s: none did
	LatenessP99 duration.Text `json:"lateness_p99"`
	DurationP50 duration.Text `json:"duration_p50"` // the median run time of the checks that ended rows; 0s: none did
	// the 99th percentile of the run times of the checks that ended rows; 0s: none did
	DurationP99 duration.Text `json:"duration_p99"`
}

// Stats counts the rows that ended from one instant up to but not including another, by job and
// outcome. A zero instant is no bound.
func (c *Client) Stats(ctx context.Context, db jobs.DB, from, to time.Time) ([]Stats, error) {
	from, to = span(from, to)
	stats, err := rows(ctx, c, db, pg.HistoryStats, []any{from, to}, func(row *sql.Rows, s *Stats) error {
		return row.Scan(&s.JobExec, &s.Outcome, &s.Count, pg.Micros(&s.SLA), &s.Late, pg.Micros(&s.LatenessP50),
			pg.Micros(&s.LatenessP99), pg.Micros(&s.DurationP50), pg.Micros(&s.DurationP99))
	})
	if err != nil {
		return nil, fmt.Errorf("read history statistics: %w", err)
	}
	return stats, nil
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
