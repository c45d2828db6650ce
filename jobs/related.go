package jobs

import (
	"context"
	"fmt"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Related returns what else waits for the entity of a check, and in its group where it has a GroupKey: due or not, of any
// job, in the order of their slots, job itself among them. So the function that checks a group, in its transaction,
// considers all that is to come: it ends what it has done with End, and moves or cancels by key what it wants later or not
// at all. Of anonymous rows only those of the group are found.
func (c *Client) Related(ctx context.Context, db DB, job FutureJob) ([]FutureJob, error) {
	args := []any{job.EntityName, job.EntityKey, nullable(job.GroupKey)}
	related, err := list(ctx, c, db, pgsql.JobRelated, args, scanJob)
	if err != nil {
		return nil, fmt.Errorf("list checks related to %s: %w", job.Key(), err)
	}
	return related, nil
}

// End ends waiting checks that were read, as Done (what they were to look after has happened) or Cancelled, and returns
// how many there were: one that has moved or ended since is left alone. It takes the rights of a runner.
func (c *Client) End(ctx context.Context, db DB, outcome Outcome, rows ...FutureJob) (int64, error) {
	if outcome != Done && outcome != Cancelled {
		return 0, fmt.Errorf("end %s: outcome is %q; it must be %s or %s", spoken.Count(len(rows), "job", "jobs"), outcome, Done, Cancelled)
	}
	var slots array
	var names []string
	var ids []int64
	for _, row := range rows {
		slots.addTime(row.NextCheckAt)
		names = append(names, row.JobExec)
		ids = append(ids, row.ID)
	}
	var n int64
	if err := c.row(ctx, db, pgsql.JobEnd, []any{slots.literal(), pq.StringArray(names), pq.Int64Array(ids), outcome}, &n); err != nil {
		return 0, fmt.Errorf("end %s: %w", spoken.Count(len(rows), "job", "jobs"), err)
	}
	return n, nil
}
