package admin

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
)

// Filter narrows a list of waiting checks. Zero fields do not narrow.
type Filter struct {
	JobExec    string
	EntityName string
	EntityKey  string
	ItemKey    *string   // nil: every item; "": rows without an item
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
		nullable(f.EntityKey), seq.PageBytes, f.ItemKey,
	}
	type numbered struct {
		jobs.FutureJob
		job int64
	}
	waiting, err := rows(ctx, c, db, pg.JobList, args, func(row *sql.Rows, v *numbered) error {
		return v.ReadRow(reserved.Caller{}, row, &v.job)
	})
	if err != nil {
		return nil, Position{}, fmt.Errorf("list checks: %w", err)
	}
	n := seq.Fitting(waiting, limit, func(v numbered) int { return len(v.Payload) })
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
