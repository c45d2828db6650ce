package sql_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestFutureJobHasTwoIndexesAndNoMore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := []string{
		"CREATE UNIQUE INDEX future_job_key ON prescient.future_job USING btree (entity_name, entity_key, job_exec, item_key) WHERE (item_key IS NOT NULL)",
		"CREATE UNIQUE INDEX future_job_pkey ON prescient.future_job USING btree (next_check_at, shard, id)",
	}
	got := list(t, db, "select indexdef from pg_indexes where schemaname = 'prescient' and tablename = 'future_job' order by indexname")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHistoryHasOneIndexByTimeAndOneByEntity(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := []string{
		"CREATE INDEX future_job_history_entity ON ONLY prescient.future_job_history USING btree (entity_name, entity_key)",
		"CREATE INDEX future_job_history_finished_at ON ONLY prescient.future_job_history USING brin (finished_at)",
	}
	got := list(t, db, "select indexdef from pg_indexes where schemaname = 'prescient' and tablename = 'future_job_history' order by indexname")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const plainInsert = `insert into prescient.future_job (job_exec, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at)
	values ($1, $2, $3, $4, $5, $6, $7)`

func TestABadRowIsRefusedWhoeverWritesIt(t *testing.T) {
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
		"empty job_exec":             {0, "", "future_job_names"},
		"long job_exec":              {0, strings.Repeat("a", 201), "future_job_names"},
		"empty entity_name":          {1, "", "future_job_names"},
		"long entity_name":           {1, strings.Repeat("ä", 101), "future_job_names"},
		"empty entity_key":           {2, "", "future_job_names"},
		"long entity_key":            {2, strings.Repeat("a", 501), "future_job_names"},
		"long item_key":              {3, strings.Repeat("a", 501), "future_job_names"},
		"empty group_key":            {4, "", "future_job_names"},
		"long group_key":             {4, strings.Repeat("a", 501), "future_job_names"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := append([]any{}, good...)
			row[test.column] = test.value
			e := refused(t, db, pqerror.CheckViolation, plainInsert, row...)
			// A time out of range may break the rule of the grid as well.
			if e.Constraint != test.constraint && (test.constraint != "future_job_in_range" || e.Constraint != "future_job_on_grid") {
				t.Errorf("refused by %s, want %s", e.Constraint, test.constraint)
			}
		})
	}
	for _, column := range []int{0, 1, 2, 5, 6} {
		row := append([]any{}, good...)
		row[column] = nil
		refused(t, db, pqerror.NotNullViolation, plainInsert, row...)
	}
	refused(t, db, pqerror.GeneratedAlways, "insert into prescient.future_job (id, job_exec, entity_name, entity_key, first_check_at, next_check_at) values (1, 'a', 'b', 'c', $1, $1)", slot)
	refused(t, db, pqerror.GeneratedAlways, "insert into prescient.future_job (shard, job_exec, entity_name, entity_key, first_check_at, next_check_at) values (1, 'a', 'b', 'c', $1, $1)", slot)
	exec(t, db, plainInsert, good...)
	refused(t, db, pqerror.UniqueViolation, plainInsert, good...)
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set next_check_at = next_check_at + interval '1 second'")
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set next_check_at = 'infinity'")
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job set check_count = -1")
}

func TestTheLongestNamesAndTheEndsOfTheRangeAreStored(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Random bytes do not compress, so the index entry is as long as it gets.
	random := func(n int) string {
		return get[string](t, db, "select left(string_agg(md5(random()::text), ''), $1) from generate_series(1, 20)", n)
	}
	for _, slot := range []string{"1970-01-01 00:00:00Z", "9999-12-31 00:00:00Z"} {
		exec(t, db, plainInsert, random(200), random(200), random(500), random(500), random(500), slot, slot)
	}
	if n := get[int](t, db, "select prescient.end_by_key('cancelled', entity_name, entity_key, null, null) from prescient.future_job limit 1"); n != 1 {
		t.Errorf("%d ended", n)
	}
}

func TestFirstCheckAtIsImmutable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, plainInsert, "remind", "order", "1", "", nil, "2030-03-01 12:15:00Z", "2030-03-01 12:15:00Z")
	e := refused(t, db, pqerror.CheckViolation, "update prescient.future_job set first_check_at = first_check_at + interval '15 minutes'")
	if !strings.Contains(e.Message, "immutable") || !strings.Contains(e.Hint, "prescient.reschedule") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
	exec(t, db, "update prescient.future_job set first_check_at = first_check_at, next_check_at = next_check_at + interval '15 minutes'")
}

func TestTheDatabaseComputesTheShardFromTheGroupOrTheEntity(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.future_job (job_exec, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at)
		select 'job' || n % 3, 'order', (n / 3)::text, case when n % 2 = 0 then '' end, case when n >= 6000 then 'g' || n % 7 end, slot, slot
		from generate_series(0, 8999) as n, prescient.slot_ceil('2030-03-01 12:01:00Z') as slot`)
	for what, query := range map[string]string{
		"entities in more than one shard": `select count(*) from (select from prescient.future_job where group_key is null group by entity_name, entity_key having count(distinct shard) > 1) as x`,
		"groups in more than one shard":   `select count(*) from (select from prescient.future_job where group_key is not null group by group_key having count(distinct shard) > 1) as x`,
		"shards out of range":             `select count(*) from prescient.future_job where shard not between 0 and (select shards - 1 from prescient.setting)`,
		"shards far from their fair part": `select count(*) from (select from prescient.future_job where group_key is null group by shard having count(*) not between 6000 / 16 / 2 and 6000 / 16 * 2) as x`,
		"shards without a row":            `select 16 - count(distinct shard) from prescient.future_job`,
	} {
		if n := get[int](t, db, query); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
	// "ab"+"c" and "a"+"bc" are two entities.
	const pair = `select count(distinct hashtextextended(n || chr(31) || k, 0)) from (values ('ab', 'c'), ('a', 'bc')) as v (n, k)`
	if n := get[int](t, db, pair); n != 2 {
		t.Errorf("%d hashes", n)
	}
}
