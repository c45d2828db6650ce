package sql_test

import (
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// Any login may hold an advisory lock. A job without its row cannot be paused, and has no SLA.
func TestARunRegistersAJobThoughAnotherSessionHoldsTheAdvisoryLockOfItsName(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	holder := db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec(`select pg_advisory_xact_lock(hashtextextended('prescient.job remind', 0))`)
	exec(t, db, `select prescient.register_jobs('{remind,alert}', '{null,1000000}', false)`)
	if got := get[string](t, db, `select string_agg(name || ' ' || (registered_at is not null), ', ' order by name) from prescient.job`); got != "alert true, remind true" {
		t.Errorf("registered are %s", got)
	}
}

// A run does not wait for an application's transaction that inserts the name of one of the run's
// jobs.
func TestARunLeavesANameToATransactionThatBringsIt(t *testing.T) {
	pgtest.NotOnCitus(t, "a timeout is set where the tables are, too")
	t.Parallel()
	db := pgtest.New(t)
	bringing := db.MustBegin()
	defer func() { _ = bringing.Rollback() }()
	bringing.MustExec(`select prescient.enqueue('remind', 'order', '1', check_at => clock_timestamp())`)
	exec(t, db, `select prescient.register_jobs('{remind}', '{null}', false)`)
	if err := bringing.Commit(); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `select prescient.register_jobs('{remind}', '{null}', false)`)
	if n := get[int](t, db, `select count(*) from prescient.job where registered_at is not null`); n != 1 {
		t.Errorf("%d jobs are registered", n)
	}
}
