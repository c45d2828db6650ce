package main

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
)

// shop says where the tables of orders and alerts are. The zero value finds them in the search
// path.
type shop struct {
	schema string
}

//go:embed tables.sql
var tables string

// alert is a row of the shop's alerts.
type alert struct {
	OrderID string    `db:"order_id"`
	Alert   string    `db:"alert"`
	Slot    time.Time `db:"slot"`
}

// sql puts the shop's schema into a statement.
func (s shop) sql(text string) string {
	if s.schema == "" {
		return strings.ReplaceAll(text, "shop.", "")
	}
	return strings.ReplaceAll(text, "shop.", pq.QuoteIdentifier(s.schema)+".")
}

// create creates the tables that are missing.
func (s shop) create(ctx context.Context, db *sqlx.DB) error {
	err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, s.sql(tables))
		return err
	})
	if err != nil {
		return fmt.Errorf("create the tables of the shop: %w", err)
	}
	return nil
}

// place writes new orders, with their shipments as far as they are known.
func (s shop) place(ctx context.Context, tx *sqlx.Tx, orders []order) error {
	ids, placed, shipped := make([]string, len(orders)), make([]time.Time, len(orders)), make([]sql.NullTime, len(orders))
	for i, o := range orders {
		ids[i], placed[i], shipped[i] = o.id, o.placedAt, o.shippedAt
	}
	_, err := tx.ExecContext(ctx, s.sql(`
		insert into shop.orders (id, placed_at, shipped_at)
		select * from unnest($1::text[], $2::timestamptz[], $3::timestamptz[])`),
		pq.Array(ids), pq.Array(placed), pq.Array(shipped))
	if err != nil {
		return fmt.Errorf("place orders: %w", err)
	}
	return nil
}

// ship records shipments, and returns how many of the orders exist.
func (s shop) ship(ctx context.Context, tx *sqlx.Tx, orders []order) (int64, error) {
	ids, shipped := make([]string, len(orders)), make([]sql.NullTime, len(orders))
	for i, o := range orders {
		ids[i], shipped[i] = o.id, o.shippedAt
	}
	result, err := tx.ExecContext(ctx, s.sql(`
		update shop.orders o
		set shipped_at = s.shipped_at
		from unnest($1::text[], $2::timestamptz[]) as s (id, shipped_at)
		where o.id = s.id`),
		pq.Array(ids), pq.Array(shipped))
	if err != nil {
		return 0, fmt.Errorf("ship orders: %w", err)
	}
	return result.RowsAffected()
}

// raise writes an alert.
func (s shop) raise(ctx context.Context, tx *sqlx.Tx, a alert) error {
	_, err := tx.ExecContext(ctx, s.sql(`insert into shop.alerts (order_id, alert, slot) values ($1, $2, $3)`), a.OrderID,
		a.Alert, a.Slot)
	if err != nil {
		return fmt.Errorf("raise the %s alert of order %s: %w", a.Alert, a.OrderID, err)
	}
	return nil
}

// alerts lists all alerts by slot, order and kind; texts in the order of their bytes.
func (s shop) alerts(ctx context.Context, db *sqlx.DB) ([]alert, error) {
	var list []alert
	err := pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		list = nil
		return tx.SelectContext(ctx, &list, s.sql(`
			select order_id, alert, slot
			from shop.alerts
			order by slot, order_id collate "C", alert collate "C"`))
	})
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	return list, nil
}
