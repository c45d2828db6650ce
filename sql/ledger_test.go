package sql_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A slot that the ledger forgets cannot count as missed. So a slot with rows stays, and every later
// slot, so that there is no gap. Rows of a paused job count when it is resumed.
func TestTheLedgerForgetsNothingFromTheFirstSlotWithRowsOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		want   []string
		since  string
	}{
		"no rows": {"select", []string{"11:30:00", "11:45:00", "12:00:00"}, "11:30:00"},
		"rows that are not due": {
			"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 11:45:00Z')",
			[]string{"11:30:00", "11:45:00", "12:00:00"},
			"11:30:00",
		},
		"a row": {
			"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 10:31:00Z')",
			[]string{"10:45:00", "11:00:00", "11:15:00", "11:30:00", "11:45:00", "12:00:00"},
			"10:45:00",
		},
		"a row of a paused job": {
			`select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 10:31:00Z');
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
			for part := int64(2); part == 2; {
				part = get[int64](t, db, pg.LedgerPrune.In(pgsql.DefaultSchema), "2030-03-01 11:20:00Z", 2)
				if part > 2 {
					t.Errorf("a part of at most 2 forgets %d slots", part)
				}
				if missing := get[int64](t, db, `select count(*) from generate_series((select since from prescient.setting), '2030-03-01 12:00:00Z', '15 minutes') as s (slot)
					where not exists (select from prescient.slot_run r where r.slot = s.slot)`); missing > 0 {
					t.Errorf("after a part the ledger has %d gaps", missing)
				}
			}
			for range 2 { // the second time nothing is left to forget
				exec(t, db, pg.LedgerPrune.In(pgsql.DefaultSchema), "2030-03-01 11:20:00Z", 1000)
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

func TestRowsOfASlotThatCameInBurstsAreEstimated(t *testing.T) {
	pgtest.NotOnCitus(t, "its own SQL fills the table with numbers of its own, which one query of Citus cannot")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.ensure_job(name) from unnest('{remind,alert}'::text[]) as name")
	for name, test := range map[string]struct {
		slot, which string // the ids up to 60,000
		most        float64
	}{
		"few":                  {"2030-03-01 12:00:00Z", "n <= 900", 0},
		"evenly":               {"2030-03-01 12:15:00Z", "n % 6 = 0", 0.15},
		"all at once":          {"2030-03-01 12:30:00Z", "n between 20000 and 29999", 0},
		"some, then very many": {"2030-03-01 12:45:00Z", "n % 40 = 0 or n > 50000", 0.25},
		"at night nothing":     {"2030-03-01 13:00:00Z", "n / 10000 % 2 = 0 and n % 2 = 0", 0.25},
	} {
		var want, got float64
		exec(t, db, fmt.Sprintf(`insert into prescient.future_job (id, job, entity_name, entity_key, first_check_at, next_check_at)
			overriding system value
			select n, prescient.find_job('remind'), 'order', '%s' || n, '%[2]s', '%[2]s' from generate_series(1, 60000) as n where %[3]s`, name, test.slot, test.which))
		want = get[float64](t, db, "select count(*) from prescient.future_job where next_check_at = $1", test.slot)
		got = get[float64](t, db, "select prescient.estimate_rows($1, prescient.find_job('remind'))", test.slot)
		if math.Abs(got-want) > test.most*want {
			t.Errorf("%s: %.0f rows are estimated, and there are %.0f", name, got, want)
		}
	}
}

func TestTheLedgerCountsRunnersAndWorkers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.ensure_job('remind')")
	exec(t, db, "update prescient.setting set since = '"+noon+"'")
	exec(t, db, `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		values (prescient.find_job('remind'), 'order', '1', '`+noon+`', '`+noon+`')`)
	for _, runner := range []struct{ token, workers int }{{1, 64}, {2, 32}, {2, 32}, {1, 64}} { // a call is repeated if its reply is lost
		exec(t, db, "select prescient.open_slot('"+noon+"', 'run', $1, 'me', '1 minute', '"+noon+"', $2)", runner.token, runner.workers)
	}
	took := func() string {
		return get[string](t, db, "select runners || ' runners, ' || workers || ' workers' from prescient.slot_run")
	}
	if n := took(); n != "2 runners, 96 workers" {
		t.Error(n)
	}
	for token := 3; token < 20; token++ { // one after another, as when a job waits for a runner that knows it
		exec(t, db, "delete from prescient.slot_claim")
		exec(t, db, "select prescient.open_slot('"+noon+"', 'catch_up', $1, 'me', '1 minute', '"+noon+"', 64)", token)
	}
	if n := took(); n != "2 runners, 96 workers" {
		t.Error("after others, one at a time: " + n)
	}
}

func TestTheLedgerKeepsTheNamesOfAHundredRunnersAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.job (job, name) values (1, 'remind')")
	exec(t, db, `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		values (1, 'order', '1', '2030-03-01 12:00:00Z', '2030-03-01 12:00:00Z')`)
	open := func(token int, name string) int {
		return get[int](t, db, `select nth from prescient.open_slot('2030-03-01 12:00:00Z', 'run', $1, $2, '1 minute',
			'2030-03-01 12:00:00Z')`, token, name)
	}
	for n := 1; n <= 103; n++ {
		want := min(n, 101)
		for range 2 { // a reply is lost
			if nth := open(n, fmt.Sprintf("runner %d", n)); nth != want {
				t.Errorf("runner %d is number %d, want %d", n, nth, want)
			}
		}
	}
	if nth := open(104, "runner 7"); nth != 7 {
		t.Errorf("a name that is known is number %d", nth)
	}
	names := list(t, db, "select unnest(names) from prescient.slot_run")
	if len(names) != 101 || names[99] != "runner 100" || names[100] != "one of 3 runners after the first 100" {
		t.Errorf("%q", names)
	}
}

// The clock of the database has stepped back by an hour since catch-up chose the slots.
func TestEmptySlotsAreRecordedUpToTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "update prescient.setting set since = prescient.slot_floor(statement_timestamp() - interval '2 hours', width)")
	for until, want := range map[string]string{"1 hour": "0 ahead", "-1 hour": "0 ahead"} {
		at := get[time.Time](t, db, "select clock_timestamp() + $1::interval", until)
		exec(t, db, pg.LedgerFill.In(pgsql.DefaultSchema), at.Add(-2*time.Hour), at, nil)
		got := get[string](t, db, `
			select count(*) || ' ahead' from prescient.slot_run, prescient.setting
			where slot >= prescient.slot_floor(clock_timestamp(), width)`)
		if got != want {
			t.Errorf("until %s from now: %s", until, got)
		}
	}
	if n := get[int](t, db, "select count(*) from prescient.slot_run"); n < 6 {
		t.Errorf("%d slots of the past are recorded", n)
	}
}
