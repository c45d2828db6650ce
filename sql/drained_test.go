package sql_test

import (
	"strings"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// Once the last check of a slot has ended, vacuum gives the space of the table back. A session that plans then takes a
// scan of the whole table for the cheapest way to a key, and keeps that plan when the table grows again.
func TestAFunctionReadsTheIndexOfItsKeyThoughItWasPlannedForADrainedTable(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	for name, ended := range map[string]string{
		"no row waits":    "true",
		"a few rows wait": "entity_key::int > 4",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			db, other := open(t, url), open(t, url)
			db.SetMaxOpenConns(1) // the plans that functions keep belong to a connection
			exec(t, other, "alter table prescient.future_job set (autovacuum_enabled = off)")
			exec(t, other, "select prescient.ensure_job(name) from unnest('{remind,alert,late}'::text[]) as name")
			exec(t, other, "insert into prescient.rule (name, relation, definition) values ('late', 'shop.orders', '{}')")
			exec(t, other, fill(5000, inSlots))
			exec(t, other, "delete from prescient.future_job where "+ended)
			// Here, because a new schema for temporary tables would let the session plan everything anew.
			exec(t, db, "create temp table the_row (next_check_at timestamptz, job bigint, id bigint, first_check_at timestamptz)")
			known := ofOneKey()
			for range 7 { // more than five times, so that functions use their generic plans, too
				for _, s := range known {
					s.reads(t, db, "select")
				}
			}
			exec(t, other, "vacuum analyze prescient.future_job") // the next call plans anew
			for _, s := range known {
				s.reads(t, db, "select")
			}
			exec(t, other, strings.ReplaceAll(fill(5000, inSlots), ";", " on conflict do nothing;")+`
				insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
				select prescient.find_job('late'), 'order', n, '2030-03-09 12:00:00Z', '2030-03-09 12:00:00Z' from generate_series(1, 5000) as n`)
			for _, s := range known {
				if r := s.reads(t, db, "select"); !r.within(s.most) {
					t.Errorf("it reads %v: %s", r, s.query)
				}
			}
		})
	}
}

