package sql_test

import (
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// A dead runner had a claim on rows of two jobs, and one of them was paused since. The rows of the other one are found
// again, also if the slot cannot be closed yet because of a third job.
func TestTheRowsOfAClaimThatIsReleasedForAPauseAreClaimedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const slot = "2030-03-01 12:00Z"
	exec(t, db, "insert into prescient.job (job, name) values (1, 'paused'), (2, 'small'), (3, 'limited')")
	exec(t, db, `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select n, 'order', n, '`+slot+`', '`+slot+`' from generate_series(1, 3) as n`)
	exec(t, db, "select prescient.open_slot('"+slot+"', 'run', 1, 'me', '1 minute', '"+slot+"')")
	exec(t, db, `insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
		values (2, '`+slot+`', 'run', '{1,2}', 1, 2, 'dead', now() - interval '1 minute')`)
	exec(t, db, "update prescient.slot_job set drained = true where job < 3; update prescient.slot_run set settled = true")
	exec(t, db, "update prescient.job set paused_at = now(), paused_by = 'me' where job = 1")
	if state := get[string](t, db, "select state from prescient.close_slot('"+slot+"')"); state != "left" {
		t.Errorf("the slot is %s", state)
	}
	exec(t, db, "delete from prescient.future_job where job = 3; update prescient.slot_job set drained = true where job = 3")
	if state := get[string](t, db, "select state from prescient.close_slot('"+slot+"')"); state != "left" {
		t.Errorf("the slot is %s, though a row of job 2 waits", state)
	}
	if n := get[int](t, db, "select count(*) from prescient.slot_job where not drained"); n != 2 {
		t.Errorf("%d jobs have rows, want the paused one and the other one", n)
	}
}
