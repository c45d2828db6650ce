package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

func initCommand(app *cmd.App) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Create the tables orders and alerts",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withDB(c.Context(), app, func(db *sqlx.DB) error { return shop{}.create(c.Context(), db) })
		},
	}
}

func placeCommand(app *cmd.App) *cobra.Command {
	var r rule
	c := &cobra.Command{
		Use:   "place ID",
		Short: "Place an order now, and ask for its check",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.validate(); err != nil {
				return &cmd.ExitError{Code: cmd.Usage, Err: err}
			}
			return withDB(c.Context(), app, func(db *sqlx.DB) error { return place(c.Context(), app, db, args[0], r) })
		},
	}
	r.flags(c)
	return c
}

// place writes an order and the row of its check, in one transaction: both exist or neither does.
func place(ctx context.Context, app *cmd.App, db *sqlx.DB, id string, r rule) error {
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: app.Config().Database.Schema})
	if err != nil {
		return err
	}
	var waiting jobs.EnqueueResult
	err = pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		o := order{id: id}
		if err := tx.GetContext(ctx, &o.placedAt, `select now()`); err != nil {
			return err
		}
		if err := (shop{}).place(ctx, tx, []order{o}); err != nil {
			return err
		}
		list, err := r.ask([]order{o})
		if err != nil {
			return err
		}
		for _, job := range slices.Backward(list) { // the first of them last
			if waiting, err = client.Enqueue(ctx, tx, job); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(app.Out, "order %s is placed; the slot of its first check is %s\n", id,
		waiting.Slot.Format(time.RFC3339))
	return err
}

func shipCommand(app *cmd.App) *cobra.Command {
	cancel := false
	c := &cobra.Command{
		Use:   "ship ID",
		Short: "Ship an order now; its check will find out",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withDB(c.Context(), app, func(db *sqlx.DB) error { return ship(c.Context(), app, db, args[0], cancel) })
		},
	}
	c.Flags().BoolVar(&cancel, "cancel", false,
		"cancel the alerts of an order that was placed with --cancel")
	return c
}

func ship(ctx context.Context, app *cmd.App, db *sqlx.DB, id string, cancel bool) error {
	client, err := jobs.NewClient(ctx, db, jobs.Config{Schema: app.Config().Database.Schema})
	if err != nil {
		return err
	}
	return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		var now time.Time
		if err := tx.GetContext(ctx, &now, `select now()`); err != nil {
			return err
		}
		shipped := []order{{id: id, shippedAt: sql.NullTime{Time: now, Valid: true}}}
		n, err := shop{}.ship(ctx, tx, shipped)
		if err == nil && n == 0 {
			err = fmt.Errorf("there is no order %s: place it first", id)
		}
		if err == nil && cancel {
			_, err = cancelAlerts(ctx, tx, client, shipped)
		}
		return err
	})
}

func alertsCommand(app *cmd.App) *cobra.Command {
	return &cobra.Command{
		Use:   "raised",
		Short: "List the alerts that were raised, as CSV",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withDB(c.Context(), app, func(db *sqlx.DB) error {
				list, err := shop{}.alerts(c.Context(), db)
				if err != nil {
					return err
				}
				return writeAlerts(app.Out, list)
			})
		},
	}
}

// flags adds --primary and --final.
func (r *rule) flags(c *cobra.Command) {
	c.Flags().DurationVar(&r.primary, "primary", 48*time.Hour,
		"raise the primary alert that long after an order was placed")
	c.Flags().DurationVar(&r.final, "final", 120*time.Hour, "raise the final alert that long after an order was placed")
	c.Flags().BoolVar(&r.cancel, "cancel", false, "ask for both alerts at once; ship --cancel cancels them")
}

func withDB(ctx context.Context, app *cmd.App, fn func(db *sqlx.DB) error) error {
	db, err := app.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return fn(db)
}
