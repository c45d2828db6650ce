package sql_test

import (
	"testing"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rowsOf are rows of each table, by the migration from which on they can be written. What is released stays as it is;
// a migration that makes a table or changes one adds its own.
var rowsOf = map[int]string{
	2: `
		insert into prescient.job (job, name) values (7, 'remind');
		insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at, check_count, error_count, last_error, payload)
		values (7, 'order', '1', '2030-03-01', '2030-03-02', 1, 2, 'no', '{"a": 1}')`,
	3: `
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count,
			spent, enqueued_at, enqueued_by, outcome)
		values (8, 'remind', 'order', '2', '2030-03-01', '2030-03-01', 0, 1, '3 s', '2030-02-01', 'me', 'failed')`,
	4: `
		insert into prescient.slot_run (slot, state, kind, planned, opened_at) values ('2030-03-01', 'open', 'run', 1, '2030-03-01');
		insert into prescient.slot_job (slot, job, planned) values ('2030-03-01', 7, 1)`,
	6:  `insert into prescient.schedule (id, crontab, anchor) values ('hourly', '0 * * * *', '2030-03-01')`,
	7:  `insert into prescient.event_outbox (id, source, type) values ('1', 'shop', 'a'); insert into prescient.event_consumer values ('desk', '1', 1)`,
	11: `insert into prescient.event_removed (mark, position, written_at) values ('1', 1, '2030-03-01')`,
	13: `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at, asked_within) values (7, 'order', '3', '2030-03-01', '2030-03-01', 3600)`,
	16: `insert into prescient.store_out (batch, target, source_name, target_name, given) values (1, 'b-id', 'a', 'b', '{1}')`,
}

// content is every row of every table, as JSON.
const content = `
	select jsonb_object_agg(c.relname, rows)
	from pg_class c,
		lateral (select (xpath('/row/rows/text()', query_to_xml(format(
			'select coalesce(jsonb_agg(to_jsonb(t)), ''[]'') as rows from only prescient.%I t', c.relname), true, true, '')))[1]::text::jsonb as rows) as r
	where c.relnamespace = 'prescient'::regnamespace and c.relkind = 'r' and c.relname not in ('schema_migration', 'setting')`

func TestEveryRowComesThroughTheMigrationsFromEveryVersion(t *testing.T) {
	t.Parallel()
	for version := 2; version <= applied(t, pgtest.New(t), ""); version++ {
		db := pgtest.New(t)
		if err := pgsql.MigrateDown(t.Context(), db, "", int64(version)); err != nil {
			t.Fatal(err)
		}
		for v := range version {
			exec(t, db, rowsOf[v+1])
		}
		before := get[string](t, db, content)
		if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
			t.Fatalf("from version %d: %v", version, err)
		}
		if after := get[string](t, db, content); !get[bool](t, db, "select $1::jsonb @> $2::jsonb", after, before) {
			t.Errorf("from version %d, before:\n%s\nafter:\n%s", version, before, after)
		}
		if action := get[string](t, db, "select action from prescient.enqueue('remind', 'order', '1', '2031-01-01')"); action != "kept" {
			t.Errorf("from version %d the row that waits was %s", version, action)
		}
	}
}
