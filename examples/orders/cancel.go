package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

// The other way to watch orders: an order enqueues both of its alerts when it is placed. The
// transaction that ships it cancels those that still wait. Then checks read nothing, and run only
// if an alert is due. But each order writes two rows instead of one. Every way to ship an order
// must cancel them, and each cancel deletes a row and writes one into history. The check in
// check.go needs one row, which is checked once more if the order was shipped in time.
const (
	primaryAlert = "order.primary_alert"
	finalAlert   = "order.final_alert"
)

// alerts returns the alerts of an order. They are raised unless they are cancelled before.
func (r rule) alerts(o order) []jobs.Request {
	primary := jobs.Request{JobExec: primaryAlert, EntityName: "orders", EntityKey: o.id}
	primary.CheckAt = o.placedAt.Add(r.primary)
	final := jobs.Request{JobExec: finalAlert, EntityName: "orders", EntityKey: o.id}
	final.CheckAt = o.placedAt.Add(r.final)
	return []jobs.Request{primary, final}
}

// registerAlerts registers the checks of alerts. A check that runs was not cancelled, so it raises
// its alert.
func registerAlerts(registry *jobs.Registry, s func() shop, options ...jobs.Option) {
	for job, kind := range map[string]string{primaryAlert: "primary", finalAlert: "final"} {
		registry.Register(job, jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
			return nil, s().raise(ctx, tx, alert{job.EntityKey, kind, job.Slot})
		}), options...)
	}
}

// cancelAlerts cancels the waiting alerts of orders, in the transaction that ships them. It returns
// how many it cancelled.
func cancelAlerts(ctx context.Context, tx *sqlx.Tx, client *jobs.Client, shipped []order) (n int64, err error) {
	for _, o := range shipped {
		for _, job := range []string{primaryAlert, finalAlert} {
			waited, err := client.Cancel(ctx, tx, jobs.Key{JobExec: job, EntityName: "orders", EntityKey: o.id})
			if err != nil {
				return n, fmt.Errorf("ship order %s: %w", o.id, err)
			}
			if waited {
				n++
			}
		}
	}
	return n, nil
}
