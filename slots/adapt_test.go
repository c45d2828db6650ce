package slots_test

import (
	"testing"

	"github.com/prescient-go/prescient/slots"
)

func TestWhenWritesAreSlowTheBatchShrinks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`
		create table written (xid xid8, at timestamptz);
		create function slow() returns trigger language plpgsql as $$
		begin
			perform pg_sleep(0.008);
			insert into written values (pg_current_xact_id(), clock_timestamp());
			return new;
		end $$;
		create trigger slow before insert on prescient.future_job_history for each row execute function slow()`)
	w.registry.Register("job", done)
	// All in one shard, so that full batches are of one shard.
	w.db.MustExec(`
		insert into prescient.future_job (job_exec, entity_name, entity_key, group_key, first_check_at, next_check_at)
		select 'job', 'order', n::text, 'g', $1, $1 from generate_series(1, 700) n`, slot(1))
	result := w.run(slot(1), func(c *slots.Config) { c.Page = 100 })
	if result.Finished != 700 {
		t.Fatalf("%+v", result)
	}
	// Without it, 7 batches of 100.
	if large := w.count(`select count(*) from (select from written group by xid having count(*) > 50) as batch`); large > 3 {
		t.Errorf("%d batches of more than 50 rows, want the first ones alone", large)
	}
}
