package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

const unshipped = "order.unshipped"

// checks returns the checks of the shop.
func checks() *jobs.Registry {
	registry := jobs.NewRegistry()
	registry.Register(unshipped, jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx,
			`insert into alert (order_id) select id from orders where id = $1::bigint and shipped_at is null`, job.EntityKey)
		return nil, err
	}))
	return registry
}

// handler accepts orders. An order and its check are committed together.
func handler(db *sqlx.DB, client *jobs.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		id := r.PostFormValue("id")
		err := pgsql.InTx(r.Context(), db, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(r.Context(), `insert into orders (id) values ($1::bigint)`, id); err != nil {
				return err
			}
			check := jobs.Request{
				JobExec: unshipped, EntityName: "orders", EntityKey: id, CheckAt: client.FromNow(48 * time.Hour),
			}
			_, err := client.Enqueue(r.Context(), tx, check)
			return err
		})
		if err != nil {
			slog.ErrorContext(r.Context(), "place order", "error", err)
			http.Error(w, "the order was not placed", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	return mux
}