// ofOneKey returns a call of each function that looks for keys: for one key that waits, which it makes if it is not
// there, and some for two more.
func ofOneKey() (calls []statement) {
	const (
		slot  = "2030-03-02 07:30:00Z" // of key 78 in fill
		begun = "clock => '2030-03-05'"
		later = "check_at => case when set_config('prescient_caller.clock', '2030-03-05', true) is not null then timestamptz '2030-03-07' end"
		waits = "select prescient.enqueue('remind', 'order', '78', check_at => case when set_config('prescient_caller.clock', '2030-03-01', true) is not null then timestamptz '" + slot + "' end)"
		late  = "select prescient.enqueue('late', 'order', '78', check_at => case when set_config('prescient_caller.clock', '2030-03-01', true) is not null then timestamptz '2030-03-09 12:00:00Z' end)"
		asks  = "select prescient.enqueue('remind', 'order', '78', " + later
		many  = "select prescient.enqueue_many('{remind,remind}', '{order,order}', '{78,79}', '{\"\",\"\"}', '{2030-03-07,2030-03-07}'"
	)
	for _, call := range [][]string{
		{waits, "select prescient.enqueue('remind', 'order', '78', check_at => '2030-03-07')"},
		{waits, "select prescient.enqueue('remind', 'order', '78', check_at => '2030-03-07', on_conflict => 'replace')"},
		{waits, "select prescient.enqueue('remind', 'order', '78', check_at => '2030-03-07', on_conflict => 'push_back')"},
		{waits, "select prescient.enqueue('remind', 'order', '78', check_at => '2030-03-07', unless_ended_within => '1 day')"},
		{waits, asks + ")"},
		{waits, asks + ", on_conflict => 'push_back')"},
		{waits, asks + ", on_conflict => 'push_back')", asks + ", on_conflict => 'replace')"},
		{waits, many + ")"},
		{waits, many + ", payloads => case when set_config('prescient_caller.clock', '2030-03-05', true) is null then '{}'::text[] end)"},
		{waits, many + ", on_conflict => 'push_back')"},
		{waits, many + ", on_conflict => 'replace')"},
		{waits, "select prescient.push_back('remind', 'order', '78', check_at => '2030-03-07')"},
		{waits, "select prescient.push_back('remind', 'order', '78', " + later + ")"},
		{waits, "select prescient.reschedule('remind', 'order', '78', check_at => '2030-03-07')"},
		{waits, asks + ", on_conflict => 'push_back')", "select prescient.reschedule('remind', 'order', '78', check_at => '2030-03-07')"},
		{waits, asks + ", on_conflict => 'replace')", "select prescient.reschedule('remind', 'order', '78', check_at => '2030-03-07')"},
		{waits, "select prescient.cancel('remind', 'order', '78')"},
		{waits, "select prescient.cancel_entity('order', '78')"},
		{waits, theRow, "select prescient.end_row(next_check_at, job, id, 'remind', 'done') from the_row"},
		{waits, asks + ", on_conflict => 'replace')", theRow, "select prescient.end_row(next_check_at, job, id, 'remind', 'done') from the_row"},
		{waits, theRow, "select prescient.begin_check(row(next_check_at, job, id, true, 'x', '0', '0', 'x')) from the_row"},
		{waits, asks + ", on_conflict => 'replace')", theRow, `select prescient.record_row(row(
			next_check_at, 2, 1, job, 'remind', id, null, 'next', '2030-03-06', null, null, 0, 0, false, 'x', null, null, null, null, null, null, null
		)) from the_row`},
		{waits, theRow, "select prescient.end_row(next_check_at, job, id, 'remind', 'failed') from the_row", "select prescient.retry_failed('remind', 'order', '78', now() - interval '1 hour', 1, '2030-03-07', null)"},
		{waits, theRow, arrives, "select prescient.settle_rows('s', 1, '{1}', 'a', 'b')"},
		{waits, theRow, arrives, "select prescient.settle_rows('s', 1, '{1}', 'a', 'b', " + begun + ")"},
		{waits, "select prescient.why('order', '78')"},
		{late, "select prescient.cancel_keys('late', 'order', '{78,79}')"},
		{late, "select prescient.rule_wait('late', 'order', '78', '2030-03-07')"},
		{late, "select prescient.rule_wait('late', 'order', '78', '2030-03-11', clock => '2030-03-10')"},
		{late, "select prescient.rule_wait_many('late', 'order', '{78,79}', '{2030-03-07,2030-03-07}')"},
		{late, "select prescient.rule_resume('late', 'order', '78', '{2030-03-07}')"},
		{late, "select prescient.rule_rename('late', 'order', '78', 'new', null)"},
		{late, theLateRow, "select prescient.retime('late', array[next_check_at], array[id], array[first_check_at], '{2030-03-07}', '{null}') from the_row"},
	} {
		last := len(call) - 1
		calls = append(calls, statement{
			before: call[:last],
			query:  call[last],
			most:   map[string]int64{"future_job_key": 40, "future_job_pkey": 40, "future_job_group": 8},
		})
	}
	return calls
}

const (
	// theRow holds the row of a key, which the call after it gets as an argument.
	theRow = `insert into the_row
		select next_check_at, job, id, first_check_at from prescient.future_job
		where job = prescient.find_job('remind') and entity_name = 'order' and entity_key = '78' and item_key = ''`
	theLateRow = `insert into the_row
		select next_check_at, job, id, first_check_at from prescient.future_job
		where job = prescient.find_job('late') and entity_name = 'order' and entity_key = '78' and item_key = ''`
	// arrives lets a copy of that row wait for its settlement.
	arrives = `select prescient.receive_rows('s', 1, '{remind}', array_agg(row_to_json(f)::text), '{""}', '{""}', '{}')
		from prescient.future_job f join the_row using (next_check_at, job, id)`
)

// A function that plans each call anew needs no settings, and neither does set_width, which reads every row.
func TestEachFunctionThatKeepsAPlanOfFutureJobForbidsScans(t *testing.T) {
	t.Parallel()
	if wrong := list(t, pgtest.New(t), `
		select proname
		from pg_proc
		where pronamespace = 'prescient'::regnamespace
			and prolang = (select oid from pg_language where lanname = 'plpgsql')
			and prosrc ~ '(from|join|update) prescient\.future_job [a-z]\M'
			and proname <> 'set_width'
			and not coalesce(proconfig @> '{enable_seqscan=off,jit=off}' or proconfig @> '{plan_cache_mode=force_custom_plan}', false)
		order by 1`); len(wrong) > 0 {
		t.Errorf("set enable_seqscan = off, and jit = off: %v", wrong)
	}
}
