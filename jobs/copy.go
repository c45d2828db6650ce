package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	pgsql "github.com/prescient-go/prescient/sql"
)

// copyFresh writes rows of which none waits, by COPY. Where one does, where the grid is not the client's any more, and
// where tx has no prepared statements, which COPY goes through, it writes nothing, and ok is false.
func (c *Client) copyFresh(ctx context.Context, tx DB, rows []FutureJob) (n Counts, ok bool, err error) {
	preparing, can := tx.(preparer)
	if !can {
		return n, false, nil
	}
	if _, err := tx.ExecContext(ctx, "savepoint prescient_copy"); err != nil {
		return n, false, fmt.Errorf("set savepoint: %w", err)
	}
	then := "release savepoint prescient_copy"
	err = c.copyRows(ctx, preparing, rows)
	switch offGrid := pq.As(err, pqerror.CheckViolation); {
	case err == nil:
		n.Inserted, ok = int64(len(rows)), true
	case errors.Is(explainConflict(err), ErrExists), offGrid != nil && offGrid.Constraint == "future_job_on_grid":
		then = "rollback to savepoint prescient_copy"
	default:
		return n, false, err
	}
	if _, err := tx.ExecContext(ctx, then); err != nil {
		return n, false, fmt.Errorf("%s: %w", then, err)
	}
	return n, ok, nil
}

// preparer is a DB with prepared statements, as *sql.Tx and *sqlx.Tx are.
type preparer interface {
	DB
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (c *Client) copyRows(ctx context.Context, tx preparer, rows []FutureJob) error {
	var next time.Time
	if err := tx.QueryRowContext(ctx, pgsql.NextSlot.In(c.schema), c.clock()).Scan(&next); err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, pgsql.EnqueueCopy.In(c.schema))
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	for _, j := range rows {
		slot := c.Grid().Ceil(j.nextCheckAt)
		if slot.Before(next) {
			slot = next
		}
		_, err := stmt.ExecContext(ctx, j.JobExec, j.EntityName, j.EntityKey, j.item(), nullable(j.GroupKey), slot, slot, nullable(string(j.Payload)))
		if err != nil {
			return err
		}
	}
	_, err = stmt.ExecContext(ctx) // sends the rest, and waits for the answer
	return err
}
