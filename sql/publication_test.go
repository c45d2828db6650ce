package sql_test

import (
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestEveryTableHasAReplicaIdentity(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.make_history_month('2033-01-01')")
	for _, table := range list(t, db, `
		select relname
		from pg_class c
		where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p')
			and relreplident <> 'f'
			and not (relreplident = 'd' and exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary))`) {
		t.Errorf("table %s has none", table)
	}
}

// A publication forbids updates and deletes of a table without a replica identity, whatever
// wal_level is.
func TestAPublicationOfAllTablesForbidsNothing(t *testing.T) {
	pgtest.NotOnCitus(t, "a publication is of one node")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "create publication of_everything for all tables")
	exec(t, db, `insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count,
			spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'remind', 'order', n::text, '2030-03-01', '2030-03-01', 0, 1, '0', '2030-02-01', 'me', 'failed', at
		from (values (1, timestamptz '2033-01-15'), (2, timestamptz '2019-01-15'), (3, clock_timestamp())) as v (n, at)`)
	exec(t, db, "select prescient.make_history_month('2033-01-01')") // moves row 1
	exec(t, db, "select prescient.make_history_month('2018-01-01')")
	exec(t, db, "select * from prescient.drop_history_months('2020-01-01')") // deletes row 2 from the rest
	if n := get[int](t, db, "select count(*) from prescient.future_job_history"); n != 2 {
		t.Errorf("%d rows, want the one that was moved and the new one", n)
	}
	exec(t, db, "update prescient.future_job_history set last_error = 'no'")
	exec(t, db, "delete from prescient.future_job_history")
}
