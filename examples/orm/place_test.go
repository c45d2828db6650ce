package orm

import (
	"errors"
	"os"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/prescient-go/prescient/examples/orm/ent"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestAnOrderAndItsCheckArePlacedTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), pgtest.URL(t)
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tables, err := os.ReadFile("orders.sql")
	if err != nil {
		t.Fatal(err)
	}
	db.MustExec(string(tables))
	client, err := jobs.NewClient(ctx, db, jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	over := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = over.Close() })
	ofGorm, err := gorm.Open(postgres.New(postgres.Config{Conn: over}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ofEnt := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, over)))
	ofBun := bun.NewDB(over, pgdialect.New())

	refused := errors.New("the order is not valid")
	id := 0
	for name, place := range map[string]func(o Order) error{
		"database/sql":      func(o Order) error { return DatabaseSQL(ctx, db.DB, client, o) },
		"database/sql, pgx": func(o Order) error { return DatabaseSQL(ctx, over, client, o) },
		"sqlx":              func(o Order) error { return Sqlx(ctx, db, client, o) },
		"pgx":               func(o Order) error { return Pgx(ctx, pool, client, o) },
		"sqlc":              func(o Order) error { return Sqlc(ctx, pool, client, o) },
		"gorm":              func(o Order) error { return Gorm(ctx, ofGorm, client, o) },
		"ent":               func(o Order) error { return Ent(ctx, ofEnt, client, o) },
		"bun":               func(o Order) error { return Bun(ctx, ofBun, client, o) },
	} {
		for _, invalid := range []error{nil, refused} {
			id++
			if err := place(Order{ID: id, Customer: "Ada", Validate: func() error { return invalid }}); !errors.Is(err, invalid) {
				t.Errorf("%s: %v", name, err)
			}
			var placed, checked int
			err := db.QueryRow(`select (select count(*) from orders where id = $1),
				(select count(*) from prescient.future_job where entity_key = $1::text)`, id).Scan(&placed, &checked)
			if want := map[bool]int{true: 1}[invalid == nil]; err != nil || placed != want || checked != want {
				t.Errorf("%s: %d orders, %d checks, %v", name, placed, checked, err)
			}
		}
	}
}

func TestAClientOpensOnTheOwnPoolOfGorm(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ofGorm, err := gorm.Open(postgres.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := ofGorm.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	client, err := jobs.NewClient(ctx, sqlx.NewDb(pool, "pgx"), jobs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := check(ctx, client, jobs.OwnTx(pool), Order{ID: 1}); err != nil {
		t.Error(err)
	}
}
