package sql_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The statements that lock and record a check set what they need, and only for their transaction.
func TestTheTransactionOfACheckOfOneRowHasItsSettings(t *testing.T) {
	pgtest.NotOnCitus(t, "a timeout is set where the tables are, too")
	t.Parallel()
	db := pgtest.New(t)
	db.SetMaxOpenConns(1)
	const slot = "2030-03-01 12:15:00Z"
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('2030-03-01 12:00:00Z')::timestamptz::text, true) is not null then ($1)::timestamptz end)", slot)
	exec(t, db, `insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
		values (7, $1, 'run', '{1}', 1, 1, 'me', 'infinity')`, slot)
	const settings = "select current_setting(name) from unnest('{application_name,lock_timeout,idle_in_transaction_session_timeout}'::text[]) as name"
	before := list(t, db, settings)
	tx := begin(t, db)
	want := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, list(t, tx, settings)); diff != "" {
			t.Error(diff)
		}
	}
	job, id := get[int64](t, tx, "select job from prescient.future_job"), get[int64](t, tx, "select id from prescient.future_job")
	state := get[string](t, tx, pg.CheckBegin.In(pgsql.DefaultSchema), pg.Composite{slot, job, id, false, "checking", "120", "34000", "check of remind"})
	want("checking", "120ms", "34s")
	if actor := get[string](t, tx, "select current_setting('prescient_caller.actor')"); actor != "check of remind" {
		t.Errorf("the actor is %q", actor)
	}
	exec(t, tx, "reset all")
	want(before...)
	exec(t, tx, "select pg_advisory_lock(1)")
	recorded := get[bool](t, tx, pg.RowRecord.In(pgsql.DefaultSchema), pg.Composite{
		slot, 7, 1, job, "remind", id, "done", "", nil, nil, nil, 0, 0, true, "me", nil, nil, state[len("locked "):], "recording", "150", "56000", true,
	})
	want("recording", "150ms", "56s")
	if !recorded || get[int64](t, tx, "select late from prescient.slot_progress where job = $1", job) != 1 {
		t.Error("it is not recorded as late")
	}
	if n := get[int64](t, tx, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"); n != 0 {
		t.Errorf("%d advisory locks are left", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, list(t, db, settings)); diff != "" {
		t.Errorf("after the commit:\n%s", diff)
	}
}
