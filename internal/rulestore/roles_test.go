package rulestore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// login returns a pool of a login.
func login(t *testing.T, base, name string) *sqlx.DB {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, name)
	db, err := pgsql.Open(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// The application owns its table, and has no right on prescient. The operator has what a rule needs
// of the table.
func TestEachLoginNeedsOnlyItsOwnRights(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	base := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const schema = "rule_roles"
	pgtest.DropRoles(t, db, schema+"_")
	db.MustExec("create role rule_roles_shop login password 'rule_roles_shop'")
	db.MustExec("drop schema prescient cascade")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MakeRoles(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create role rule_roles_night login password 'rule_roles_night' in role rule_roles_operator;
		create schema shop authorization rule_roles_shop;
		grant temporary on database ` + get[string](t, db, "select quote_ident(current_database())") + ` to rule_roles_night`)
	shop, night := login(t, base, "rule_roles_shop"), login(t, base, "rule_roles_night")
	shop.MustExec(`create table shop.orders (id bigint primary key, channel text not null default 'web', placed_at timestamptz, shipped_at timestamptz, amount numeric);
		insert into shop.orders (id, placed_at) values (1, now());
		grant usage on schema shop to rule_roles_night;
		grant select, trigger on shop.orders to rule_roles_night`)
	store, err := rulestore.New(t.Context(), night, rulestore.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	file := parse(t, unshipped)
	if _, err := store.Apply(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	if faults, err := store.Faults(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%+v, %v", faults, err)
	}
	if owners := get[string](t, db, functionOwners, "rule_roles_rules"); owners != "rule_roles_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
	shop.MustExec("insert into shop.orders (id, placed_at) values (2, now()), (3, now())")
	shop.MustExec("insert into shop.orders (id, placed_at) values (4, now())")
	shop.MustExec("delete from shop.orders where id = 3")
	shop.MustExec("update shop.orders set placed_at = now() - interval '1 hour' where id = 4")
	if got := get[string](t, db, "select string_agg(entity_key || ' ' || enqueued_by, ', ' order by entity_key) from rule_roles.future_job"); got != "1 rule_roles_night, 2 rule_roles_shop, 4 rule_roles_shop" {
		t.Errorf("waiting %s", got)
	}
	// Only the login that has applied the rule sets its clock.
	shop.MustExec("set prescient_caller.clock = '2020-01-01'; insert into shop.orders (id, placed_at) values (5, '2020-01-01')")
	if n := get[int](t, db, "select count(*) from rule_roles.future_job where next_check_at < now()"); n != 0 {
		t.Error("the application has let a row wait in a slot of the past")
	}
	shop.MustExec("reset prescient_caller.clock; delete from shop.orders where id = 5")
	if _, err := shop.Exec("select * from rule_roles.future_job"); err == nil {
		t.Error("the application may read checks")
	}
	if _, err := shop.Exec("create trigger mine after insert on shop.orders referencing new table as prescient_inserted for each statement execute function rule_roles_rules." +
		get[string](t, db, "select proname from pg_proc where proname like 'prescient%insert'") + "()"); err == nil {
		t.Error("the application may use the function for a trigger of its own")
	}
	if _, err := shop.Exec("create function rule_roles_rules.mine() returns integer language sql as 'select 1'"); err == nil {
		t.Error("the application may create functions beside those of triggers")
	}
	// To a login that row security concerns, the table would look empty.
	shop.MustExec("alter table shop.orders enable row level security")
	if _, err := store.Again().Apply(t.Context(), file, nil); err == nil || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("error %v", err)
	}
	shop.MustExec("alter table shop.orders disable row level security")
	if removed, err := store.Remove(t.Context(), "order.unshipped", nil); err != nil || removed.Cancelled != 3 {
		t.Errorf("%+v, %v", removed, err)
	}
}

const functionOwners = "select string_agg(distinct proowner::regrole::text, ', ') from pg_proc where pronamespace = $1::regnamespace"

func get[T any](t testing.TB, db *sqlx.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &v, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestARoleWithoutRightsIsToldWhatItLacks(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	base := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pgtest.DropRoles(t, db, "rule_lacks")
	db.MustExec("create role rule_lacks login password 'rule_lacks'")
	db.MustExec(orders)
	db.MustExec(`grant usage on schema prescient, shop to rule_lacks;
		grant select on all tables in schema prescient to rule_lacks;
		grant execute on all functions in schema prescient to rule_lacks`)
	store, err := rulestore.New(t.Context(), login(t, base, "rule_lacks"), rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ grant, want string }{
		{"revoke usage on schema shop from rule_lacks", "grant usage on schema shop to rule_lacks; grant select, trigger on shop.orders to rule_lacks; create schema prescient_rules authorization rule_lacks"},
		{"grant usage on schema shop to rule_lacks", "grant select, trigger on shop.orders to rule_lacks; create schema prescient_rules authorization rule_lacks"},
		{"create schema prescient_rules", "grant select, trigger on shop.orders to rule_lacks; grant usage, create on schema prescient_rules to rule_lacks"},
		{"grant trigger on shop.orders to rule_lacks", "grant select on shop.orders to rule_lacks; grant usage, create on schema prescient_rules to rule_lacks"},
		{"grant usage, create on schema prescient_rules to rule_lacks; grant select (id) on shop.orders to rule_lacks", "grant select on shop.orders to rule_lacks"},
	} {
		db.MustExec(step.grant)
		_, err := store.Apply(t.Context(), parse(t, unshipped), nil)
		lacks, ok := errors.AsType[*rulestore.RightsError](err)
		if !ok || strings.Join(lacks.Grants, "; ") != step.want {
			t.Errorf("error %v, want %s", err, step.want)
		}
	}
	if _, err := store.Plan(t.Context(), parse(t, unshipped), nil); err == nil || !strings.HasSuffix(err.Error(), ": grant select on shop.orders to rule_lacks") {
		t.Errorf("plan: error %v", err)
	}
}

func TestAPlanWarnsOfARightThatTheChecksLack(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	base := pgtest.Empty(t)
	db, err := pgsql.Open(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pgtest.DropRoles(t, db, "rule_unable_")
	db.MustExec(orders + `;
		create table shop.escalation (order_id bigint);
		create role rule_unable_cron login password 'rule_unable_cron';
		create role rule_unable_role;
		grant create on database ` + get[string](t, db, "select quote_ident(current_database())") + ` to rule_unable_cron;
		grant usage on schema shop to rule_unable_cron, rule_unable_role;
		grant select, trigger on shop.orders to rule_unable_cron, rule_unable_role`)
	cron := login(t, base, "rule_unable_cron")
	if err := pgsql.Migrate(t.Context(), cron, "rule_unable"); err != nil {
		t.Fatal(err)
	}
	escalates := with(unshipped, "") + "      - {after: 6d, name: sql, sql: insert into shop.escalation values ($key)}\n"
	warnings := func(file string) string {
		t.Helper()
		store, err := rulestore.New(t.Context(), cron, rulestore.Config{Schema: "rule_unable"})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := store.Plan(t.Context(), parse(t, file), nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(plan.Rules[0].Warnings, "\n")
	}
	const want = "checks fail as rule_unable_cron: step sql: permission denied for table escalation: grant rule_unable_cron the right"
	if got := warnings(escalates); got != want {
		t.Errorf("warnings %q, want %q", got, want)
	}
	db.MustExec("grant insert on shop.escalation to rule_unable_cron")
	if got := warnings(escalates); got != "" {
		t.Errorf("the login has the right: %q", got)
	}
	db.MustExec("grant rule_unable_role to rule_unable_cron")
	of := strings.Replace(escalates, "    key: id\n", "    key: id\n    role: rule_unable_role\n", 1)
	if got := warnings(of); !strings.Contains(got, `checks fail as "rule_unable_role": step sql: permission denied`) {
		t.Errorf("the role lacks the right: %q", got)
	}
	db.MustExec("revoke insert on shop.escalation from rule_unable_cron")
	if err := pgsql.MakeRoles(t.Context(), db, "rule_unable"); err != nil {
		t.Fatal(err)
	}
	db.MustExec("grant rule_unable_operator to rule_unable_cron")
	if got := warnings(escalates); got != "" {
		t.Errorf("another login runs the slots: %q", got)
	}
}

// Any login may create functions, at least temporary ones.
func TestARemoveLeavesTheFunctionsOfOtherRoles(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_foreign")
	s.apply(unshipped)
	name := get[string](t, s.db, "select min(proname) from pg_proc where pronamespace = 'rule_foreign_rules'::regnamespace")
	s.exec(`create schema other authorization rule_foreign_shop;
		create function other.` + name + `() returns trigger language plpgsql as $$begin raise notice 'order.unshipped'; return null; end$$;
		alter function other.` + name + `() owner to rule_foreign_shop`)
	if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil {
		t.Error(err)
	}
	left := get[string](t, s.db, "select string_agg(pronamespace::regnamespace::text, ' ') from pg_proc where proname = '"+name+"'")
	if left != "other" {
		t.Errorf("functions are left in schemas %q", left)
	}
}

// rolesOn returns a shop whose schema has roles, and whose table belongs to the role with the name of
// the schema and "_shop".
func rolesOn(t *testing.T, schema pgsql.Schema) *shop {
	t.Helper()
	pgtest.NotOnCitus(t, "roles are of one node")
	base := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pgtest.DropRoles(t, db, schema.String()+"_")
	owner := schema.String() + "_shop"
	db.MustExec("create role " + owner + " login password '" + owner + "'; drop schema prescient cascade")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MakeRoles(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	db.MustExec(orders + `;
		grant usage, create on schema shop to ` + owner + `;
		alter table shop.orders owner to ` + owner)
	s := &shop{t: t, db: db, url: base}
	s.open(func(cfg *rulestore.Config) { cfg.Schema = schema.String() })
	return s
}

// The owner of a table may change what casts, operators and names mean. The triggers of its rule belong to a
// role that may do more.
func TestTheOwnerOfATableCannotLetItsTriggersRunCode(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_owner")
	s.exec(`create type shop.state as enum ('open', 'shipped');
		alter table shop.orders add state shop.state not null default 'open';
		alter type shop.state owner to rule_owner_shop`)
	s.apply(with(unshipped, "") + `
  - {name: state, table: shop.orders, key: id, since: placed_at, done: state = 'shipped', steps: [{after: 2d, event: late}]}
`)
	owner := login(t, s.url, "rule_owner_shop")
	owner.MustExec(`
		create table shop.ran (by text);
		grant insert on shop.ran to public;
		create function shop.code(shop.state) returns text language plpgsql as $$begin insert into shop.ran values (current_user); return 'open'; end$$;
		create cast (shop.state as text) with function shop.code(shop.state) as implicit;
		insert into shop.orders (id, placed_at) values (1, now());
		insert into shop.orders (id, placed_at) values (2, now()), (3, now());
		update shop.orders set state = 'shipped' where id = 1;
		update shop.orders set state = 'open' where id = 1;
		delete from shop.orders where id = 2`)
	if n := s.count("select count(*) from shop.ran"); n != 0 {
		t.Errorf("the code ran %d times, first as %s", n, get[string](t, s.db, "select min(by) from shop.ran"))
	}
	if n := s.count("select count(*) from rule_owner.future_job"); n != 4 {
		t.Errorf("%d checks wait", n)
	}
	for _, statement := range []string{
		"alter table shop.orders drop column state",
		"alter table shop.orders alter column state type text",
		"drop table shop.orders",
	} {
		if _, err := owner.Exec(statement); err == nil || !strings.Contains(err.Error(), "depend") && !strings.Contains(err.Error(), "used by a function") &&
			!strings.Contains(err.Error(), "used in a trigger") {
			t.Errorf("%s: error %v", statement, err)
		}
	}
	// A column with the name that the trigger gives to a row.
	owner.MustExec(`create type shop.row as (a integer);
		create function shop.code(shop.row) returns shop.orders language plpgsql as $$begin insert into shop.ran values (current_user); return null; end$$;
		create cast (shop.row as shop.orders) with function shop.code(shop.row) as implicit;
		alter table shop.orders add prescient_row shop.row, add r shop.row, add new shop.row, add old shop.row;
		insert into shop.orders (id, placed_at) values (4, now());
		update shop.orders set placed_at = now() - interval '1 hour' where id = 4;
		delete from shop.orders where id = 4`)
	if n := s.count("select count(*) from shop.ran"); n != 0 {
		t.Errorf("the code ran %d times, first as %s", n, get[string](t, s.db, "select min(by) from shop.ran"))
	}
	// Without the column, a trigger has nothing left that it could call.
	owner.MustExec(`alter table shop.orders drop column state cascade;
		create type shop.other as (a integer);
		create function shop.code(shop.other) returns boolean language plpgsql as $$begin insert into shop.ran values (current_user); return true; end$$;
		create cast (shop.other as boolean) with function shop.code(shop.other) as implicit;
		alter table shop.orders add state shop.other`)
	owner.MustExec("insert into shop.orders (id, placed_at) values (9, now())")
	if n := s.count("select count(*) from shop.ran"); n != 0 {
		t.Errorf("the code ran %d times", n)
	}
	// A column of another type has taken the name of the key.
	owner.MustExec(`create type shop.id as (a integer);
		create function shop.code(shop.id) returns text language plpgsql as $$begin insert into shop.ran values (current_user); return '1'; end$$;
		create function shop.number(shop.id) returns bigint language plpgsql as $$begin insert into shop.ran values (current_user); return 1; end$$;
		create cast (shop.id as text) with function shop.code(shop.id) as implicit;
		create cast (shop.id as bigint) with function shop.number(shop.id) as implicit;
		alter table shop.orders rename id to id_before;
		alter table shop.orders add id shop.id;
		insert into shop.orders (id_before, id, placed_at) values (20, '(1)', now());
		insert into shop.orders (id_before, id, placed_at) values (21, '(1)', now()), (22, '(2)', now());
		update shop.orders set placed_at = now() - interval '1 hour', id = '(3)' where id_before = 20;
		delete from shop.orders where id_before = 21`)
	if n := s.count("select count(*) from shop.ran"); n != 0 {
		t.Errorf("the code of a cast ran %d times, first as %s", n, get[string](t, s.db, "select min(by) from shop.ran"))
	}
	if keys := get[string](t, s.db, "select string_agg(distinct entity_key, ' ' order by entity_key) from rule_owner.future_job where entity_key like '2_'"); keys != "20 22" {
		t.Errorf("rows with the keys %s wait, want 20 22", keys)
	}
}

// The server runs an immutable function when it plans a query. What a function has written may be undone, and a sequence is not.
func TestTheOwnerOfATableCannotLetAPlanOfItsTriggersRunCode(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_planned")
	s.exec("grant usage on schema shop to public")
	owner := login(t, s.url, "rule_planned_shop")
	owner.MustExec(`alter table shop.orders add to_json json;
		create sequence shop.ran;
		grant usage on shop.ran to public;
		create function shop.code() returns bigint language plpgsql immutable as $$
			begin return case when current_user like '%rules' then nextval('shop.ran') else 0 end; end$$;
		create type shop.id as (a integer);
		create function shop.text(shop.id) returns text language sql immutable as 'select shop.code()::text';
		create function shop.number(shop.id) returns bigint language sql immutable as 'select shop.code()';
		create cast (shop.id as text) with function shop.text(shop.id) as implicit;
		create cast (shop.id as bigint) with function shop.number(shop.id) as implicit;
		create type shop.state as enum ('open');
		create function shop.json(shop.state) returns json language sql as 'select to_json(shop.code())';
		create cast (shop.state as json) with function shop.json(shop.state) as implicit`)
	s.apply(strings.ReplaceAll(unshipped, "channel <> 'test'", "to_json is null"))
	ran := func(what string) {
		t.Helper()
		if n := s.count("select case when is_called then last_value else 0 end from shop.ran"); n != 0 {
			t.Errorf("%s: code of the owner ran %d times", what, n)
		}
	}
	// A name of a column behind that of a row could mean a function of the row.
	owner.MustExec(`alter table shop.orders rename to_json to data;
		alter table shop.orders add state shop.state default 'open';
		insert into shop.orders (id, placed_at) values (1, now());
		insert into shop.orders (id, placed_at) values (2, now()), (3, now());
		delete from shop.orders where id = 3`)
	ran("a name")
	owner.MustExec(`alter table shop.orders rename id to id_before;
		alter table shop.orders add id shop.id;
		insert into shop.orders (id_before, id, placed_at) values (4, '(1)', now());
		insert into shop.orders (id_before, id, placed_at) values (5, '(1)', now()), (6, '(2)', now());
		insert into shop.orders (id_before, id, placed_at) select 7, '(1)', now() where false;
		update shop.orders set placed_at = now() - interval '1 hour', id = '(3)' where id_before = 4;
		delete from shop.orders where id_before = 5;
		delete from shop.orders where false`)
	ran("a cast")
	if keys := get[string](t, s.db, "select string_agg(entity_key, ' ' order by entity_key) from rule_planned.future_job"); keys != "1 2 4 6" {
		t.Errorf("rows with the keys %s wait, want 1 2 4 6", keys)
	}
}

func TestARuleThatWouldRunCodeOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_code")
	login(t, s.url, "rule_code_shop").MustExec(`
		create domain shop.word as text check (value <> '');
		create type shop.id as enum ('1', '2');
		create function shop.code(shop.id) returns text language sql immutable as $$ select 'x' $$;
		create cast (shop.id as text) with function shop.code(shop.id) as implicit;
		create function shop.same(text, integer) returns boolean language sql immutable as $$ select true $$;
		create operator shop.=== (leftarg = text, rightarg = integer, function = shop.same);
		create operator shop.==== (leftarg = text, rightarg = text, function = texteq);
		alter table shop.orders add kind shop.id not null unique`)
	s.exec("create domain shop.outer as shop.word; create view shop.seen as select 1 as one")
	for change, want := range map[string]string{
		"channel <> 'test' -> channel::shop.word = 'x'":                              "line 8: rule order.unshipped: where: type shop.word belongs to rule_code_shop",
		"channel <> 'test' -> (channel::shop.word[])[1] = 'x'":                       "line 8: rule order.unshipped: where: type shop.word belongs to rule_code_shop",
		"channel <> 'test' -> channel operator(shop.===) 1":                          "line 8: rule order.unshipped: where: operator shop.===(text,integer) belongs to rule_code_shop",
		"channel <> 'test' -> channel operator(shop.====) 'x'":                       "line 8: rule order.unshipped: where: operator shop.====(text,text) belongs to rule_code_shop",
		"channel <> 'test' -> channel::shop.outer = 'x'":                             "line 8: rule order.unshipped: where: type shop.word belongs to rule_code_shop",
		"channel <> 'test' -> to_jsonb(kind) = '1'":                                  "line 8: rule order.unshipped: where: function to_jsonb(anyelement) gives another answer if a cast or a view changes",
		"channel <> 'test' -> quote_literal(id) = '1'":                               "line 8: rule order.unshipped: where: function quote_literal(anyelement) gives another answer if a cast or a view changes",
		"channel <> 'test' -> table_to_xml('shop.seen', true, true, '') is not null": "line 8: rule order.unshipped: where: function table_to_xml(regclass,boolean,boolean,text) gives another answer",
		"channel <> 'test' -> orders is not null":                                    "line 8: rule order.unshipped: where: orders is not null reads the row as a whole: name the columns",
		"done: shipped_at -> done: shop.same(channel, 1)":                            "line 7: rule order.unshipped: done: function shop.same(text,integer) belongs to rule_code_shop",
		"key: id -> key: kind":                                                       "line 5: rule order.unshipped: key: type shop.id is an enum",
	} {
		from, to, _ := strings.Cut(change, " -> ")
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(unshipped, from, to, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(problems(err)) == 0 {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
	}
}

// Otherwise each write of the application would fail.
func TestAConditionThatTheRoleOfTriggersMayNotExecuteIsRefused(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_exec")
	s.exec(`create function shop.known(text) returns boolean language sql immutable as $$ select $1 = 'web' $$;
		create function shop.fits(text) returns boolean language sql immutable as $$ select shop.known($1) $$;
		revoke execute on function shop.known from public;
		alter table shop.orders alter amount set default 0`)
	for condition, want := range map[string]string{
		"shop.known(channel)": "line 8: rule order.unshipped: where: role rule_exec_rules of the triggers may not execute function shop.known(text): " +
			"grant execute on function shop.known(text) to rule_exec_rules",
		"shop.fits(channel)": "the triggers of the rule would fail, because their role rule_exec_rules lacks a right: permission denied for schema shop",
	} {
		_, err := s.store.Apply(t.Context(), parse(t, strings.Replace(unshipped, "channel <> 'test'", condition, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", condition, err, want)
		}
		s.exec("insert into shop.orders (id, placed_at) values (1, now()); delete from shop.orders")
	}
	s.exec("grant usage on schema shop to rule_exec_rules; grant execute on function shop.known to rule_exec_rules")
	s.apply(strings.Replace(unshipped, "channel <> 'test'", "shop.fits(channel) and 1 / coalesce(amount, 0) > 0", 1))
	s.exec("insert into shop.orders (id, amount, placed_at) values (1, 1, now())")
}

func TestTheFunctionsOfTriggersBelongToTheRoleOfRules(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_super")
	s.apply(unshipped)
	if owners := get[string](t, s.db, functionOwners, "rule_super_rules"); owners != "rule_super_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
	s.exec("alter function rule_super_rules." + get[string](t, s.db, "select max(proname) from pg_proc where pronamespace = 'rule_super_rules'::regnamespace") + "() owner to rule_super_operator")
	if err := pgsql.MakeRoles(t.Context(), s.db, "rule_super"); err != nil {
		t.Fatal(err)
	}
	if owners := get[string](t, s.db, functionOwners, "rule_super_rules"); owners != "rule_super_rules" {
		t.Errorf("after migrate roles, they belong to %s", owners)
	}
	// A role that may use the schema, or has made something there, could let the triggers run its code.
	s.exec("grant usage, create on schema rule_super_rules to rule_super_shop")
	if err := pgsql.MakeRoles(t.Context(), s.db, "rule_super"); err != nil {
		t.Fatal(err)
	}
	if n := s.count("select count(*) from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'rule_super_rules' and a.grantee <> n.nspowner"); n != 0 {
		t.Errorf("%d grants are left", n)
	}
	s.exec("create function rule_super_rules.gift() returns void language sql as ''; alter function rule_super_rules.gift() owner to rule_super_shop")
	if err := pgsql.MakeRoles(t.Context(), s.db, "rule_super"); err == nil || !strings.Contains(err.Error(), "has functions of it") {
		t.Errorf("error %v", err)
	}
}

// Who owns the schema of the functions can replace one that another calls.
func TestNobodyAppliesIntoASchemaOfAnother(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	s := newShop(t)
	pgtest.DropRoles(t, s.db, "rule_squat")
	s.db.MustExec("create role rule_squat; create schema prescient_rules authorization rule_squat")
	if _, err := s.store.Apply(t.Context(), parse(t, unshipped), nil); err == nil || !strings.Contains(err.Error(), "which belongs to rule_squat") {
		t.Errorf("error %v", err)
	}
	if err := pgsql.MakeRoles(t.Context(), s.db, ""); err == nil || !strings.Contains(err.Error(), "schema prescient_rules belongs to role rule_squat") {
		t.Errorf("error %v", err)
	}
}

// In a partition, a row has a type of its own.
func TestTheOwnerOfAPartitionCannotLetItsTriggersRunCode(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_piece")
	s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text default 'web') partition by range (id);
		create table shop.parcels_1 (channel text default 'web', shipped_at timestamptz, gone integer, id bigint not null, placed_at timestamptz);
		alter table shop.parcels_1 drop column gone;
		alter table shop.parcels attach partition shop.parcels_1 for values from (0) to (100);
		alter table shop.parcels owner to rule_piece_shop;
		alter table shop.parcels_1 owner to rule_piece_shop`)
	s.apply(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"))
	owner := login(t, s.url, "rule_piece_shop")
	owner.MustExec(`create table shop.ran (by text);
		grant insert on shop.ran to public;
		create function shop.code(shop.parcels_1) returns shop.parcels language plpgsql as $$begin insert into shop.ran values (current_user); return null; end$$;
		create cast (shop.parcels_1 as shop.parcels) with function shop.code(shop.parcels_1) as implicit;
		insert into shop.parcels (id, placed_at) values (1, now()), (2, now());
		insert into shop.parcels_1 (id, placed_at) values (3, now());
		update shop.parcels set placed_at = now() - interval '1 hour' where id = 1;
		delete from shop.parcels_1 where id = 2;
		create table shop.parcels_2 partition of shop.parcels for values from (100) to (200);
		insert into shop.parcels (id, placed_at) values (101, now());
		alter table shop.parcels add column more text;
		insert into shop.parcels (id, placed_at) values (4, now()), (102, now());
		alter table shop.parcels rename placed_at to ordered_at;
		insert into shop.parcels (id, ordered_at) values (5, now());
		update shop.parcels set ordered_at = now() - interval '1 hour' where id = 3;
		delete from shop.parcels where id = 1`)
	if n := s.count("select count(*) from shop.ran"); n != 0 {
		t.Errorf("the code ran %d times, first as %s", n, get[string](t, s.db, "select min(by) from shop.ran"))
	}
	if got := get[string](t, s.db, "select string_agg(entity_key, ' ' order by entity_key::int) from rule_piece.future_job"); got != "3 4 5 101 102" {
		t.Errorf("waiting %s", got)
	}
	if _, err := owner.Exec("create trigger mine after insert on shop.ran for each row execute function rule_piece_rules." +
		get[string](t, s.db, "select quote_ident(proname) from pg_proc where proname like 'prescient%insert'") + "()"); err == nil {
		t.Error("the owner may use the function for a trigger of its own")
	}
}

// The statements of SQL may be run by any login.
func TestTheStatementsForMigrationsGiveTheFunctionsToTheRightRole(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_printed")
	text, err := s.store.SQL(t.Context(), parse(t, unshipped))
	if err != nil {
		t.Fatal(err)
	}
	s.exec(text)
	if owners := get[string](t, s.db, functionOwners, "rule_printed_rules"); owners != "rule_printed_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
}

func TestALoginWithoutRightsOnAPartitionIsToldTheGrant(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	base := pgtest.URL(t)
	s := newShopOn(t, base)
	pgtest.DropRoles(t, s.db, "rule_parts")
	s.db.MustExec(`create role rule_parts login password 'rule_parts';
		create table shop.parcels (like shop.orders including all) partition by range (id);
		create table shop.parcels_1 partition of shop.parcels for values from (0) to (100);
		create schema prescient_rules authorization rule_parts;
		grant usage on schema prescient, shop to rule_parts;
		grant select on all tables in schema prescient to rule_parts;
		grant execute on all functions in schema prescient to rule_parts;
		grant select, trigger on shop.parcels to rule_parts`)
	store, err := rulestore.New(t.Context(), login(t, base, "rule_parts"), rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Apply(t.Context(), parse(t, strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels")), nil)
	lacks, ok := errors.AsType[*rulestore.RightsError](err)
	if !ok || strings.Join(lacks.Grants, "; ") != "grant trigger on shop.parcels_1 to rule_parts" {
		t.Errorf("error %v", err)
	}
}

// The owner of a table may give its name to another table while an apply waits for a lock.
func TestTheTriggersOfARuleAreThoseOfOneTable(t *testing.T) {
	t.Parallel()
	swapTables(t, "rule_swap", func(*shop) {})
}

func TestTriggersThatWereMadeBeforeAreThoseOfOneTable(t *testing.T) {
	t.Parallel()
	swapTables(t, "rule_late_swap", func(s *shop) {
		text, err := s.store.SQL(t.Context(), parse(t, unshipped))
		if err != nil {
			t.Fatal(err)
		}
		s.exec(text)
	})
}

// swapTables gives the name of the table to another one while an apply waits for a lock of it, after before was
// called, and expects the apply to fail without a trigger on the other one.
func swapTables(t *testing.T, schema pgsql.Schema, before func(s *shop)) {
	s := rolesOn(t, schema)
	owner := schema.String() + "_shop"
	s.exec("create table shop.other (like shop.orders including all); alter table shop.other owner to " + owner)
	before(s)
	tx := login(t, s.url, owner).MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("lock table shop.orders in exclusive mode")
	applied := make(chan error)
	go func() {
		_, err := s.store.Apply(t.Context(), parse(t, unshipped), nil)
		applied <- err
	}()
	for n := 0; n == 0; {
		n = s.count("select count(*) from pg_locks where not granted and relation = 'shop.orders'::regclass")
	}
	tx.MustExec("alter table shop.orders rename to orders_before; alter table shop.other rename to orders")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err == nil || !strings.Contains(err.Error(), "another table has taken the name of table shop.orders") {
		t.Errorf("error %v", err)
	}
	if n := s.count("select count(*) from pg_trigger where tgrelid = 'shop.orders'::regclass"); n != 0 {
		t.Errorf("%d triggers", n)
	}
}

// The statements may run long after they were printed.
func TestTheStatementsForMigrationsAreRefusedWhereTheyMeanSomethingElse(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_later")
	text, err := s.store.SQL(t.Context(), parse(t, strings.Replace(unshipped, "channel <> 'test'", "quote_literal(note) <> 'x'", 1)))
	if err != nil {
		t.Fatal(err)
	}
	s.exec("create type shop.state as enum ('open'); alter table shop.orders alter column note type shop.state using 'open'")
	if _, err := s.db.ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "a column of table shop.orders has another type") {
		t.Errorf("error %v", err)
	}
}

func TestTheStatementsForMigrationsAreRefusedForASchemaOfAnother(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	s := newShop(t)
	text, err := s.store.SQL(t.Context(), parse(t, unshipped))
	if err != nil {
		t.Fatal(err)
	}
	pgtest.DropRoles(t, s.db, "rule_early")
	s.db.MustExec("create role rule_early; create schema prescient_rules authorization rule_early")
	if _, err := s.db.ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "schema prescient_rules belongs to another role") {
		t.Errorf("error %v", err)
	}
}

// An application writes to another table that a rule names, and changes a column of changed, without a right on prescient.
func TestAnApplicationNeedsNoRightToTellOfAnotherTable(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	base := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const schema = "rule_also"
	pgtest.DropRoles(t, db, schema+"_")
	db.MustExec("create role rule_also_shop login password 'rule_also_shop'")
	db.MustExec("drop schema prescient cascade")
	if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MakeRoles(t.Context(), db, schema); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create role rule_also_night login password 'rule_also_night' in role rule_also_operator;
		create schema shop authorization rule_also_shop;
		grant temporary on database ` + get[string](t, db, "select quote_ident(current_database())") + ` to rule_also_night`)
	shop, night := login(t, base, "rule_also_shop"), login(t, base, "rule_also_night")
	shop.MustExec(`create table shop.orders (id bigint primary key, status text, placed_at timestamptz);
		create table shop.payment (order_id bigint, settled boolean);
		grant usage on schema shop to rule_also_night;
		grant select, trigger on shop.orders to rule_also_night;
		grant select on shop.payment to rule_also_night`)
	store, err := rulestore.New(t.Context(), night, rulestore.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	file := parse(t, strings.Replace(unpaid, "since: placed_at", "since: [placed_at, changed(status)]", 1))
	if _, err := store.Apply(t.Context(), file, nil); err == nil || !strings.Contains(err.Error(), "grant trigger on shop.payment to rule_also_night") {
		t.Fatalf("without the right to make a trigger: %v", err)
	}
	shop.MustExec("grant trigger on shop.payment to rule_also_night")
	if _, err := store.Apply(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	if owners := get[string](t, db, functionOwners, "rule_also_rules"); owners != "rule_also_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
	shop.MustExec("insert into shop.orders select i, 'new', now() from generate_series(1, 4) as i")
	shop.MustExec("update shop.orders set status = 'open' where id = 1; delete from shop.orders where id = 4")
	shop.MustExec("insert into shop.payment values (1, true); insert into shop.payment select i, false from generate_series(1, 3) as i; update shop.payment set settled = true; delete from shop.payment")
	if got := get[string](t, db, "select string_agg(entity_key, ' ' order by entity_key) from rule_also.rule_changed"); got != "1 2 3" {
		t.Errorf("changed %s", got)
	}
	if n := get[int](t, db, "select count(*) from rule_also.future_job where next_check_at < now() + interval '1 day'"); n != 3 {
		t.Errorf("%d rows are looked at soon, want 3", n)
	}
	if _, err := store.Remove(t.Context(), "order.unpaid", nil); err != nil {
		t.Error(err)
	}
	shop.MustExec("insert into shop.payment values (1, true)")
}
