package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/grid"
)

// copier writes requests by COPY, in one transaction, if none of their keys waits.
type copier struct {
	client  *Client
	numbers map[string]int64 // of jobs, found or made by this transaction
	first   time.Time        // of the slots of the rows
}

// copying is a DB with its own COPY, such as one of package pgxjobs.
type copying interface {
	CopyFrom(ctx context.Context, query string, rows iter.Seq[[]any]) (written int64, err error)
}

// preparing is a DB with prepared statements, such as *sql.Tx and *sqlx.Tx. lib/pq does COPY
// through them.
type preparing interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// write writes requests. It writes nothing, and ok is false, in these cases: a key waits already, the
// grid is being changed, a slot has begun meanwhile, the role may only execute functions, or the
// driver has another COPY.
func (w *copier) write(ctx context.Context, tx DB, list []Request) (n EnqueueCounts, ok bool, err error) {
	if _, err := tx.ExecContext(ctx, "savepoint prescient_copy"); err != nil {
		return n, false, fmt.Errorf("set savepoint: %w", err)
	}
	then := "release savepoint prescient_copy"
	if err = w.number(ctx, tx, list); err == nil {
		err = w.copyRows(ctx, tx, list)
	}
	switch {
	case err == nil:
		n.Inserted, ok = int64(len(list)), true
	// Citus turns the other three into InternalError.
	case pg.HasState(err, "", pqerror.UniqueViolation, pqerror.CheckViolation, pqerror.InsufficientPrivilege,
		pqerror.InternalError):
		then = "rollback to savepoint prescient_copy"
	default:
		return n, false, err
	}
	if _, failed := tx.ExecContext(ctx, then); failed != nil {
		return n, false, cmp.Or(err, failed)
	}
	return n, ok, nil
}

// number finds the numbers of jobs that are not known yet.
func (w *copier) number(ctx context.Context, tx DB, list []Request) error {
	var names array
	for _, r := range list {
		if _, known := w.numbers[r.JobExec]; !known {
			w.numbers[r.JobExec] = 0 // looked up only once
			names.add(r.JobExec)
		}
	}
	if names.text.Len() == 0 {
		return nil
	}
	_, err := pg.Collect(ctx, tx, pg.JobNumbers.In(w.client.schema), []any{names.literal()},
		func(row *sql.Rows, number *int64) error {
			var name string
			err := row.Scan(&name, number)
			w.numbers[name] = *number
			return err
		})
	if err != nil {
		return fmt.Errorf("find the numbers of jobs: %w", err)
	}
	return nil
}

func (w *copier) copyRows(ctx context.Context, tx DB, list []Request) error {
	all, err := w.values(ctx, tx, list)
	if err != nil {
		return err
	}
	query := pg.EnqueueCopy.In(w.client.schema)
	var written int64
	switch tx := tx.(type) {
	case copying:
		written, err = tx.CopyFrom(ctx, query, all)
	case preparing:
		written, err = copyIn(ctx, tx, query, all)
	default:
		err = errors.New("the driver has no COPY")
	}
	if err == nil && written < int64(len(list)) {
		err = fmt.Errorf("COPY wrote %d of %d rows: a trigger suppresses the other rows", written, len(list))
	}
	if err != nil {
		return err
	}
	next, _, err := w.nextSlot(ctx, tx)
	if err == nil && w.first.Before(next) {
		err = errors.New("a slot has begun while its rows were written")
	}
	return err
}

// enqueuing reads who enqueues, once for all rows. As defaults of the columns, these values would
// be computed for each row.
type enqueuing struct {
	by                      string
	app, actor, traceparent sql.NullString
}

// nextSlot returns the first slot that has not begun.
func (w *copier) nextSlot(ctx context.Context, tx DB) (next time.Time, who enqueuing, err error) {
	err = pg.One(ctx, tx, pg.NextSlot.In(w.client.schema), []any{w.client.clock()}, &next, &who.by, &who.app,
		&who.actor, &who.traceparent)
	return next, who, err
}

// values returns the columns of the rows of requests. It reads the next slot first, which gives the transaction its
// number. From that number, a run that begins meanwhile knows that rows may still come. If the grid
// has changed, the client keeps its old one.
func (w *copier) values(ctx context.Context, tx DB, list []Request) (iter.Seq[[]any], error) {
	c := w.client
	var width int64
	if err := pg.One(ctx, tx, pg.EnqueueLock.In(c.schema), nil, &width); err != nil {
		return nil, err
	}
	next, who, err := w.nextSlot(ctx, tx)
	if err != nil {
		return nil, err
	}
	w.first = grid.Max()
	g, err := grid.New(time.Duration(width) * time.Second)
	if err != nil {
		return nil, err
	}
	return func(yield func([]any) bool) {
		for _, r := range list {
			slot := r.slot(g, next)
			w.first = grid.Earlier(w.first, slot)
			asked := sql.NullTime{Time: r.checkAt()}
			asked.Valid = !asked.Time.Equal(slot)
			row := []any{
				w.numbers[r.JobExec], r.EntityName, r.EntityKey, r.item(), nullable(r.GroupKey), slot, slot,
				nullable(string(r.Payload)), asked, r.within(),
				who.by, who.app, who.actor, who.traceparent,
			}
			if !yield(row) {
				return
			}
		}
	}, nil
}

// copyIn runs a COPY the way lib/pq does it, and returns how many rows the server wrote.
func copyIn(ctx context.Context, tx preparing, query string, rows iter.Seq[[]any]) (written int64, err error) {
	stmt, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return 0, err
	}
	defer func() { _ = stmt.Close() }()
	for row := range rows {
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return 0, err
		}
	}
	done, err := stmt.ExecContext(ctx) // sends the rest, and waits for the answer
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
