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

// copier writes rows of which none waits, by COPY, in one transaction.
type copier struct {
	client  *Client
	numbers map[string]int64 // of jobs, as this transaction has found or made them
}

// preparer is a DB with prepared statements, as *sql.Tx and *sqlx.Tx are.
type preparer interface {
	DB
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// write writes rows. Where one of them waits, where the grid is not the client's any more, where the role may execute
// functions alone, and where tx has no prepared statements, which COPY goes through, it writes nothing, and ok is false.
func (w *copier) write(ctx context.Context, tx DB, rows []FutureJob) (n Counts, ok bool, err error) {
	preparing, can := tx.(preparer)
	if !can {
		return n, false, nil
	}
	if _, err := tx.ExecContext(ctx, "savepoint prescient_copy"); err != nil {
		return n, false, fmt.Errorf("set savepoint: %w", err)
	}
	then := "release savepoint prescient_copy"
	if err = w.number(ctx, tx, rows); err == nil {
		err = w.copyRows(ctx, preparing, rows)
	}
	switch offGrid := pq.As(err, pqerror.CheckViolation); {
	case err == nil:
		n.Inserted, ok = int64(len(rows)), true
	case errors.Is(explainConflict(err), ErrExists), offGrid != nil && offGrid.Constraint == "future_job_on_grid",
		pq.As(err, pqerror.InsufficientPrivilege) != nil:
		then = "rollback to savepoint prescient_copy"
	default:
		return n, false, err
	}
	if _, err := tx.ExecContext(ctx, then); err != nil {
		return n, false, fmt.Errorf("%s: %w", then, err)
	}
	return n, ok, nil
}

// number looks up the jobs of rows whose numbers are not known yet.
func (w *copier) number(ctx context.Context, tx DB, rows []FutureJob) error {
	var names array
	for _, j := range rows {
		if _, known := w.numbers[j.JobExec]; !known {
			w.numbers[j.JobExec] = 0 // asked for once
			names.add(j.JobExec, true)
		}
	}
	if names.text.Len() == 0 {
		return nil
	}
	_, err := pgsql.Collect(ctx, tx, pgsql.JobNumbers.In(w.client.schema), []any{names.literal()}, func(row *sql.Rows, number *int64) error {
		var name string
		err := row.Scan(&name, number)
		w.numbers[name] = *number
		return err
	})
	if err != nil {
		return fmt.Errorf("number jobs: %w", err)
	}
	return nil
}

// copyRows asks for the next slot first, by which the transaction gets its number: a run that begins meanwhile knows
// from it that rows may still come.
func (w *copier) copyRows(ctx context.Context, tx preparer, rows []FutureJob) error {
	c := w.client
	var next time.Time
	var by string
	var app, actor, trace sql.NullString // once: as defaults of the columns they would be found out for each row
	if err := tx.QueryRowContext(ctx, pgsql.NextSlot.In(c.schema), c.clock()).Scan(&next, &by, &app, &actor, &trace); err != nil {
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
		number, asked := w.numbers[j.JobExec], sql.NullTime{Time: j.checkAt()}
		asked.Valid = !asked.Time.Equal(slot)
		_, err := stmt.ExecContext(ctx, number, j.EntityName, j.EntityKey, j.item(), nullable(j.GroupKey), slot, slot, nullable(string(j.Payload)), asked,
			by, app, actor, trace)
		if err != nil {
			return err
		}
	}
	_, err = stmt.ExecContext(ctx) // sends the rest, and waits for the answer
	return err
}
