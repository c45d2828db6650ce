package sql_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const (
	enqueueOne = "select prescient.enqueue('remind', 'order', $1, clock_timestamp() + interval '1 day')"
	waiting    = `select exists (
		select from pg_locks where not granted and relation = $1::regclass and mode = 'AccessExclusiveLock')`
)

// migrating migrates beside other sessions, and returns the result.
func migrating(t *testing.T, db *sqlx.DB, text string) <-chan error {
	migrated := make(chan error, 1)
	go func() { migrated <- pgsql.MigrateWith(t.Context(), db, text) }()
	return migrated
}

func TestAMigrationThatWaitsForATransactionLetsOtherSessionsWrite(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its locks are those of the worker")
	db := pgtest.New(t)
	holder := db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec(enqueueOne, "1")
	migrated := migrating(t, db, "alter table prescient.future_job add column more text;")
	for key := range 3 {
		await.True(t, "the migration to wait", func() bool { return get[bool](t, db, waiting, "prescient.future_job") })
		execWith(t, db, enqueueOne, 10+key)
	}
	select {
	case err := <-migrated:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the migration", migrated); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job where more is null"); n != 4 {
		t.Errorf("%d rows wait", n)
	}
}

func TestAMigrationNeverEndsATransactionByADeadlock(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its locks are those of the worker")
	db := pgtest.New(t)
	other := db.MustBegin()
	defer func() { _ = other.Rollback() }()
	other.MustExec("lock table prescient.rule in row exclusive mode")
	migrated := migrating(t, db, "alter table prescient.future_job add column more text;\n"+
		"alter table prescient.rule add column more text;")
	await.True(t, "the migration to wait", func() bool { return get[bool](t, db, waiting, "prescient.rule") })
	other.MustExec(enqueueOne, "1") // for which the migration holds the lock
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the migration", migrated); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, db, "select count(more) + count(*) from prescient.future_job"); n != 1 {
		t.Errorf("%d rows wait", n)
	}
}

func execWith(t *testing.T, db *sqlx.DB, statement string, args ...any) {
	t.Helper()
	err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
