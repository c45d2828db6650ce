package sql_test

import (
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// A key of LimitBy may be the key of an order, so there may be many.
func TestANewKeyOfAPaceReadsFewOfManyKeys(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the counters are those of the worker")
	db := pgtest.New(t)
	const keys, fresh, stale = 100_000, 2000, 40_000
	exec(t, db, `insert into prescient.job_rate select 7, n::text, clock_timestamp() from generate_series(1, $1) as n`, keys)
	exec(t, db, `update prescient.job_rate set free_at = '2020-01-01' where key::integer <= $1`, stale)
	exec(t, db, `vacuum prescient.job_rate`)
	tx := begin(t, db)
	defer func() { _ = tx.Rollback() }()
	const counter = `select pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid) from pg_class where oid = 'prescient.job_rate'::regclass`
	before := get[int](t, tx, counter) // by transactions that the session has not reported yet
	exec(t, tx, `select setseed(0.5)`)
	exec(t, tx, `select count(prescient.reserve_rate(7, 'new ' || n, 1, interval '1 millisecond')) from generate_series(1, $1) as n`, fresh)
	read := get[int](t, tx, counter) - before
	if most := 60 * fresh; read > most {
		t.Errorf("%d new keys beside %d read %d rows, want %d at most", fresh, keys, read, most)
	}
	left := get[int](t, tx, `select count(*) from prescient.job_rate where free_at < '2021-01-01'`)
	t.Logf("%d rows were read, and %d of %d stale keys are left", read, left, stale)
	if left > stale-2*fresh {
		t.Errorf("%d of %d stale keys are left, want at least two of them gone for each new key", left, stale)
	}
}
