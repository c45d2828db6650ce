package slots_test

import (
	"context"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A record waits for who has locked a row, or its claim, for a moment, and its slot may begin meanwhile. Slots are a second apart here, and the clock
// is the database's.
func TestARecordThatWaitsOverABoundaryMovesNothingIntoASlotThatHasBegun(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	const inRows, inFence = "rescheduled > 0", "job = 0"
	for name, waits := range map[string]struct {
		rows int
		when string
	}{
		"one by one": {3, inRows}, "many": {20, inRows}, "one by one, for its claim": {3, inFence}, "many, for its claim": {20, inFence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec("select prescient.set_width('1 second')")
			w.db.MustExec("update prescient.setting set since = since - interval '1 minute'") // the schema may be of this second
			w.db.MustExec(`
				create sequence tried;
				create table moved (at timestamptz);
				create function wait() returns trigger language plpgsql as $$
				begin
					if nextval('public.tried') = 1 then
						perform pg_sleep(1 - extract(epoch from clock_timestamp()) % 1 + 0.01);
					end if;
					insert into public.moved values (clock_timestamp());
					return null;
				end $$;
				create trigger wait after insert on prescient.slot_progress for each row when (new.` + waits.when + `) execute function wait()`)
			w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
				return new(job.NextCheckAt.Add(time.Second)), nil
			}))
			w.enqueue("job", slot(1), waits.rows)
			now := func(c *slots.Config) { c.Now = nil }
			var at time.Time
			if err := w.db.Get(&at, "update prescient.future_job set next_check_at = prescient.slot_floor(statement_timestamp(), '1 second') returning next_check_at"); err != nil {
				t.Fatal(err)
			}
			result, err := w.runner(now).Run(t.Context(), at)
			if err != nil || result.Rescheduled != int64(waits.rows) {
				t.Errorf("%+v, %v", result, err)
			}
			var recorded time.Time
			if err := w.db.Get(&recorded, "select max(at) from moved"); err != nil {
				t.Fatal(err)
			}
			for _, job := range w.waiting() {
				if next := job.NextCheckAt; !next.After(recorded.Truncate(time.Second)) {
					t.Errorf("order %s was put into slot %s at %s", job.EntityKey, next, recorded)
				}
			}
		})
	}
}
