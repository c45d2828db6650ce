package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

// unshipped is the name of the check. It is stored with every order that waits for it, so it must
// not change.
const unshipped = "order.unshipped"

// rule says when alerts are due, counted from when an order was placed.
type rule struct {
	primary, final time.Duration
	cancel         bool // the transaction that ships an order cancels them, see cancel.go
}

// memo is what a check needs to know besides its order.
type memo struct {
	FinalAt time.Time `json:"final_at"`
}

// ask returns the checks to enqueue with new orders.
func (r rule) ask(placed []order) (list []jobs.Request, err error) {
	for _, o := range placed {
		if !r.cancel {
			job, err := r.check(o)
			if err != nil {
				return nil, err
			}
			list = append(list, job)
		} else if !o.shippedAt.Valid {
			list = append(list, r.alerts(o)...)
		}
	}
	return list, nil
}

// check returns the first check of an order, and notes when the final one is due.
func (r rule) check(o order) (jobs.Request, error) {
	job := jobs.Request{JobExec: unshipped, EntityName: "orders", EntityKey: o.id}
	job.CheckAt = o.placedAt.Add(r.primary)
	return job, job.SetPayload(memo{FinalAt: o.placedAt.Add(r.final)})
}

// checkUnshipped raises an alert for an order that is not shipped. The first check raises a primary
// alert and returns the time of the second, which raises the final one. Nothing cancels a check: it
// finds out here that the order is shipped. The alert and the outcome are committed together.
func (s shop) checkUnshipped(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
	note, err := jobs.Payload[memo](job)
	if err != nil {
		return nil, err
	}
	var shipped bool
	err = tx.GetContext(ctx, &shipped, s.sql(`select shipped_at is not null from shop.orders where id = $1`),
		job.EntityKey)
	switch {
	case errors.Is(err, sql.ErrNoRows): // deleted since
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read order %s: %w", job.EntityKey, err)
	case shipped:
		return nil, nil
	case job.CheckCount > 0:
		return nil, s.raise(ctx, tx, alert{job.EntityKey, "final", job.Slot})
	}
	if err := s.raise(ctx, tx, alert{job.EntityKey, "primary", job.Slot}); err != nil {
		return nil, err
	}
	if !note.FinalAt.After(job.Slot) { // a wide grid: both are due in one slot
		return nil, s.raise(ctx, tx, alert{job.EntityKey, "final", job.Slot})
	}
	return &note.FinalAt, nil
}
