package tx_test

import (
	"errors"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/tx"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// insert writes a row, and then returns an error.
func insert(t *testing.T, err error) func(db tx.DB) error {
	return func(db tx.DB) error {
		if _, err := db.ExecContext(t.Context(), "insert into tried values (1)"); err != nil {
			return err
		}
		return err
	}
}

func rows(t *testing.T, db *sqlx.DB) (n int) {
	t.Helper()
	if err := db.GetContext(t.Context(), &n, "with gone as (delete from tried returning 1) select count(*) from gone"); err != nil {
		t.Fatal(err)
	}
	return n
}

func setup(t *testing.T) *sqlx.DB {
	t.Helper()
	db := pgtest.New(t)
	db.MustExec("create table tried (n integer)")
	return db
}

func TestAPoolGetsATransactionThatCommitsWithoutAnError(t *testing.T) {
	t.Parallel()
	db := setup(t)
	failed := errors.New("no")
	for name, pool := range map[string]tx.DB{"sqlx.DB": db, "sql.DB": db.DB} {
		if tx.Is(pool) {
			t.Errorf("%s is no transaction", name)
		}
		if err := tx.In(t.Context(), pool, insert(t, nil)); err != nil || rows(t, db) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.In(t.Context(), pool, insert(t, failed)); !errors.Is(err, failed) || rows(t, db) != 0 {
			t.Errorf("%s, with an error: %v", name, err)
		}
	}
}

func TestATransactionIsLeftToItsOwner(t *testing.T) {
	t.Parallel()
	db := setup(t)
	for _, in := range []func(own *sqlx.Tx) error{
		func(own *sqlx.Tx) error { return tx.In(t.Context(), own, insert(t, nil)) },
		func(own *sqlx.Tx) error { return tx.In(t.Context(), own.Tx, insert(t, nil)) },
		func(own *sqlx.Tx) error { return tx.Read(t.Context(), own, insert(t, nil)) },
	} {
		own := db.MustBegin()
		if !tx.Is(own) {
			t.Error("it is a transaction")
		}
		if err := errors.Join(in(own), own.Rollback()); err != nil || rows(t, db) != 0 {
			t.Errorf("it is not rolled back: %v", err)
		}
	}
}

func TestReadOfAPoolWritesNothing(t *testing.T) {
	t.Parallel()
	db := setup(t)
	if err := tx.Read(t.Context(), db, insert(t, nil)); !errors.Is(err, pgsql.ErrReadOnly) || rows(t, db) != 0 {
		t.Error(err)
	}
}

func TestWhatIsMissingIsExplained(t *testing.T) {
	t.Parallel()
	db := setup(t)
	missing := func(db tx.DB) error {
		_, err := db.ExecContext(t.Context(), "select from nowhere")
		return err
	}
	own := db.MustBegin()
	defer func() { _ = own.Rollback() }()
	for _, at := range []tx.DB{db, own} {
		if err := tx.In(t.Context(), at, missing); !errors.Is(err, pgsql.ErrNotMigrated) || pq.As(err, pqerror.UndefinedTable) == nil {
			t.Error(err)
		}
	}
	if err := tx.Mixed(t.Context(), db, missing); errors.Is(err, pgsql.ErrNotMigrated) || pq.As(err, pqerror.UndefinedTable) == nil {
		t.Errorf("of the application: %v", err)
	}
}
