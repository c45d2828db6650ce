package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// The other way to watch orders: one asks for both of its alerts when it is placed, and the transaction that ships it cancels
// those that still wait. Checks look nothing up then, and are only done where an alert is due; but two rows are written for each
// order instead of one, every way in which an order can be shipped has to cancel them, and each cancelled row is a delete and
// a row of history in that transaction. The check that finds out by itself (check.go) costs one row, which is checked once
// more where the order was shipped in time.
const (
	primaryAlert = "order.primary_alert"
	finalAlert   = "order.final_alert"
)

// alerts asks for the alerts of an order, which are due unless somebody cancels them.
func (r rule) alerts(g grid.Grid, o order) []jobs.FutureJob {
	primary := jobs.FutureJob{JobExec: primaryAlert, EntityName: "order", EntityKey: o.id}
	primary.CheckAt = o.placedAt.Add(r.primary)
	final := jobs.FutureJob{JobExec: finalAlert, EntityName: "order", EntityKey: o.id}
	final.CheckAt = o.placedAt.Add(r.final)
	return []jobs.FutureJob{primary, final}
}

// registerAlerts registers the checks of alerts: nobody has cancelled them, so they are raised.
func registerAlerts(registry *jobs.Registry, s func() shop) {
	for job, kind := range map[string]string{primaryAlert: "primary", finalAlert: "final"} {
		registry.RegisterTx(job, func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
			return nil, s().raise(ctx, tx, alert{job.EntityKey, kind, job.Slot})
		}, jobs.Retry(0))
	}
}

// cancelAlerts cancels, in the transaction that ships orders, what waits for them. It returns how many that were.
func cancelAlerts(ctx context.Context, tx *sqlx.Tx, client *jobs.Client, shipped []order) (n int64, err error) {
	for _, o := range shipped {
		cancelled, err := client.CancelEntity(ctx, tx, "order", o.id)
		if err != nil {
			return n, fmt.Errorf("ship order %s: %w", o.id, err)
		}
		n += cancelled
	}
	return n, nil
}
