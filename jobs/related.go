package jobs

import (
	"context"
	"fmt"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/tx"
)

// Related returns the waiting checks of the entity of a check, and of its group if it has a
// GroupKey. They are of any job, due or not, ordered by slot, and include job itself. So a group
// function can consider all of them in its transaction. It ends finished ones with End, and moves
// or cancels others by key. Related finds only the anonymous rows of the group.
func (c *Client) Related(ctx context.Context, db DB, job FutureJob) ([]FutureJob, error) {
	args := []any{job.EntityName, job.EntityKey, nullable(job.GroupKey)}
	related, err := tx.Collect(ctx, db, pg.JobRelated.In(c.schema), args, scanJob)
	if err != nil {
		return nil, fmt.Errorf("list checks related to %s: %w", job.Key(), err)
	}
	return related, nil
}

// End ends waiting checks that were read, as OutcomeDone (the awaited event has happened) or OutcomeCancelled. It
// returns the number of ended rows, and skips a row that has moved or ended since. A request that an
// enqueue has recorded on a row is honoured if the row ends as OutcomeDone; see OnConflict. It needs the
// rights of a runner.
func (c *Client) End(ctx context.Context, tx Tx, outcome Outcome, rows ...FutureJob) (int64, error) {
	if outcome != OutcomeDone && outcome != OutcomeCancelled {
		return 0, fmt.Errorf("end %s: outcome is %q; it must be %s or %s", spoken.Count(len(rows), "job", "jobs"), outcome,
			OutcomeDone, OutcomeCancelled)
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
	if err := c.row(ctx, tx, pg.JobEnd,
		[]any{slots.literal(), pq.StringArray(names), pq.Int64Array(ids), outcome, c.clock()}, &n); err != nil {
		return 0, fmt.Errorf("end %s: %w", spoken.Count(len(rows), "job", "jobs"), err)
	}
	return n, nil
}
