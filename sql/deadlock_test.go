package sql_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Another transaction holds key 2 or 3 until both calls wait. A call that does not take its locks in the order of the
// keys holds another key by then, which the second call needs.
func TestFunctionsThatLockManyRowsNeverDeadlock(t *testing.T) {
	t.Parallel()
	const (
		rule    = "insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')"
		wait    = "select prescient.enqueue('order.late', 'order', $1, check_at => '2030-03-05')"
		replace = `
			select prescient.enqueue_many(
				'{order.late,order.late,order.late}', '{order,order,order}', '{1,2,3}', item_keys => '{"","",""}', check_ats => '{2030-03-07,2030-03-07,2030-03-07}', on_conflict => 'replace')`
		hold = "select from prescient.future_job where entity_key = '2' for update"
	)
	backwards := func(t *testing.T, db *sqlx.DB) { // so that the order of the ids is not that of the keys
		for _, key := range []string{"3", "2", "1"} {
			exec(t, db, wait, key)
		}
	}
	for name, test := range map[string]struct {
		setup  func(t *testing.T, db *sqlx.DB)
		hold   string
		first  string
		second string
	}{
		"rule_look": {
			func(t *testing.T, db *sqlx.DB) { exec(t, db, wait, "1") },
			"select prescient.enqueue('order.late', 'order', '3', check_at => '2030-03-05')",
			"select prescient.rule_look('order.late', 'order', '{3,2,1}', true)",
			"select prescient.rule_look('order.late', 'order', '{1,2,3}', false)",
		},
		"rule_wait_many": {
			func(t *testing.T, db *sqlx.DB) { exec(t, db, wait, "1") },
			"select prescient.enqueue('order.late', 'order', '3', check_at => '2030-03-05')",
			"select prescient.rule_wait_many('order.late', 'order', '{3,2,1}', '{2030-03-06,2030-03-06,2030-03-06}')",
			replace,
		},
		"retime": {
			backwards,
			hold,
			`select prescient.retime(
				'order.late', array_agg(f.next_check_at), array_agg(f.id), array_agg(f.first_check_at::timestamptz),
				array_agg(timestamptz '2030-03-06'), array_agg(null::text)
			)
			from prescient.future_job f`,
			"select prescient.cancel_keys('order.late', 'order', '{1,2,3}')",
		},
		"retry_failed": {
			func(t *testing.T, db *sqlx.DB) {
				backwards(t, db)
				exec(t, db, `
					with gone as (delete from prescient.future_job returning *)
					insert into prescient.future_job_history (
						id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count, error_count, spent, enqueued_at,
						enqueued_by, outcome, finished_at
					)
					select
						g.id, 'order.late', g.entity_name, g.entity_key, g.item_key, g.first_check_at, g.next_check_at, 0, 1, g.spent,
						g.enqueued_at, g.enqueued_by, 'failed', now() - g.entity_key::integer * interval '1 second'
					from gone g`)
			},
			"select prescient.enqueue('order.late', 'order', '2', check_at => '2030-03-05')",
			"select prescient.retry_failed(null, null, null, now() - interval '1 hour', 9, '2030-03-06', null)",
			replace,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db, rule)
			test.setup(t, db)
			held := begin(t, db)
			exec(t, held, test.hold)
			ended := make(chan error, 2)
			for i, c := range []string{test.first, test.second} {
				go func() {
					_, err := db.ExecContext(t.Context(), c)
					ended <- err
				}()
				pgtest.AwaitWaits(t, db, i+1)
			}
			if err := held.Rollback(); err != nil {
				t.Fatal(err)
			}
			for range cap(ended) {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The record ends the claim and then the stay of its run in the slot. The token of the run may be the lower one.
func TestTheRecordThatClosesASlotAndAHeartbeatNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const slot = "2030-03-01 12:00Z"
	exec(t, db, "insert into prescient.job (job, name) values (1, 'remind')")
	exec(t, db, `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		values (1, 'order', '1', '`+slot+`', '`+slot+`')`)
	exec(t, db, "select prescient.open_slot('"+slot+"', 'run', 1, 'me', '1 minute', '"+slot+"')")
	exec(t, db, `insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
		values (2, '`+slot+`', 'run', '{1}', 1, 1, 'me', now() + interval '1 minute')`)
	record := begin(t, db)
	exec(t, record, "delete from prescient.future_job; update prescient.slot_job set drained = true")
	exec(t, record, "select prescient.fence('"+slot+"', 2, 1, true, null)")
	beaten := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), pg.ClaimRenew.In(pgsql.DefaultSchema), pq.Int64Array{1, 2}, time.Minute.Microseconds())
		beaten <- err
	}()
	pgtest.AwaitWaits(t, db, 1)
	if state := get[string](t, record, "select state from prescient.close_slot('"+slot+"', false, 2)"); state != "done" {
		t.Errorf("the slot is %s", state)
	}
	if err := record.Commit(); err != nil {
		t.Error(err)
	}
	if err := <-beaten; err != nil {
		t.Error(err)
	}
}

// The rows of a table may share a key, and an insert of them must not fail.
func TestManyRowsOfARuleWithOneKeyWaitOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')")
	for _, keys := range []string{"{1,2,1}", "{2,2,3}"} {
		exec(t, db, "select prescient.rule_wait_many('order.late', 'order', $1, '{2030-03-06,2030-03-06,2030-03-06}')", keys)
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job"); n != 3 {
		t.Errorf("%d rows wait, want 3", n)
	}
}
