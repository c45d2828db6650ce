// Package orm places orders through the libraries that Go teams use, and enqueues the check of an
// order in the same transaction.
package orm

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"gorm.io/gorm"

	"github.com/prescient-go/prescient/examples/orm/ent"
	"github.com/prescient-go/prescient/examples/orm/queries"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/pgxjobs"
)

// Order is a new order. If Validate fails, nothing is placed and nothing is enqueued. Validate charges no card, because
// the commit after it may fail.
type Order struct {
	ID       int
	Customer string
	Validate func() error `bun:"-" gorm:"-"`
}

const insert = "insert into orders (id, customer) values ($1, $2)"

// check enqueues a check of an order two days later, in the transaction that places it.
func check(ctx context.Context, c *jobs.Client, tx jobs.Tx, o Order) error {
	job := jobs.Request{
		JobExec: "order.unshipped", EntityName: "orders", EntityKey: strconv.Itoa(o.ID), CheckAt: c.FromNow(48 * time.Hour),
	}
	_, err := c.Enqueue(ctx, tx, job)
	return err
}

// DatabaseSQL uses a *sql.Tx of any driver.
func DatabaseSQL(ctx context.Context, db *sql.DB, c *jobs.Client, o Order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, insert, o.ID, o.Customer); err != nil {
		return err
	}
	if err := check(ctx, c, tx, o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	return tx.Commit()
}

// Sqlx uses a *sqlx.Tx.
func Sqlx(ctx context.Context, db *sqlx.DB, c *jobs.Client, o Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.NamedExecContext(ctx, "insert into orders (id, customer) values (:id, :customer)", o); err != nil {
		return err
	}
	if err := check(ctx, c, tx, o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	return tx.Commit()
}

// Pgx uses a pgx.Tx.
func Pgx(ctx context.Context, pool *pgxpool.Pool, c *jobs.Client, o Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insert, o.ID, o.Customer); err != nil {
			return err
		}
		if err := check(ctx, c, pgxjobs.Tx(tx), o); err != nil {
			return err
		}
		return o.Validate()
	})
}

// Sqlc uses the transaction of the driver that it generates for, here pgx.
func Sqlc(ctx context.Context, pool *pgxpool.Pool, c *jobs.Client, o Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		order := queries.InsertOrderParams{ID: int64(o.ID), Customer: o.Customer}
		if err := queries.New(tx).InsertOrder(ctx, order); err != nil {
			return err
		}
		if err := check(ctx, c, pgxjobs.Tx(tx), o); err != nil {
			return err
		}
		return o.Validate()
	})
}

// Gorm uses the ConnPool of the statement as its transaction.
func Gorm(ctx context.Context, db *gorm.DB, c *jobs.Client, o Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		if err := check(ctx, c, tx.Statement.ConnPool.(jobs.Tx), o); err != nil {
			return err
		}
		return o.Validate()
	})
}

// Ent uses an *ent.Tx, which also runs statements if it is generated with the feature
// sql/execquery.
func Ent(ctx context.Context, db *ent.Client, c *jobs.Client, o Order) error {
	tx, err := db.Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.Order.Create().SetID(o.ID).SetCustomer(o.Customer).Exec(ctx); err != nil {
		return err
	}
	if err := check(ctx, c, tx, o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	return tx.Commit()
}

// Bun uses the *sql.Tx inside its own, which has another form of parameters.
func Bun(ctx context.Context, db *bun.DB, c *jobs.Client, o Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&o).Exec(ctx); err != nil {
			return err
		}
		if err := check(ctx, c, tx.Tx, o); err != nil {
			return err
		}
		return o.Validate()
	})
}
