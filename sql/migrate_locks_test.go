package sql_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const (
	enqueueOne = "select prescient.enqueue('remind', 'order', $1, check_at => clock_timestamp() + interval '1 day')"
	waiting    = `select exists (
		select from pg_locks where not granted and relation = $1::regclass and mode = 'AccessExclusiveLock')`
)

// migrating migrates beside other sessions, and returns the result.
func migrating(t *testing.T, db *sqlx.DB, text string) <-chan error {
	migrated := make(chan error, 1)
	go func() { migrated <- pgsql.MigrateWith(t.Context(), db, text, 60) }()
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

func TestMakingRolesLetsOtherSessionsWriteWhileItWaitsForATransaction(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "roles_wait"
	db := pgtest.New(t)
	pgtest.DropRoles(t, db, schema)
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	holder := db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table roles_wait.rule in row exclusive mode")
	made := make(chan error, 1)
	go func() { made <- pgsql.MakeRoles(t.Context(), db, schema) }()
	for key := range 3 {
		await.True(t, "the roles to wait", func() bool { return get[bool](t, db, waiting, "roles_wait.rule") })
		execWith(t, db, strings.ReplaceAll(enqueueOne, "prescient.", "roles_wait."), 10+key)
	}
	await.True(t, "the roles to wait", func() bool { return get[bool](t, db, waiting, "roles_wait.rule") })
	// The roles hold the lock of this table.
	holder.MustExec(strings.ReplaceAll(enqueueOne, "prescient.", "roles_wait."), "1")
	select {
	case err := <-made:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the roles", made); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, db, "select count(*) from roles_wait.future_job"); n != 4 {
		t.Errorf("%d rows wait", n)
	}
}

func TestAMigrationThatGivesUpNamesTheSessionsThatHoldATable(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its locks are those of the worker")
	db := pgtest.New(t)
	other := db.MustBegin()
	defer func() { _ = other.Rollback() }()
	other.MustExec("set local application_name = 'shop'; select from prescient.rule")
	const text = "alter table prescient.rule add column more text;"
	const tries = 2
	err := pgsql.MigrateWith(t.Context(), db, text, tries)
	var pid int
	var since time.Time
	if err := other.QueryRow("select pg_backend_pid(), now()").Scan(&pid, &since); err != nil {
		t.Fatal(err)
	}
	holder := regexp.MustCompile(fmt.Sprintf(`try again\. Locks are held by session %d of [^ ]+ \(shop, idle in transaction\) since %s, `+
		`which select pg_terminate_backend\(%[1]d\) ends: .*lock timeout`, pid, spoken.Instant(since)))
	if !errors.Is(err, pgsql.ErrLocked) || !pg.IsLockTimeout(err) || !holder.MatchString(err.Error()) {
		t.Errorf("error %v, want %s", err, holder)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MigrateWith(t.Context(), db, text, tries); err != nil {
		t.Error(err)
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
