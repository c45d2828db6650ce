package sql_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestFutureJobHasThreeIndexesAndNoMore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := []string{
		"CREATE INDEX future_job_group ON prescient.future_job USING btree (group_key, next_check_at) WHERE (group_key IS NOT NULL)",
		"CREATE UNIQUE INDEX future_job_key ON prescient.future_job USING btree (entity_name, entity_key, job, item_key) WHERE (item_key IS NOT NULL)",
		"CREATE UNIQUE INDEX future_job_pkey ON prescient.future_job USING btree (next_check_at, job, id)",
	}
	got := list(t, db, "select indexdef from pg_indexes where schemaname = 'prescient' and tablename = 'future_job' order by indexname")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHistoryHasOneIndexByTimeOneByEntityAndASmallOneOfWhatFailed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := []string{
		"CREATE INDEX future_job_history_entity ON ONLY prescient.future_job_history USING btree (entity_name, entity_key, item_key, finished_at)",
		"CREATE INDEX future_job_history_failed ON ONLY prescient.future_job_history USING btree (finished_at) WHERE (((outcome)::text <> 'done'::text) AND (((outcome)::text = ANY (ARRAY['failed'::text, 'max_checks'::text])) OR (error_count > 0)))",
		"CREATE INDEX future_job_history_finished_at ON ONLY prescient.future_job_history USING brin (finished_at) WITH (autosummarize='on')",
	}
	got := list(t, db, "select indexdef from pg_indexes where schemaname = 'prescient' and tablename = 'future_job_history' order by indexname")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const plainInsert = `insert into prescient.future_job (job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at)
	values (prescient.ensure_job($1), $2, $3, $4, $5, $6, $7)`

func TestTheTableRefusesABadRowFromAnyWriter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const slot = "2030-03-01 12:15:00Z"
	good := []any{"remind", "order", "1", "", nil, slot, slot}
	for name, test := range map[string]struct {
		column     int
		value      any
		constraint string
	}{
		"a minute off the grid":      {6, "2030-03-01 12:16:00Z", "future_job_on_grid"},
		"a microsecond off the grid": {6, "2030-03-01 12:15:00.000001Z", "future_job_on_grid"},
		"infinity":                   {6, "infinity", "future_job_in_range"},
		"minus infinity":             {6, "-infinity", "future_job_in_range"},
		"infinite first check":       {5, "infinity", "future_job_in_range"},
		"before 1970":                {6, "1969-12-31 23:30:00Z", "future_job_in_range"},
		"first check before 1970":    {5, "1969-12-31 23:30:00Z", "future_job_in_range"},
		"after 9999":                 {6, "9999-12-31 00:15:00Z", "future_job_in_range"},
		"empty job_exec":             {0, "", "job_name"},
		"long job_exec":              {0, strings.Repeat("a", 201), "job_name"},
		"empty entity_name":          {1, "", "entity_name_is_1_to_200_bytes"},
		"long entity_name":           {1, strings.Repeat("ä", 101), "entity_name_is_1_to_200_bytes"},
		"empty entity_key":           {2, "", "entity_key_is_1_to_500_bytes"},
		"long entity_key":            {2, strings.Repeat("a", 501), "entity_key_is_1_to_500_bytes"},
		"long item_key":              {3, strings.Repeat("a", 501), "item_key_is_at_most_500_bytes"},
		"empty group_key":            {4, "", "group_key_is_1_to_500_bytes"},
		"long group_key":             {4, strings.Repeat("a", 501), "group_key_is_1_to_500_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := append([]any{}, good...)
			row[test.column] = test.value
			e := refused(t, db, pqerror.CheckViolation, plainInsert, row...)
			// A time out of range may also be off the grid.
			if !pgtest.OnCitus() && e.Constraint != test.constraint && (test.constraint != "future_job_in_range" || e.Constraint != "future_job_on_grid") {
				t.Errorf("refused by %s, want %s", e.Constraint, test.constraint)
			}
		})
	}
	for _, column := range []int{0, 1, 2, 5, 6} {
		row := append([]any{}, good...)
		row[column] = nil
		refused(t, db, pqerror.NotNullViolation, plainInsert, row...)
	}
	refused(t, db, pqerror.NotNullViolation, "insert into prescient.future_job (entity_name, entity_key, first_check_at, next_check_at) values ('b', 'c', $1, $1)", slot)
	refused(t, db, pqerror.GeneratedAlways, "insert into prescient.future_job (id, job, entity_name, entity_key, first_check_at, next_check_at) values (1, 1, 'b', 'c', $1, $1)", slot)
	exec(t, db, plainInsert, good...)
	refused(t, db, pqerror.UniqueViolation, plainInsert, good...)
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set next_check_at = '2030-03-01 12:00:01Z'")
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set next_check_at = 'infinity'")
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set check_count = -1")
}

