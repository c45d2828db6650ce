package sql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/sql/statements"
)

// mayRun says which role each statement needs. A role that contains that role may run it, too; see
// contains.
var mayRun = map[pg.Role]string{
	"anybody": `rule_also rule_locks check_number check_role rule_columns rule_expression rule_holders rule_moved rule_reader rule_role rule_table rule_tables rule_labels rule_functions rule_zone rule_triggers rule_writers doctor_clock doctor_collation doctor_room doctor_row_security doctor_holders doctor_rights doctor_sessions
		doctor_settings doctor_standby doctor_tables engine_signs engine_version event_ahead advisory_holder group_try lock_holders metrics_blocking migration_holders periodic_lock role_held roles_lose roles_made schedule_normal schema_check store_schemas store_stranger`,
	// An app and a reader may run these.
	"member": `forecast_blocks functions_here schedule_blocks`,
	"both":   `functions_applied read_settings store_read`,
	pg.App:   `cancel cancel_entity enqueue enqueue_many push_back reschedule rule_enqueue schedule_cancel`,
	pg.Reader: `job_forgotten event_left event_told_later event_unread alert_gave_up alert_read alert_refused action_last advise_sample advise_since board_actions board_ahead board_cells board_consumers board_events board_job board_job_errors board_job_last board_jobs board_misfires
		board_retry board_slot board_waiting cancel_count claim_list claim_orphans doctor_jobs doctor_months doctor_schedules enqueue_lock entity_kinds entity_names event_bounds event_consumers event_behind event_dead_subjects event_dead_count event_dead_due event_dead_list event_messages event_page event_waiting event_lost event_marks event_end event_newest event_read forecast_history forecast_jobs
		forecast_ledger forecast_slots forecast_journals history_list history_stats job_elsewhere job_known job_left job_list job_names
		job_paused job_related job_show
		ledger_ahead ledger_gaps ledger_jobs ledger_last ledger_late ledger_opened_late ledger_slow ledger_trouble metrics_outbox migration_applied page_read past_slots periodic_rows prune_due record_find row_attempts row_holder rows_left rule_beside rule_changed_read rule_faults rule_fired_key rule_ended rule_fired_past rule_fired_read rule_fired_steps rule_former_keys rule_refused rule_get rule_prune_count rule_prune_start rule_names rule_summary schedule_ahead schedule_backfill_fence schedule_due schedule_ids history_unacked receiver_unknown schedule_forgotten schedule_list schedule_past schedule_published schedule_sample schema_contents schema_version slot_jobs slot_list
		slot_waiting store_batches store_notes store_rows store_schedules store_state why`,
	pg.Runner: `event_prune alert_claim alert_drop alert_hold alert_silence alert_write cancel_many cancel_suppressed check_begin check_same claim_fence claim_release claim_renew claim_rows claim_take_over enqueue_copy event_ack event_dead_again event_dead_behind event_dead_discard event_dead_head event_dead_now event_dead_retry event_consumer_lock event_forget_dead event_forwarded event_hold event_name event_release event_dead_hold event_dead_sent event_insert event_later event_sent event_sent_prune
		group_read group_unreadable history_months job_end job_numbers job_register job_tell history_prune ledger_fill ledger_prune ledger_skip limit_release limit_pace limit_renew limit_acquire next_slot page_unreadable periodic_failed row_record row_wait rows_finish rows_finish_alike rows_finish_apart
		rows_lock rows_move rows_move_alike rule_fire rule_forget rule_job rule_lock rule_prune schedule_backfill schedule_delete schedule_state schedule_insert schedule_lock schedule_pauser schedule_refusing schedule_update schedule_wait
		slot_close slot_open slot_unsettle slot_waited_for`,
	pg.Owner: `event_renumber`,
	pg.Operator: `action_end action_insert action_renew event_forget history_ack history_retry job_pause job_resume ledger_begin ledger_rewind
		rule_change rule_delete rule_done rule_insert rule_position rule_removing rule_retime schedule_act set_width store_claim store_drain store_drop store_forget store_give store_identify store_receive store_settle store_undrain`,
}

// mayCall is mayRun for functions that only other functions call, and those that no statement calls
// alone.
var mayCall = map[pg.Role]string{
	"both":    `settings slot_ceil slot_floor store`,
	pg.App:    `cancel cancel_entity enqueue enqueue_many lock_group push_back reschedule`,
	pg.Reader: `oldest_active_xid gets_event refuse_routine jobs_in_slot newest_events find_job job_number read_events estimate_rows force_slot_index slot_took of_schedule journal_abroad journal_check journal_value why`,
	pg.Runner: `prune_events begin_check claim_rows close_slot terminate_sessions fence finish_rows_apart end_row checks_after errors_after microseconds ensure_job lateness_bucket lock_slot scan_slot make_history_month
		honour honour_moved make_history_months move_rows move_rows_alike open_slot record_row raise_suppressed register_jobs require_recorded same_check slot_is_claimable due_slot take_over reserve_rate acquire_permits
		journal_entry journal_in journal_add lock_rule unreadable_rows wait_for_locks prune_ledger drop_history_months drop_schedule schedule_pauser pause_schedule refusing_login schedule_mistake set_schedule wait_for_schedule`,
	pg.Rules:    `cancel_keys rule_look rule_mark rule_rename rule_resume rule_wait rule_wait_many`,
	pg.Operator: `end_action give_rows receive_rows record_action record_request renew_action retime retry_failed set_width settle_rows`,
	pg.Owner:    `renumber_events lock_check end_check end_checks ended_recently enqueue_slowly find_rule make_request push_back_row require_given require_rights require_runner pick_slot window_slots window_hash window_key within_seconds wait_fits`,
}

var contains = map[pg.Role][]pg.Role{
	"nobody":    {"anybody"},
	pg.App:      {"anybody", "member", "both", pg.App},
	pg.Reader:   {"anybody", "member", "both", pg.Reader},
	pg.Runner:   {"anybody", "member", "both", pg.App, pg.Reader, pg.Runner},
	pg.Rules:    {"anybody", "member", pg.Rules},
	pg.Operator: {"anybody", "member", "both", pg.App, pg.Reader, pg.Runner, pg.Rules, pg.Operator},
	pg.Owner:    {"anybody", "member", "both", pg.App, pg.Reader, pg.Runner, pg.Rules, pg.Operator, pg.Owner},
}

