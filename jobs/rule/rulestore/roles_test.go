package rulestore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs/rule/rulestore"
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
		grant usage, create on schema shop to rule_roles_rules;
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
	// The owner of the table can make the functions run code of its own.
	if owners := get[string](t, db, functionOwners); owners != "rule_roles_rules" {
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
	if _, err := shop.Exec("create trigger mine after insert on shop.orders referencing new table as prescient_inserted for each statement execute function shop." +
		get[string](t, db, "select proname from pg_proc where proname like 'prescient%insert'") + "()"); err == nil {
		t.Error("the application may use the function for a trigger of its own")
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

const functionOwners = "select string_agg(distinct proowner::regrole::text, ', ') from pg_proc where pronamespace = 'shop'::regnamespace and proname like 'prescient%'"

func get[T any](t testing.TB, db *sqlx.DB, query string) (v T) {
	t.Helper()
	if err := db.GetContext(t.Context(), &v, query); err != nil {
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
		{"revoke usage on schema shop from rule_lacks", "grant usage, create on schema shop to rule_lacks; grant select, trigger on shop.orders to rule_lacks"},
		{"grant usage on schema shop to rule_lacks", "grant create on schema shop to rule_lacks; grant select, trigger on shop.orders to rule_lacks"},
		{"grant trigger on shop.orders to rule_lacks", "grant create on schema shop to rule_lacks; grant select on shop.orders to rule_lacks"},
		{"grant create on schema shop to rule_lacks; grant select (id) on shop.orders to rule_lacks", "grant select on shop.orders to rule_lacks"},
	} {
		db.MustExec(step.grant)
		_, err := store.Apply(t.Context(), parse(t, unshipped), nil)
		lacks, ok := errors.AsType[*rulestore.RightsError](err)
		if !ok || strings.Join(lacks.Grants, "; ") != step.want {
			t.Errorf("error %v, want %s", err, step.want)
		}
	}
	if _, err := store.Plan(t.Context(), parse(t, unshipped)); err == nil || !strings.HasSuffix(err.Error(), ": grant select on shop.orders to rule_lacks") {
		t.Errorf("plan: error %v", err)
	}
}

// The owner of a table can make its triggers run code of its own, such as a cast of a type.
func TestASuperuserGivesNoTriggersToTheTableOfAnother(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	s := newShop(t)
	pgtest.DropRoles(t, s.db, "rule_owner")
	s.db.MustExec("create role rule_owner; grant create on schema shop to rule_owner; alter table shop.orders owner to rule_owner")
	if _, err := s.store.Apply(t.Context(), parse(t, unshipped), nil); err == nil || !strings.Contains(err.Error(), "belongs to role rule_owner") {
		t.Errorf("error %v", err)
	}
	if n := s.count("select count(*) from pg_trigger where tgrelid = 'shop.orders'::regclass"); n != 0 {
		t.Errorf("%d triggers", n)
	}
}

// Any login may create functions, at least temporary ones.
func TestARemoveLeavesTheFunctionsOfOtherRoles(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_foreign")
	s.exec("grant usage, create on schema shop to rule_foreign_rules")
	s.apply(unshipped)
	name := get[string](t, s.db, "select min(proname) from pg_proc where pronamespace = 'shop'::regnamespace and proname like 'prescient%'")
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
	s := &shop{t: t, db: db}
	s.open(func(cfg *rulestore.Config) { cfg.Schema = schema.String() })
	return s
}

func TestWithRolesASuperuserGivesItsRightsToNoTable(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_super")
	_, err := s.store.Apply(t.Context(), parse(t, unshipped), nil)
	if lacks, ok := errors.AsType[*rulestore.RightsError](err); !ok || strings.Join(lacks.Grants, "; ") != `grant usage, create on schema shop to rule_super_rules` {
		t.Fatalf("error %v", err)
	}
	s.exec("grant usage, create on schema shop to rule_super_rules")
	s.apply(unshipped)
	if owners := get[string](t, s.db, functionOwners); owners != "rule_super_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
	const owner = "rule_super_shop"
	s.exec("alter function shop." + get[string](t, s.db, "select max(proname) from pg_proc where pronamespace = 'shop'::regnamespace") + "() owner to " + owner)
	faults, err := s.store.Faults(t.Context())
	if err != nil || len(faults) != 1 || faults[0].Owner != owner || len(faults[0].Gives) != 1 {
		t.Fatalf("%+v, %v", faults, err)
	}
	s.exec(faults[0].Gives[0])
	if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%+v, %v", faults, err)
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
	if owners := get[string](t, s.db, functionOwners); owners != "rule_printed_rules" {
		t.Errorf("the functions of the triggers belong to %s", owners)
	}
}

func TestTheStatementsForMigrationsAreRefusedAsASuperuserForTheTableOfAnother(t *testing.T) {
	pgtest.NotOnCitus(t, "roles are of one node")
	t.Parallel()
	s := newShop(t)
	text, err := s.store.SQL(t.Context(), parse(t, unshipped))
	if err != nil {
		t.Fatal(err)
	}
	pgtest.DropRoles(t, s.db, "rule_print_owner")
	s.db.MustExec("create role rule_print_owner; grant create on schema shop to rule_print_owner; alter table shop.orders owner to rule_print_owner")
	if _, err := s.db.ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "could use the rights of a superuser") {
		t.Errorf("error %v", err)
	}
}