func TestTheLongestNamesAndTheEndsOfTheRangeAreStored(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Random bytes do not compress, so the index entry gets its greatest length.
	random := func(n int) string {
		return get[string](t, db, "select left(string_agg(md5(random()::text), ''), $1) from generate_series(1, 20)", n)
	}
	for _, slot := range []string{"1970-01-01 00:00:00Z", "9999-12-31 00:00:00Z"} {
		exec(t, db, plainInsert, random(200), random(200), random(500), random(500), random(500), slot, slot)
	}
	if n := get[int](t, db, "select prescient.end_checks('cancelled', entity_name, entity_key) from prescient.future_job limit 1"); n != 1 {
		t.Errorf("%d ended", n)
	}
}

// A number belongs to its name for ever, so that the function a row was enqueued for checks it.
func TestANameHasOneNumberHoweverItFirstCame(t *testing.T) {
	t.Parallel()
	for first, query := range map[string]string{
		"enqueue":      "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')",
		"enqueue_many": "select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}')",
		"ensure_job":   "select prescient.ensure_job('remind')",
		"job_numbers":  strings.ReplaceAll(pg.JobNumbers.In(pgsql.DefaultSchema), "$1", "'{remind,remind}'"),
		"job_register": strings.NewReplacer("$1", "'{remind}'", "$2", "'{null}'", "$3", "false").Replace(pg.JobRegister.In(pgsql.DefaultSchema)),
		"job_tell":     strings.NewReplacer("$1", "'{remind}'", "$2", "'2030-03-01'").Replace(pg.JobTell.In(pgsql.DefaultSchema)),
		"job_pause":    strings.ReplaceAll(pg.JobPause.In(pgsql.DefaultSchema), "$1", "'remind'"),
	} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			before := get[int64](t, db, "select prescient.find_job('remind')")
			exec(t, db, query)
			exec(t, db, "select prescient.enqueue_many('{other,remind}', '{order,order}', '{3,3}', item_keys => '{null,null}', check_ats => '{2030-03-01,2030-03-01}')")
			number := get[int64](t, db, "select job from prescient.job where name = 'remind'")
			if after := get[int64](t, db, "select prescient.find_job('remind')"); before != number || after != number {
				t.Errorf("the number is %d, and was %d, then %d", number, before, after)
			}
			if n := get[int](t, db, "select count(*) from prescient.job"); n != 2 {
				t.Errorf("%d jobs, want remind and other", n)
			}
			if n := get[int](t, db, "select count(*) from prescient.future_job where job = $1 and entity_key = '3'", number); n != 1 {
				t.Errorf("%d rows have the number", n)
			}
		})
	}
}

// A transaction of an application may be long, but a name is new only once.
func TestAnEnqueueDoesNotWaitForATransactionThatBringsTheSameNewName(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"commit", "rollback"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			first, second := begin(t, db), begin(t, db)
			exec(t, first, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
			exec(t, second, "set local lock_timeout = '1s'")
			exec(t, second, "select prescient.enqueue('remind', 'order', '2', check_at => '2030-03-01')")
			exec(t, second, "commit")
			exec(t, first, end)

			// The name finds its rows, even before the name has a row in table job.
			if got := get[bool](t, db, "select prescient.reschedule('remind', 'order', '2', check_at => '2030-03-02') is not null"); !got {
				t.Error("the row is not found")
			}
			if got := get[bool](t, db, "select prescient.cancel('remind', 'order', '2')"); !got {
				t.Error("the row is not cancelled")
			}
			if got := list(t, db, "select job_exec || ' ' || outcome from prescient.future_job_history"); !slices.Equal(got, []string{"remind cancelled"}) {
				t.Errorf("history: %v", got)
			}
			exec(t, db, "select prescient.enqueue('remind', 'order', '3', check_at => '2030-03-01')")
			if n := get[int](t, db, "select count(*) from prescient.job where name = 'remind'"); n != 1 {
				t.Errorf("%d rows of the name", n)
			}
		})
	}
}

func TestANameWhoseNumberIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.job (job, name) values (prescient.find_job('remind'), 'as it happens')")
	for _, query := range []string{
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')",
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{null}', check_ats => '{2030-03-01}')",
	} {
		if e := refused(t, db, pqerror.UniqueViolation, query); !strings.Contains(e.Message, "'as it happens'") || e.Hint == "" {
			t.Errorf("%q, hint %q", e.Message, e.Hint)
		}
	}
}

// No key contains the group, so group_key may be anything. The index of groups has only rows with a
// group.
func TestOnlyRowsWithAGroupPayForItsIndex(t *testing.T) {
	pgtest.NotOnCitus(t, "the statistics of an index are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	for i, group := range []any{nil, nil, "g", "g", "h"} {
		exec(t, db, plainInsert, "remind", "order", strings.Repeat("x", i+1), "", group, noon, noon)
	}
	exec(t, db, "analyze prescient.future_job")
	if n := get[int](t, db, "select reltuples from pg_class where oid = 'prescient.future_job_group'::regclass"); n != 3 {
		t.Errorf("%d rows in the index, want 3", n)
	}
}