// needed returns the role that a name needs.
func needed(t *testing.T, matrix map[pg.Role]string, name string) pg.Role {
	t.Helper()
	for role, names := range matrix {
		if slices.Contains(strings.Fields(names), name) {
			return role
		}
	}
	t.Errorf("nobody has said who may use %s: grant it in roles.sql, and enter it here", name)
	return pg.Owner
}

// oneRole says why there are no roles on Citus.
const oneRole = "the owner of functions has other connections to a worker than their caller"

// withRoles returns a migrated schema with roles. The schema has a name of its own, because roles
// belong to the server. The test drops them at its end.
func withRoles(t *testing.T, schema pgsql.Schema) *sqlx.DB {
	t.Helper()
	pgtest.NotOnCitus(t, oneRole)
	db := pgtest.New(t)
	exec(t, db, "create role "+schema.String()+"_nobody login")
	pgtest.DropRoles(t, db, schema.String()+"_")
	exec(t, db, "drop schema prescient cascade")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	makeRoles(t, db, schema)
	return db
}

func makeRoles(t *testing.T, db *sqlx.DB, schema pgsql.Schema) {
	t.Helper()
	if err := pgsql.MakeRoles(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
}

// as runs fn in a transaction with a role, and rolls it back.
func as(t *testing.T, db *sqlx.DB, role string, fn func(tx *sqlx.Tx) error) error {
	t.Helper()
	tx := begin(t, db)
	defer func() { _ = tx.Rollback() }()
	exec(t, tx, "set local role "+role)
	return fn(tx)
}

func TestEveryStatementTakesTheRoleThatTheMatrixSays(t *testing.T) {
	t.Parallel()
	const schema = "matrix_of_statements"
	db := withRoles(t, schema)
	files, err := os.ReadDir("statements")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, isStatement := strings.CutSuffix(file.Name(), ".sql")
		if !isStatement {
			continue
		}
		text, err := os.ReadFile("statements/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		takes := needed(t, mayRun, name)
		for role, includes := range contains {
			err := as(t, db, role.In(pgsql.Schema(schema)), func(tx *sqlx.Tx) error {
				return mayExplain(t, tx, pg.NewStatement(statements.Expand(string(text))).In(pgsql.Schema(schema)))
			})
			refused := pq.As(err, pqerror.InsufficientPrivilege) != nil
			if err != nil && !refused {
				t.Errorf("%s as %s: %v", name, role, err)
			}
			if want := !slices.Contains(includes, takes); refused != want {
				t.Errorf("%s as %s is refused: %t, want %t (%v)", name, role, refused, want, err)
			}
		}
	}
}

// mayExplain lets the server check the privileges of a statement without running it.
func mayExplain(t *testing.T, tx *sqlx.Tx, statement string) error {
	t.Helper()
	if strings.Contains(statement, "\nfrom stdin") {
		stmt, err := tx.PrepareContext(t.Context(), statement)
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		return nil
	}
	if strings.Contains(statement, "\nlock table ") { // it has no plan
		_, err := tx.ExecContext(t.Context(), statement)
		return err
	}
	// A generic plan simplifies no call away.
	if _, err := tx.ExecContext(t.Context(), "deallocate all; set local plan_cache_mode = force_generic_plan; prepare checked as "+statement); err != nil {
		return err
	}
	var parameters int
	err := tx.GetContext(t.Context(), &parameters, "select cardinality(parameter_types) from pg_prepared_statements where name = 'checked'")
	if err != nil {
		return err
	}
	nulls := ""
	if parameters > 0 {
		nulls = "(null" + strings.Repeat(", null", parameters-1) + ")"
	}
	_, err = tx.ExecContext(t.Context(), "explain execute checked"+nulls)
	return err
}

func TestEveryFunctionTakesTheRoleThatTheMatrixSays(t *testing.T) {
	t.Parallel()
	const schema = "matrix_of_functions"
	db := withRoles(t, schema)
	for _, name := range list(t, db, `select distinct proname from pg_proc where pronamespace = 'matrix_of_functions'::regnamespace`) {
		takes := needed(t, mayCall, name)
		for role, includes := range contains {
			if got := get[bool](t, db, `
				select bool_and(has_function_privilege($1, oid, 'execute'))
				from pg_proc
				where proname = $2 and pronamespace = 'matrix_of_functions'::regnamespace`, role.In(pgsql.Schema(schema)), name,
			); got != slices.Contains(includes, takes) {
				t.Errorf("%s may execute %s: %t", role, name, got)
			}
		}
	}
	if got := list(t, db, `
		select c.relname || ' ' || p
		from pg_class c, unnest('{select,insert,update,delete,truncate,references,trigger}'::text[]) as p
		where c.relnamespace = 'matrix_of_functions'::regnamespace and c.relkind in ('r', 'p')
			and has_table_privilege('matrix_of_functions_app', c.oid, p)`); len(got) > 0 {
		t.Errorf("an app may do more than call functions: %q", got)
	}
}

func TestThePageOfRolesHasEachFunctionThatAnAppMayCall(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, item, found := strings.Cut(string(page), "\n- `prescient_app` may call")
	item, _, _ = strings.Cut(item, "\n- ")
	for _, name := range strings.Fields(mayCall["both"] + " " + mayCall[pg.App]) {
		if !found || !strings.Contains(item, "`"+name+"`") {
			t.Errorf("roles.md does not say that an app may call %s", name)
		}
	}
}

func TestALoginWithoutARoleHasNoRightOnTheSchema(t *testing.T) {
	t.Parallel()
	const schema = "no_right"
	db := withRoles(t, schema)
	if got := list(t, db, `
		select p from unnest('{usage,create}'::text[]) as p
		where has_schema_privilege('no_right_nobody', 'no_right', p)`); len(got) > 0 {
		t.Errorf("it may use the schema: %q", got)
	}
	if got := list(t, db, `
		select c.relname || ' ' || p
		from pg_class c, unnest('{select,insert,update,delete,truncate,references,trigger}'::text[]) as p
		where c.relnamespace = 'no_right'::regnamespace and c.relkind in ('r', 'p')
			and has_table_privilege('no_right_nobody', c.oid, p)`); len(got) > 0 {
		t.Errorf("it may use tables: %q", got)
	}
	for _, statement := range []string{
		"select * from no_right.future_job", "select * from no_right.enqueue('remind', 'order', '1', check_at => now())",
		"select * from no_right.settings()",
	} {
		err := as(t, db, "no_right_nobody", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		})
		if pq.As(err, pqerror.InsufficientPrivilege) == nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestFunctionsWithTheRightsOfTheOwnerArePinnedAndNotPublic(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const definers = `from pg_proc where pronamespace = 'prescient'::regnamespace and prosecdef`
	if n := get[int](t, db, "select count(*) "+definers); n < 10 {
		t.Errorf("only %d", n)
	}
	if got := list(t, db, "select proname "+definers+" and 'search_path=pg_catalog, pg_temp' <> all (coalesce(proconfig, '{}'))"); len(got) > 0 {
		t.Errorf("the search_path is not pinned: %q", got)
	}
	if got := list(t, db, "select proname "+definers+" and 'row_security=off' <> all (coalesce(proconfig, '{}'))"); len(got) > 0 {
		t.Errorf("row security may hide rows: %q", got)
	}
	if got := list(t, db, "select proname "+definers+" and has_function_privilege('public', oid, 'execute')"); len(got) > 0 {
		t.Errorf("anybody may execute: %q", got)
	}
}

// shadows creates an object with the name of each function, operator and table that the functions
// use. Each tells which role called it.
const shadows = `
	create schema shadow_caller;
	create table shadow_caller.caught (what text);
	grant all on schema shadow_caller to shadows_operator;
	grant usage on schema shadow_caller to public;
	grant insert, select on shadow_caller.caught to public;
	set local role shadows_operator;
	set local search_path = pg_temp, shadow_caller, pg_catalog;
	create temp table setting (width interval, since timestamptz, schema_version int, min_code_version int);
	create temp table future_job (id bigint, job bigint);
	create temp table job (job bigint, name text);
	create temp table slot_run (slot timestamptz);
	create temp table pg_class (oid oid, relname name, reltuples real);
	do $do$
	declare
		commands text[];
		command  text;
	begin
		select pg_catalog.array_agg(c) into commands from (
			select format($f$create function shadow_caller.%I(%s) returns %s language plpgsql as $$
				begin insert into shadow_caller.caught values (%L); return null; end $$ $f$,
				proname, pg_get_function_identity_arguments(oid), format_type(prorettype, null), proname)
			from pg_catalog.pg_proc
			where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f' and not proretset
				and pg_get_function_identity_arguments(oid) !~ '\yany'
				and proname in ('date_bin', 'clock_timestamp', 'hashtextextended', 'pg_current_xact_id', 'date_trunc', 'to_char',
					'pg_try_advisory_xact_lock', 'extract', 'floor', 'timezone', 'to_date', 'to_regclass', 'octet_length',
					'quote_literal', 'right', 'current_setting', 'generate_series')
			union all
			select format($f$create function shadow_caller.%I(%I, %I) returns %s language plpgsql as $$
				begin insert into shadow_caller.caught values (%L); return null; end $$;
				create operator shadow_caller.%s (leftarg = %I, rightarg = %I, function = shadow_caller.%I) $f$,
				'operator_' || o.oid, l.typname, r.typname, format_type(o.oprresult, null), oprname,
				oprname, l.typname, r.typname, 'operator_' || o.oid)
			from pg_catalog.pg_operator o
			join pg_catalog.pg_type l on l.oid = o.oprleft
			join pg_catalog.pg_type r on r.oid = o.oprright
			where oprname in ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '||', '%', '~')
				and l.typname in ('text', 'timestamptz', 'interval', 'int4', 'int8', 'float8', 'name', 'oid', 'numeric')
				and r.typname in ('text', 'timestamptz', 'interval', 'int4', 'int8', 'float8', 'name', 'oid', 'numeric')
		) as c (c);
		foreach command in array commands loop
			execute command;
		end loop;
	end
	$do$;`

func TestFunctionsWithTheRightsOfTheOwnerCallNothingOfTheCaller(t *testing.T) {
	t.Parallel()
	const schema = "shadows"
	db := withRoles(t, schema)
	err := as(t, db, "none", func(tx *sqlx.Tx) error {
		exec(t, tx, "grant create, temporary on database "+get[string](t, tx, "select current_database()")+" to shadows_operator")
		exec(t, tx, "insert into shadows.rule (name, relation, definition) values ('unshipped', 'shop.orders', '{}')")
		exec(t, tx, shadows)
		// The shadows are found first.
		exec(t, tx, "savepoint caught; select date_bin('1 hour', clock_timestamp(), clock_timestamp())")
		if n := get[int64](t, tx, "select pg_catalog.count(*) from shadow_caller.caught"); n == 0 {
			return errors.New("the shadows catch nothing")
		}
		exec(t, tx, "rollback to savepoint caught")
		for _, call := range []string{
			"settings()", "slot_ceil('2030-03-01')",
			"enqueue('remind', 'order', '1', check_at => '2030-03-01')", "enqueue('remind', 'order', '1', check_at => '2030-03-02')",
			"enqueue('remind', 'order', '1', check_at => '2030-03-02', on_conflict => 'replace')",
			"enqueue('remind', 'order', '1', check_at => '2030-03-03', on_conflict => 'push_back', max_wait => '1 day')",
			"enqueue('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('2030-03-04')::timestamptz::text, true) is not null then ('2030-03-03')::timestamptz end)",
			"enqueue_many('{remind}', '{order}', '{2}', item_keys => '{a}', check_ats => '{2030-03-01}')",
			"enqueue_many('{remind}', '{order}', '{2}', item_keys => '{a}', check_ats => '{2030-03-01}', on_conflict => 'push_back')",
			"reschedule('remind', 'order', '1', check_at => '2030-03-05')", "push_back('remind', 'order', '1', check_at => '2030-03-06')",
			"cancel('remind', 'order', '1')", "cancel_entity('order', '2')",
			"rule_wait('unshipped', 'order', '1', '2030-03-01')", "rule_wait('unshipped', 'order', '1', '2030-03-02', '{}')",
			"rule_wait_many('unshipped', 'order', '{1,2}', '{2030-03-01,2030-03-01}')",
			"rule_resume('unshipped', 'order', '1', '{2030-03-01}')", "rule_rename('unshipped', 'order', '1', '3', '2030-03-01')",
			"cancel_keys('unshipped', 'order', '{1,2}')",
			"make_history_month('2031-01-01')", "drop_history_months('2031-01-01')", "prune_ledger('2031-01-01', 10)", "set_width('1 hour')",
		} {
			exec(t, tx, "select from shadows."+call)
		}
		if got := list(t, tx, "select distinct what from shadow_caller.caught"); len(got) > 0 {
			return fmt.Errorf("called with the rights of the owner: %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The triggers of a rule keep its checks in step with a table. An application that writes to the table
// has no right on them.
func TestAnApplicationCannotForgeTheChecksOfARule(t *testing.T) {
	t.Parallel()
	const schema = "forged_rule"
	db := withRoles(t, schema)
	exec(t, db, `
		grant forged_rule_app to forged_rule_nobody;
		insert into forged_rule.rule (name, relation, definition) values ('unshipped', 'shop.orders', '{}');
		select forged_rule.rule_wait('unshipped', 'orders', '1', '2030-03-01')`)
	for _, call := range []string{
		"enqueue('unshipped', 'orders', '2', check_at => '2030-03-01')",
		"enqueue('unshipped', 'orders', '1', check_at => '2031-03-01', on_conflict => 'replace')",
		"enqueue_many('{a,unshipped}', '{orders,orders}', '{2,2}', item_keys => '{\"\",\"\"}', check_ats => '{2030-03-01,2030-03-01}')",
		"reschedule('unshipped', 'orders', '1', check_at => '2031-03-01')", "push_back('unshipped', 'orders', '1', check_at => '2031-03-01')",
		"cancel('unshipped', 'orders', '1')",
		"cancel_keys('unshipped', 'orders', '{1}')", "rule_wait('unshipped', 'orders', '2', '2030-03-01')",
		"rule_wait_many('unshipped', 'orders', '{2}', '{2030-03-01}')", "rule_resume('unshipped', 'orders', '2', '{2030-03-01}')",
		"rule_rename('unshipped', 'orders', '2', '3', '2030-03-01')",
	} {
		err := as(t, db, "forged_rule_nobody", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select forged_rule."+call)
			return err
		})
		if pq.As(err, pqerror.InsufficientPrivilege) == nil {
			t.Errorf("%s: %v", call, err)
		}
		if err := as(t, db, "forged_rule_operator", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select forged_rule."+call)
			return err
		}); err != nil {
			t.Errorf("%s as an operator: %v", call, err)
		}
	}
	exec(t, db, "select forged_rule.enqueue('remind', 'orders', '1', check_at => '2030-03-01'); set role forged_rule_nobody; select forged_rule.cancel_entity('orders', '1'); reset role")
	if got := list(t, db, "select j.name from forged_rule.future_job f join forged_rule.job j using (job)"); !slices.Equal(got, []string{"unshipped"}) {
		t.Errorf("waiting: %q", got)
	}
}

// A session may keep a snapshot from before the rule open, for any other transaction to use.
func TestAnApplicationCannotForgeTheChecksOfARuleInAnOlderSnapshot(t *testing.T) {
	t.Parallel()
	const schema = "older_snapshot"
	db := withRoles(t, schema)
	const instant = "check_at => '2030-03-01'"
	exec(t, db, `
		grant older_snapshot_app to older_snapshot_nobody;
		select older_snapshot.enqueue('known', 'orders', '1', `+instant+`), older_snapshot.enqueue('remind', 'orders', '1', `+instant+`);
		select older_snapshot.cancel('known', 'orders', '1')`)
	repeatable := &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	keeper, err := db.BeginTxx(t.Context(), repeatable)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = keeper.Rollback() }()
	older := get[string](t, keeper, "select pg_export_snapshot()")
	for _, name := range []string{"known", "new"} { // as an apply does
		tx := begin(t, db)
		get[int](t, tx, pg.RuleInsert.In(pgsql.Schema(schema)), name, "shop.orders", "{}", nil)
		exec(t, tx, pg.RuleJob.In(pgsql.Schema(schema)), name)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	// Any login may take the lock of a new name.
	exec(t, begin(t, db), pg.NewStatement("select pg_advisory_xact_lock(hashtextextended('prescient.job new', 0))").In(pgsql.Schema(schema)))
	enqueue := func(snapshot, call string) error {
		tx, err := db.BeginTxx(t.Context(), repeatable)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if snapshot != "" {
			exec(t, tx, "set transaction snapshot '"+snapshot+"'")
		}
		exec(t, tx, "set local role older_snapshot_nobody")
		_, err = tx.ExecContext(t.Context(), "select older_snapshot."+call)
		return err
	}
	for _, call := range []string{
		"enqueue('known', 'orders', '2', " + instant + ")", "enqueue('known', 'orders', '2', " + instant + ", within => '1 hour')",
		"enqueue('new', 'orders', '2', " + instant + ")",
		"enqueue_many('{remind,known}', '{orders,orders}', '{2,2}', item_keys => '{a,a}', check_ats => '{2030-03-01,2030-03-01}')",
		"enqueue_many('{new}', '{orders}', '{2}', item_keys => '{a}', check_ats => '{2030-03-01}', on_conflict => 'replace')",
	} {
		if err := enqueue(older, call); !pg.HasState(err, pqerror.TRSerializationFailure) {
			t.Errorf("%s in the older snapshot: %v", call, err)
		}
		if err := enqueue("", call); !pg.HasState(err, pqerror.InsufficientPrivilege) {
			t.Errorf("%s in a new snapshot: %v", call, err)
		}
	}
	if err := enqueue(older, "enqueue('remind', 'orders', '2', "+instant+")"); err != nil {
		t.Errorf("a check of an application: %v", err)
	}
}

// Two calls with some of the same new names would deadlock.
func TestAnEnqueueInASnapshotUsesNewNamesInTheirOrder(t *testing.T) {
	t.Parallel()
	const schema = "names_in_order"
	db := withRoles(t, schema)
	exec(t, db, "grant names_in_order_app to names_in_order_nobody")
	names := make([]string, 50)
	for i := range names {
		names[i] = fmt.Sprint("new.", (i*37)%50+10)
	}
	many := "select names_in_order.enqueue_many($1, array_fill('orders'::text, '{50}'), array_fill('1'::text, '{50}'), null, array_fill('2030-03-01'::timestamptz, '{50}'))"
	tx, err := db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	exec(t, tx, "set local role names_in_order_nobody")
	exec(t, tx, many, pq.StringArray(names))
	exec(t, tx, "reset role")
	written := get[pq.StringArray](t, tx, "select array_agg(name order by ctid) from names_in_order.job where name like 'new.%'")
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(written, want) {
		t.Errorf("the names were written in the order %s", written)
	}
}

func TestAnApplyNamesTheTransactionThatFirstUsesItsName(t *testing.T) {
	t.Parallel()
	const schema = "first_use"
	db := withRoles(t, schema)
	exec(t, db, "grant first_use_app to first_use_nobody")
	const enqueue = "select first_use.enqueue('new', 'orders', $1, check_at => '2030-03-01')"
	var first *sqlx.Tx
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelReadUncommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		if first != nil {
			if err := first.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
		tx, err := db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		first = tx
		exec(t, tx, "set local role first_use_nobody")
		exec(t, tx, enqueue, "1")
		holder := get[string](t, db, "select coalesce((select holder from ("+pg.RuleHolders.In(pgsql.Schema(schema))+") as h), 'nobody')", "public.none", false, "new")
		if want := fmt.Sprintf("session %d of ", get[int](t, tx, "select pg_backend_pid()")); !strings.HasPrefix(holder, want) {
			t.Errorf("%s: the apply names %s, want %s", level, holder, want)
		}
	}

	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelReadUncommitted} {
		tx, err := db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, tx, "set local role first_use_nobody; set local lock_timeout = '10ms'")
		if _, err := tx.ExecContext(t.Context(), enqueue, "2"); err != nil {
			t.Errorf("%s: the name that another transaction uses first: %v", level, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// The owner of a table can make the functions of its triggers run code, so their owner may do nothing
// else than let rows of rules wait.
func TestTheOwnerOfTriggersWritesOnlyForRules(t *testing.T) {
	t.Parallel()
	const schema = "only_rules"
	db := withRoles(t, schema)
	exec(t, db, `insert into only_rules.rule (name, relation, definition) values ('unshipped', 'shop.orders', '{}')`)
	err := as(t, db, "only_rules_rules", func(tx *sqlx.Tx) error {
		exec(t, tx, `select only_rules.rule_wait('unshipped', 'orders', '1', '2030-03-01'), only_rules.rule_wait('remind', 'orders', '2', '2030-03-01');
			select only_rules.rule_wait_many('unshipped', 'orders', '{3,4}', '{2030-03-01,2030-03-02}'), only_rules.rule_wait_many('remind', 'orders', '{5}', '{2030-03-01}');
			select only_rules.cancel_keys('unshipped', 'orders', '{3}'), only_rules.cancel_keys('remind', 'orders', '{1}');
			reset role`)
		if got := list(t, tx, "select entity_key from only_rules.future_job order by 1"); !slices.Equal(got, []string{"1", "4"}) {
			t.Errorf("waiting: %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, call := range []string{"enqueue('unshipped', 'orders', '1', check_at => '2030-03-01')", "retime('unshipped', null, null, null, null, null)"} {
		err := as(t, db, "only_rules_rules", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select only_rules."+call)
			return err
		})
		if pq.As(err, pqerror.InsufficientPrivilege) == nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Any session may choose an application_name, also that of a check.
func TestAnApplicationThatLocksARowIsNamedWhateverItCallsItself(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "calls_itself"
	address := pgtest.Direct(t)
	db := open(t, address)
	exec(t, db, "create role calls_itself_web login password 'web'; drop schema prescient cascade")
	pgtest.DropRoles(t, db, schema+"_")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	makeRoles(t, db, schema)
	exec(t, db, "grant calls_itself_app to calls_itself_web; select calls_itself.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
	as, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("calls_itself_web", "web")
	for _, test := range []struct {
		db   *sqlx.DB
		want bool
	}{{open(t, as.String()), true}, {db, false}} {
		tx := begin(t, test.db)
		exec(t, tx, "set local application_name = 'prescient claim 1'; select calls_itself.push_back('remind', 'order', '1', check_at => '2030-03-01')")
		var holders []string
		err := db.SelectContext(t.Context(), &holders, "select holder from ("+pg.RowHolder.In(pgsql.Schema(schema))+") as h",
			"2030-03-01", pq.Array([]int64{get[int64](t, db, "select job from calls_itself.future_job")}), 1, 1, pq.Array([]int64{1}), 0)
		if err != nil || (len(holders) == 1 && strings.Contains(holders[0], "of calls_itself_web (prescient claim 1, ")) != test.want || len(holders) > 1 {
			t.Errorf("the log names %q, %v, want the session of the application: %t", holders, err, test.want)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// A session under another login could otherwise let the log advise to end any session for which it waits.
func TestTheLogNamesNoSessionForWhichAnotherLoginWaits(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	address := pgtest.Direct(t)
	db := open(t, address)
	exec(t, db, "create role waits_web login password 'web'")
	pgtest.DropRoles(t, db, "waits_")
	as, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("waits_web", "web")
	holder := begin(t, db)
	exec(t, holder, "set local application_name = 'prescient status'; select pg_advisory_xact_lock(7)")
	waits := begin(t, open(t, as.String()))
	ended := make(chan error, 1)
	go func() {
		_, err := waits.ExecContext(t.Context(), "set local application_name = 'prescient status'; select pg_advisory_xact_lock(7)")
		ended <- err
	}()
	pgtest.AwaitWaits(t, db, 1)
	if got := list(t, holder, "select holder from ("+pg.LockHolders.In(pgsql.DefaultSchema)+") as h", 0); len(got) > 0 {
		t.Errorf("it names %q", got)
	}
	if err := errors.Join(holder.Rollback(), <-ended); err != nil {
		t.Error(err)
	}
}

func TestACheckIsOfTheRoleThatAskedForIt(t *testing.T) {
	t.Parallel()
	const schema = "asked_by"
	db := withRoles(t, schema)
	exec(t, db, "grant asked_by_app to asked_by_nobody")
	tx := begin(t, db)
	own := get[string](t, tx, "select session_user")
	exec(t, tx, "select asked_by.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
	exec(t, tx, "set local role asked_by_nobody")
	exec(t, tx, "select asked_by.enqueue('remind', 'order', '2', check_at => '2030-03-01')")
	exec(t, tx, "reset role")
	if diff := cmp.Diff([]string{own, "asked_by_nobody"}, list(t, tx, "select enqueued_by from asked_by.future_job order by entity_key")); diff != "" {
		t.Error(diff)
	}
}

func TestRolesAreMadeAgainWithoutAChange(t *testing.T) {
	t.Parallel()
	const schema = "made_twice"
	db := withRoles(t, schema)
	const granted = `
		select string_agg(relname || relowner || coalesce(relacl::text, ''), ' ' order by oid) from pg_class where relnamespace = 'made_twice'::regnamespace
		union all
		select string_agg(proname || proowner || coalesce(proacl::text, ''), ' ' order by oid) from pg_proc where pronamespace = 'made_twice'::regnamespace
		union all
		select string_agg(roleid || ' ' || member, ' ' order by roleid, member) from pg_auth_members where roleid::regrole::text like 'made_twice%'`
	want := list(t, db, granted)
	makeRoles(t, db, schema)
	if diff := cmp.Diff(want, list(t, db, granted)); diff != "" {
		t.Error(diff)
	}
}

// A login that owns the database and may create roles sets everything up. A member of the owner
// then migrates, and the roles get what is new.
func TestAMemberOfTheOwnerMigrates(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "member_migrates"
	url := pgtest.URL(t)
	admin := open(t, url)
	pgtest.DropRoles(t, admin, schema)
	name := get[string](t, admin, "select current_database()")
	exec(t, admin, `
		create role member_migrates_admin createrole;
		create role member_migrates_deployer;
		grant create on database `+name+` to member_migrates_admin`)
	setUp := open(t, url, pgsql.Param("role", "member_migrates_admin"))
	if err := pgsql.Migrate(t.Context(), setUp, schema); err != nil {
		t.Fatal(err)
	}
	makeRoles(t, setUp, schema)
	exec(t, setUp, "grant member_migrates_owner to member_migrates_deployer")
	deployer := open(t, url, pgsql.Param("role", "member_migrates_deployer"))
	exec(t, admin, `
		drop function member_migrates.cancel_entity;
		update member_migrates.setting set functions = 'older'`)
	if err := pgsql.Migrate(t.Context(), deployer, schema); err != nil {
		t.Fatal(err)
	}
	if !get[bool](t, admin, "select has_function_privilege('member_migrates_app', 'member_migrates.cancel_entity(text, text)', 'execute')") {
		t.Error("an application may not call the new function")
	}
	if owner := get[string](t, admin, "select proowner::regrole::text from pg_proc where oid = 'member_migrates.cancel_entity(text, text)'::regprocedure"); owner != "member_migrates_owner" {
		t.Errorf("the new function is of %s", owner)
	}
	exec(t, deployer, "set role member_migrates_runner; select member_migrates.make_history_month('2033-01-01')")
	if owner := get[string](t, admin, "select relowner::regrole::text from pg_class where oid = 'member_migrates.future_job_history_203301'::regclass"); owner != "member_migrates_owner" {
		t.Errorf("a month that a runner made is of %s", owner)
	}
}

// The functions are committed together with the rights on them.
func TestAnApplicationIsNeverDeniedWhatAMigrationReplaces(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "denied_never"
	db := withRoles(t, schema)
	exec(t, db, `
		drop function denied_never.require_rights;
		update denied_never.setting set functions = 'older'`)
	cancel := func() error {
		return pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "set local role denied_never_app; select denied_never.cancel('remind', 'order', '1')")
			return err
		})
	}
	if err := cancel(); !pg.HasState(err, pqerror.UndefinedFunction) {
		t.Errorf("without the function: %v", err)
	}
	other := db.MustBegin()
	defer func() { _ = other.Rollback() }()
	other.MustExec("select pg_advisory_xact_lock(hashtextextended('denied_never.roles', 0))")
	migrated := make(chan error, 1)
	go func() { migrated <- pgsql.Migrate(t.Context(), db, schema) }()
	await.True(t, "the migration to wait for the roles", func() bool {
		return get[bool](t, db, `select exists (
			select from pg_locks l join pg_database d on d.oid = l.database
			where l.locktype = 'advisory' and not l.granted and d.datname = current_database())`)
	})
	if err := cancel(); !pg.HasState(err, pqerror.UndefinedFunction) {
		t.Errorf("before the migration commits: %v", err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the migration", migrated); err != nil {
		t.Fatal(err)
	}
	if err := cancel(); err != nil {
		t.Error(err)
	}
}

func TestAnOlderBinaryTakesNothingFromTheRolesOfANewerSchema(t *testing.T) {
	t.Parallel()
	const schema = "roles_of_newer"
	db := withRoles(t, schema)
	exec(t, db, `
		create function roles_of_newer.new() returns int language sql as 'select 1';
		grant execute on function roles_of_newer.new to roles_of_newer_app;
		update roles_of_newer.setting set schema_version = schema_version + 1`)
	if err := pgsql.MakeRoles(t.Context(), db, schema); !errors.Is(err, pgsql.ErrNewer) {
		t.Error(err)
	}
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Error(err)
	}
	if !get[bool](t, db, "select has_function_privilege('roles_of_newer_app', 'roles_of_newer.new()', 'execute')") {
		t.Error("the app may not call the new function any more")
	}
}

func TestMakingRolesSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := open(t, url)
	pgtest.DropRoles(t, db, "needs_createrole")
	exec(t, db, "create role needs_createrole_login")
	one := open(t, url, pgsql.Param("role", "needs_createrole_login"))
	if err := pgsql.MakeRoles(t.Context(), one, "needs_createrole"); !errors.Is(err, pgsql.ErrCreateRole) {
		t.Error(err)
	}
	if err := pgsql.MakeRoles(t.Context(), one, pgsql.Schema(strings.Repeat("x", 55))); err == nil || !strings.Contains(err.Error(), "54 letters") {
		t.Error(err)
	}
}

func TestThePrintedRolesAreThoseThatAreMade(t *testing.T) {
	t.Parallel()
	const schema = "printed_roles"
	db := withRoles(t, schema)
	const granted = `select coalesce(string_agg(proname || proacl::text, ' ' order by oid), '') from pg_proc where pronamespace = 'printed_roles'::regnamespace`
	want := get[string](t, db, granted)
	exec(t, db, "revoke all on all functions in schema printed_roles from printed_roles_app")
	var script strings.Builder
	if err := pgsql.PrintRoles(reserved.Caller{}, &script, schema); err != nil {
		t.Fatal(err)
	}
	exec(t, db, script.String())
	if diff := cmp.Diff(want, get[string](t, db, granted)); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameRolesAreMadeForManyDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "twins"
	var databases []*sqlx.DB
	for i := range 6 {
		db := pgtest.New(t)
		if databases = append(databases, db); i == 0 { // the last database to be dropped
			pgtest.DropRoles(t, db, schema)
		}
		if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
			t.Fatal(err)
		}
	}
	var making sync.WaitGroup
	for _, db := range databases {
		making.Go(func() {
			if err := pgsql.MakeRoles(t.Context(), db, schema); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
}

// rightsOf lists the owners and privileges of an application's objects in a schema.
const rightsOf = `
	select 'schema ' || nspname || ' ' || nspowner::regrole || ' ' || coalesce(nspacl::text, '') from pg_namespace where nspname = 'public'
	union all select relname || ' ' || relowner::regrole || ' ' || coalesce(relacl::text, '') from pg_class
	where relnamespace = 'public'::regnamespace and relname like 'shop%'
	union all select proname || ' ' || pg_get_function_identity_arguments(oid) || ' ' || proowner::regrole || ' ' || coalesce(proacl::text, '') from pg_proc
	where pronamespace = 'public'::regnamespace and pg_get_function_identity_arguments(oid) like '%of_shop%'
	union all select typname || ' ' || typowner::regrole || ' ' || coalesce(typacl::text, '') from pg_type
	where typnamespace = 'public'::regnamespace and typname like 'shop%'
	order by 1`

// An application may share the schema, and have functions with the names of prescient's.
func TestRolesTakeNothingFromAnApplicationThatSharesTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	db := open(t, pgtest.Empty(t))
	pgtest.DropRoles(t, db, "public_")
	exec(t, db, `
		create table public.shop_orders (id bigint generated always as identity primary key);
		create view public.shop_paid as select id from public.shop_orders;
		create sequence public.shop_number;
		create domain public.shop_amount as numeric;
		create function public.cancel(of_shop integer) returns void language sql as 'delete from public.shop_orders';
		create procedure public.wait_for_locks(of_shop integer) language sql as 'delete from public.shop_orders'`)
	if err := pgsql.Migrate(t.Context(), db, "public"); err != nil {
		t.Fatal(err)
	}
	schema := "schema public"
	without := func(lines []string) []string {
		return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, schema) })
	}
	want := without(list(t, db, rightsOf))
	for range 2 {
		makeRoles(t, db, "public")
		if err := pgsql.Migrate(t.Context(), db, "public"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, without(list(t, db, rightsOf))); diff != "" {
			t.Errorf("the application's objects:\n%s", diff)
		}
	}
	if owner := get[string](t, db, "select nspowner::regrole::text from pg_namespace where nspname = 'public'"); owner != "pg_database_owner" {
		t.Errorf("schema public belongs to %s", owner)
	}
	for _, check := range []string{
		"not has_table_privilege('public_reader', 'public.shop_orders', 'select')",
		"has_table_privilege('public_reader', 'public.future_job', 'select')",
		"has_function_privilege('public_app', 'public.cancel(text, text, text, text)', 'execute')",
		"(select relowner = 'public_owner'::regrole from pg_class where oid = 'public.future_job'::regclass)",
		"(select typowner = 'public_owner'::regrole from pg_type where oid = 'public.entity_key'::regtype)",
	} {
		if !get[bool](t, db, "select "+check) {
			t.Error("want " + check)
		}
	}
	exec(t, db, "set role public_runner; select public.make_history_month('2033-01-01'); reset role")
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, "public"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, without(list(t, db, rightsOf))); diff != "" {
		t.Errorf("after the way down:\n%s", diff)
	}
}

// With the rows that say what comes next, an application could forge what schedules publish.
func TestAnApplicationCannotWriteTheRowsOfSchedules(t *testing.T) {
	t.Parallel()
	const schema = "rows_of_schedules"
	db := withRoles(t, schema)
	exec(t, db, `select rows_of_schedules.enqueue('schedule', 'schedule', 'payroll', check_at => clock_timestamp(), payload => '{"at": 1700000000}'),
		rows_of_schedules.enqueue('pay', 'schedule', 'payroll', 'payroll-1700000000', check_at => clock_timestamp())`)
	for _, call := range []string{
		`enqueue('schedule', 'schedule', 'payroll', item_key => 'twin', check_at => clock_timestamp(), payload => '{"at": 1}')`,
		`enqueue('schedule', 'schedule', 'payroll', check_at => clock_timestamp(), on_conflict => 'replace')`,
		`enqueue('schedule', 'schedule', 'payroll', item_key => null, check_at => clock_timestamp())`,
		`enqueue_many(array['x', 'schedule'], array['o', 'schedule'], array['1', 'p'], array['', ''],
			array[now(), now()])`,
		`cancel('schedule', 'schedule', 'payroll')`,
		`reschedule('schedule', 'schedule', 'payroll', check_at => clock_timestamp())`,
		`push_back('schedule', 'schedule', 'payroll', check_at => clock_timestamp())`,
		// A key that the schedule will enqueue at an instant, and one that it has.
		`enqueue('pay', 'schedule', 'payroll', 'payroll-1800000000', check_at => clock_timestamp())`,
		`enqueue('pay', 'schedule', 'payroll', 'payroll-1700000000', check_at => clock_timestamp(), on_conflict => 'replace')`,
		`enqueue_many(array['x', 'pay'], array['o', 'schedule'], array['1', 'payroll'], array['', 'payroll-1800000000'],
			array[now(), now()])`,
		`cancel('pay', 'schedule', 'payroll', 'payroll-1700000000')`,
		`reschedule('pay', 'schedule', 'payroll', 'payroll-1700000000', check_at => clock_timestamp())`,
		`push_back('pay', 'schedule', 'payroll', 'payroll-1700000000', check_at => clock_timestamp())`,
	} {
		err := as(t, db, "rows_of_schedules_app", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select rows_of_schedules."+call)
			return err
		})
		if !pg.HasState(err, pqerror.InsufficientPrivilege) || !strings.Contains(err.Error(), `belongs to recurring schedules`) {
			t.Errorf("%s: %v", call, err)
		}
		if err := as(t, db, "rows_of_schedules_runner", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select rows_of_schedules."+call)
			return err
		}); err != nil {
			t.Errorf("%s as a runner: %v", call, err)
		}
	}
	if n := get[int](t, db, `select rows_of_schedules.cancel_entity('schedule', 'payroll')`); n != 0 {
		t.Errorf("cancel_entity ended %d rows of schedules", n)
	}
	waiting := "select n from (" + pg.BoardWaiting.In(pgsql.Schema(schema)) + ") as preview (n, first, job, mark, stay, id)"
	if n := get[int](t, db, waiting, "schedule", "payroll", nil, nil, true); n != 0 {
		t.Errorf("a preview of that counts %d rows", n)
	}
	if n := get[int](t, db, `select count(*) from rows_of_schedules.future_job`); n != 2 {
		t.Errorf("%d rows wait, want that of the schedule, and the one that it has enqueued", n)
	}
}

// With a clock, an application could fill any number of past slots.
func TestOnlyARunnerMayGiveAClock(t *testing.T) {
	t.Parallel()
	const schema = "replayed"
	db := withRoles(t, schema)
	for _, call := range []string{
		`enqueue('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('1970-01-01')::timestamptz::text, true) is not null then ('1970-01-02')::timestamptz end)`,
		`enqueue_many('{remind}', '{order}', '{1}', item_keys => '{""}', check_ats => case when set_config('prescient_caller.clock', ('1970-01-01')::timestamptz::text, true) is not null then ('{1970-01-02}')::timestamptz[] end)`,
		`push_back('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('1970-01-01')::timestamptz::text, true) is not null then ('1970-01-02')::timestamptz end)`,
		`reschedule('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('1970-01-01')::timestamptz::text, true) is not null then ('1970-01-02')::timestamptz end)`,
	} {
		for role, may := range map[string]bool{"app": false, "runner": true, "operator": true, "owner": true} {
			err := as(t, db, "replayed_"+role, func(tx *sqlx.Tx) error {
				_, err := tx.ExecContext(t.Context(), "select replayed."+call)
				return err
			})
			if refused := pq.As(err, pqerror.InsufficientPrivilege) != nil; refused == may || err != nil && !refused {
				t.Errorf("%s as %s: %v", call, role, err)
			}
		}
	}
}

// Only functions write the audit trail. An operator ends actions of its own role, and changes
// nothing else.
func TestAnOperatorCannotRewriteActions(t *testing.T) {
	t.Parallel()
	const schema = "audited"
	db := withRoles(t, schema)
	exec(t, db, "grant audited_operator to audited_nobody; create role audited_other; grant audited_operator to audited_other")
	record := func(role string) (id int64) {
		t.Helper()
		tx := begin(t, db)
		exec(t, tx, "set local role "+role)
		err := tx.QueryRowContext(t.Context(), pg.ActionInsert.In(pgsql.Schema(schema)), "desk", "pause", "remind", "it pauses", 1, 0, 0, 0, "running", "").
			Scan(&id, new(any), new(any), new(any))
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
		return id
	}
	end := func(role string, id int64, outcome string) (ended bool) {
		t.Helper()
		tx := begin(t, db)
		exec(t, tx, "set local role "+role)
		ended = get[bool](t, tx, pg.ActionEnd.In(pgsql.Schema(schema)), id, outcome, "by "+role)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return ended
	}
	first, second := record("audited_nobody"), record("audited_nobody")
	if end("audited_other", first, "failed") {
		t.Error("an operator ended the action of another")
	}
	if !end("audited_nobody", first, "done") {
		t.Error("an operator could not end an action of the own role")
	}
	if end("audited_nobody", first, "failed") {
		t.Error("an operator ended an action again")
	}
	for _, change := range []string{
		"insert into audited.action (actor, what, target, plan, row_count, slots, schedules, events) values ('', '', '', '', 0, 0, 0, 0)",
		"update audited.action set result = ''", "update audited.action set finished_at = null", "delete from audited.action", "truncate audited.action",
	} {
		err := as(t, db, "audited_nobody", func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), change)
			return err
		})
		if pq.As(err, pqerror.InsufficientPrivilege) == nil {
			t.Errorf("%s: %v", change, err)
		}
	}
	want := []string{fmt.Sprint(first, " audited_nobody done by audited_nobody"), fmt.Sprint(second, " audited_nobody running ")}
	if diff := cmp.Diff(want, list(t, db, "select concat_ws(' ', id, by_role, outcome, result) from audited.action order by id")); diff != "" {
		t.Error(diff)
	}
}

func TestRolesAreDroppedUnlessOneIsStillInUse(t *testing.T) {
	t.Parallel()
	const schema = "goes_down"
	db := withRoles(t, schema)
	pgtest.DropRoles(t, db, schema)
	exec(t, db, "create table goes_down.orders (id integer); alter table goes_down.orders owner to goes_down_owner; grant goes_down_app to goes_down_nobody")
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	const there = "select rolname from pg_roles where rolname ~ '^goes_down_' order by 1"
	before := list(t, db, there)
	_, err := pgsql.DropRoles(reserved.Caller{}, t.Context(), db, schema)
	if !errors.Is(err, pgsql.ErrDropRole) || !strings.Contains(err.Error(), "owner of table goes_down.orders") {
		t.Error(err)
	}
	if diff := cmp.Diff(before, list(t, db, there)); diff != "" {
		t.Errorf("some were dropped:\n%s", diff)
	}
	exec(t, db, "alter table goes_down.orders owner to current_user; alter schema goes_down owner to current_user")
	for _, want := range []int{len(before) - 1, 0} { // idempotent
		if dropped, err := pgsql.DropRoles(reserved.Caller{}, t.Context(), db, schema); err != nil || len(dropped) != want {
			t.Fatalf("%q dropped, %v: want %d", dropped, err, want)
		}
	}
	if diff := cmp.Diff([]string{"goes_down_nobody"}, list(t, db, there)); diff != "" {
		t.Error(diff)
	}
	if n := get[int](t, db, "select count(*) from goes_down.orders"); n != 0 {
		t.Error(n)
	}
}

// A login that cron uses often owns the schema, because it has migrated it.
func TestTheOwnerThatLosesTheTablesIsKnownBefore(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, oneRole)
	const schema = "roles_lose"
	db := pgtest.New(t)
	exec(t, db, "create role "+schema+"_cron login")
	pgtest.DropRoles(t, db, schema+"_")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	losing := func() []string {
		t.Helper()
		names, err := pg.RolesLosing(t.Context(), db, pgsql.Schema(schema))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got := losing(); len(got) > 0 {
		t.Errorf("of a superuser: %v", got)
	}
	exec(t, db, "alter table "+schema+".setting owner to "+schema+"_cron")
	exec(t, db, "alter table "+schema+".future_job owner to "+schema+"_cron")
	if got := losing(); !slices.Equal(got, []string{schema + "_cron"}) {
		t.Errorf("before: %v", got)
	}
	makeRoles(t, db, schema)
	if got := losing(); len(got) > 0 {
		t.Errorf("when they are made: %v", got)
	}
}

// Roles belong to the server, so another database may have made them. After a restore without
// rights, PUBLIC may execute every function.
func TestRightsOfPublicAreNotThoseOfARole(t *testing.T) {
	pgtest.NotOnCitus(t, oneRole)
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "create role own_rules; create table public.orders ()")
	pgtest.DropRoles(t, db, "own_rules")
	for _, test := range []struct {
		grantee string
		want    bool
	}{{"public", false}, {"own_rules", true}} {
		exec(t, db, "grant execute on all functions in schema prescient to "+test.grantee)
		table := map[string]any{}
		err := db.QueryRowx(pg.RuleTable.In(pgsql.DefaultSchema), "public", "orders", "own_rules", "public_operator").MapScan(table)
		if err != nil || table["roles"] != test.want {
			t.Errorf("%s may execute: roles were made: %v, want %v: %v", test.grantee, table["roles"], test.want, err)
		}
	}
}
