package sql_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// What is forgotten cannot be missed any more: a slot with rows has to stay, and every one after it, so that there is
// no gap. Rows of a paused job are looked for when it is resumed.
func TestTheLedgerForgetsNothingFromTheFirstSlotWithRowsOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   []string
		since  string
	}{
		"no rows": {"select", []string{"11:30:00", "11:45:00", "12:00:00"}, "11:30:00"},
		"rows that are not due": {
			"select prescient.enqueue('remind', 'order', '1', '2030-03-01 11:45:00Z')",
			[]string{"11:30:00", "11:45:00", "12:00:00"},
			"11:30:00",
		},
		"a row": {
			"select prescient.enqueue('remind', 'order', '1', '2030-03-01 10:31:00Z')",
			[]string{"10:45:00", "11:00:00", "11:15:00", "11:30:00", "11:45:00", "12:00:00"},
			"10:45:00",
		},
		"a row of a paused job": {
			`select prescient.enqueue('remind', 'order', '1', '2030-03-01 10:31:00Z');
			update prescient.job set paused_at = now(), paused_by = 'me'`,
			[]string{"10:45:00", "11:00:00", "11:15:00", "11:30:00", "11:45:00", "12:00:00"},
			"10:45:00",
		},
		"a slot that is open": {
			"update prescient.slot_run set state = 'open', finished_at = null where slot = '2030-03-01 10:15:00Z'",
			[]string{"10:15:00", "11:30:00", "11:45:00", "12:00:00"},
			"11:30:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db, "update prescient.setting set since = '2030-03-01 10:00:00Z'")
			exec(t, db, `insert into prescient.slot_run (slot, state, kind, planned, finished_at)
				select slot, 'done', 'run', 0, slot from generate_series(timestamptz '2030-03-01 10:00:00Z', '2030-03-01 12:00:00Z', '15 minutes') as slot`)
			exec(t, db, `insert into prescient.slot_job (slot, job, planned) select slot, 1, 0 from prescient.slot_run`)
			exec(t, db, test.change)
			for range 2 { // the second time there is nothing left to forget
				exec(t, db, pgsql.LedgerPrune.In(""), "2030-03-01 11:20:00Z")
				for _, table := range []string{"slot_run", "slot_job"} {
					left := list(t, db, "select to_char(slot at time zone 'UTC', 'HH24:MI:SS') from prescient."+table+" order by slot")
					if diff := cmp.Diff(test.want, left); diff != "" {
						t.Errorf("left in %s:\n%s", table, diff)
					}
				}
				if since := get[string](t, db, "select to_char(since at time zone 'UTC', 'HH24:MI:SS') from prescient.setting"); since != test.since {
					t.Errorf("the ledger has no gaps from %s on, want %s", since, test.since)
				}
			}
		})
	}
}
