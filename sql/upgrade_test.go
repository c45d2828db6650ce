package sql_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3/lock"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rowsOfVersion1 inserts at least one row into each table of version 1. Never change it: databases
// with such rows exist.
const rowsOfVersion1 = `
	insert into prescient.job (job, name) values (7, 'remind');
	insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at, check_count, error_count, last_error, payload, requested_within)
	values (7, 'order', '1', '2030-03-01', '2030-03-02', 1, 2, 'no', '{"a": 1}', 3600);
	insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count,
		spent, enqueued_at, enqueued_by, outcome)
	values (8, 'remind', 'order', '2', '2030-03-01', '2030-03-01', 0, 1, '3 s', '2030-02-01', 'me', 'failed');
	insert into prescient.slot_run (slot, state, kind, planned, opened_at) values ('2030-03-01', 'open', 'run', 1, '2030-03-01');
	insert into prescient.slot_job (slot, job, planned) values ('2030-03-01', 7, 1);
	insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
	values (5, '2030-03-01', 'run', '{7}', 1, 9, 'night', '2030-03-01 00:01');
	insert into prescient.slot_progress (slot, token, part, job) values ('2030-03-01', 5, 0, 7);
	insert into prescient.slot_lateness (slot, job, bucket, checks) values ('2030-03-01', 7, 3, 2);
	insert into prescient.job_permit (job, key, token, permits, allocated_until) values (7, '', 5, 2, '2030-03-01');
	insert into prescient.job_rate (job, key, free_at) values (7, '', '2030-03-01');
	insert into prescient.schedule (id, crontab, anchor) values ('hourly', '0 * * * *', '2030-03-01');
	insert into prescient.schedule_state (id, dropped) values ('hourly', 3);
	insert into prescient.event_outbox (id, source, type) values ('1', 'shop', 'a');
	insert into prescient.event_consumer values ('desk', '1', 1);
	insert into prescient.event_watermark (mark, position, written_at) values ('1', 1, '2030-03-01');
	insert into prescient.action (actor, what, target, plan, row_count, slots, schedules, events) values ('ann', 'cancel', 'order 1', 'all', 1, 1, 0, 0);
	insert into prescient.transfer_out (batch, target, source_name, target_name, given) values (1, 'b-id', 'a', 'b', '{1}');
	insert into prescient.transfer_in (source, batch, nth, job_exec, entity_name, entity_key) values ('b-id', 2, 1, 'remind', 'order', '4');
	insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}');
	insert into prescient.rule_changed (job, entity_key, changed_at) values (7, '1', '2030-03-01');
	insert into prescient.rule_fired (job, entity_key, since, step) values (7, '1', '2030-03-01', 'first');
	insert into prescient.event_dead (consumer, id, source, type, refusals) values ('desk', '2', 'shop', 'a', 3);
	insert into prescient.event_sent (consumer, source, id) values ('desk', 'shop', '2');
	insert into prescient.alert (finding, text) values ('gave-up', '');
	insert into prescient.alert_look default values`

// content returns every row as JSON, except those that a migration itself writes.
const content = `
	select jsonb_object_agg(c.relname, rows)
	from pg_class c,
		lateral (select (xpath('/row/rows/text()', query_to_xml(format(
			'select coalesce(jsonb_agg(to_jsonb(t)), ''[]'') as rows from only prescient.%I t', c.relname), true, true, '')))[1]::text::jsonb as rows) as r
	where c.relnamespace = 'prescient'::regnamespace and c.relkind = 'r' and c.relname not in ('schema_migration', 'setting')`

// A later version adds its changes of rows to this test, and leaves rowsOfVersion1 alone.
func TestEveryRowOfVersion1ComesThroughTheMigrations(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Empty(t))
	if err := pgsql.MigrateTo(t.Context(), db, "", 1); err != nil {
		t.Fatal(err)
	}
	exec(t, db, rowsOfVersion1)
	for _, table := range list(t, db, `
		select relname from pg_class
		where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p') and not relispartition`) {
		if get[int](t, db, "select count(*) from prescient."+table) == 0 {
			t.Errorf("table %s has no row", table)
		}
	}
	before := get[string](t, db, content)
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if after := get[string](t, db, content); !get[bool](t, db, "select $1::jsonb @> $2::jsonb", after, before) {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if action := get[string](t, db, "select action from prescient.enqueue('remind', 'order', '1', check_at => '2031-01-01')"); action != "kept" {
		t.Errorf("the row that waits was %s", action)
	}
	if diff := cmp.Diff(dump(t, pgtest.New(t), "prescient"), dump(t, db, "prescient")); diff != "" {
		t.Errorf("the schema is not the one that a new database gets:\n%s", diff)
	}
}

// Both found the functions of another binary, and the newer one got the turn.
func TestAnOlderBinaryThatHasWaitedForItsTurnToMigrateChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "update prescient.setting set functions = 'another'")
	turn := begin(t, db)
	defer func() { _ = turn.Rollback() }()
	exec(t, turn, "select pg_advisory_xact_lock($1)", int64(lock.DefaultLockID))
	older := make(chan error, 1)
	go func() { older <- pgsql.Migrate(t.Context(), db, "") }()
	pgtest.AwaitWaits(t, db, 1)
	exec(t, turn, "insert into prescient.schema_migration (version_id, is_applied) values (1000, true)")
	exec(t, turn, "update prescient.setting set functions = 'newer'")
	if err := turn.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-older; err != nil {
		t.Error(err)
	}
	if got := get[string](t, db, "select functions from prescient.setting"); got != "newer" {
		t.Errorf("the functions of the newer binary are replaced: %s", got)
	}
}

func TestTheVersionsOfTheMigrationsAreThoseThatTheSettingStates(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Empty(t))
	for version := 1; version <= pgsql.SchemaVersion; version++ {
		if err := pgsql.MigrateTo(t.Context(), db, "", int64(version)); err != nil {
			t.Fatal(err)
		}
		if got := get[string](t, db, "select schema_version from prescient.setting"); got != strconv.Itoa(version) {
			t.Errorf("at version %d the setting states %s", version, got)
		}
	}
}
