package sql_test

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestTheSchemaGoesDownAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, schema := range []pgsql.Schema{"", "order_checks"} {
		t.Run(schema.String(), func(t *testing.T) {
			t.Parallel()
			db := open(t, pgtest.Empty(t))
			before := databaseObjects(t, db)
			if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "select "+schema.String()+".enqueue('remind', 'order', '1', check_at => clock_timestamp())")
			exec(t, db, "select "+schema.String()+".enqueue('remind', 'order', '1', check_at => clock_timestamp(), on_conflict => 'replace')")
			exec(t, db, "select "+schema.String()+".make_history_month('2031-01-01')")
			for range 2 {
				if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, schema); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, databaseObjects(t, db)); diff != "" {
					t.Errorf("left in the database:\n%s", diff)
				}
			}
			if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
				t.Fatal(err)
			}
			if n := get[int](t, db, "select count(*) from "+schema.String()+".future_job"); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// databaseObjects lists the schemas of a database and the objects in them.
func databaseObjects(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	return list(t, db, `
		select 'schema ' || nspname from pg_namespace where nspname !~ '^pg_(toast|temp)'
		union all select 'relation ' || oid::regclass from pg_class where relnamespace <> 'pg_toast'::regnamespace
		union all select 'type ' || oid::regtype from pg_type where typnamespace <> 'pg_toast'::regnamespace
		union all select 'routine ' || oid::regprocedure from pg_proc
		order by 1`)
}

// An application may share the schema, and have objects with the names of prescient's functions.
func TestMigrateDownKeepsTheObjectsOfAnApplication(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Empty(t))
	exec(t, db, `
		create table public.orders (id integer);
		create function public.cancel(id integer) returns void language sql as 'delete from public.orders';
		create domain public.money_amount as numeric`)
	before := databaseObjects(t, db)
	if err := pgsql.Migrate(t.Context(), db, "public"); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create view public.runs as select slot from public.slot_run")
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, "public"); err == nil || !strings.Contains(err.Error(), "view runs depends on") {
		t.Errorf("a view of the application depends on a table: %v", err)
	}
	if n := get[int](t, db, "select count(*) from public.setting"); n != 1 {
		t.Error("something was dropped all the same")
	}
	exec(t, db, "drop view public.runs")
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, "public"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, databaseObjects(t, db)); diff != "" {
		t.Errorf("not as it was:\n%s", diff)
	}
}

func TestTheListsOfObjectsAreThoseOfTheCatalog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tables, types, routines := pgsql.Objects(reserved.Caller{})
	for _, kind := range []struct {
		name   string
		listed []string
		query  string
	}{
		{"tables", tables, `select relname from pg_class
			where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') and relname !~ '^future_job_history_[0-9]+$'`},
		{"types", types, `select typname from pg_type t left join pg_class c on c.oid = t.typrelid
			where typnamespace = 'prescient'::regnamespace and (typtype in ('d', 'e', 'r') or typtype = 'c' and c.relkind = 'c')`},
		{"routines", regprocedures(t, db, routines), `select oid::regprocedure::text from pg_proc where pronamespace = 'prescient'::regnamespace`},
	} {
		want := list(t, db, kind.query)
		slices.Sort(want)
		slices.Sort(kind.listed)
		if diff := cmp.Diff(want, kind.listed); diff != "" {
			t.Errorf("%s:\n%s", kind.name, diff)
		}
	}
}

// regprocedures returns routines as the catalog names them.
func regprocedures(t *testing.T, db *sqlx.DB, routines []string) (all []string) {
	t.Helper()
	for _, routine := range routines {
		all = append(all, get[string](t, db, "select $1::regprocedure::text", "prescient."+routine))
	}
	return all
}

func TestMigrateReplacesFunctionsOfOtherCode(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := dump(t, db, "prescient")
	exec(t, db, `
		create or replace function prescient.cancel_entity(entity_name text, entity_key text) returns bigint language sql as 'select 0::bigint';
		drop function prescient.why`)
	exec(t, db, "update prescient.setting set functions = 'older'")
	step := func() pgsql.Migration {
		steps, err := pgsql.Migrations(reserved.Caller{}, t.Context(), db, "")
		if err != nil || steps[len(steps)-1].Name != pgsql.FunctionsStep {
			t.Fatalf("%+v, %v", steps, err)
		}
		return steps[len(steps)-1]
	}
	if step().Applied {
		t.Error("Migrations says that the functions are this code's")
	}
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if now := get[time.Time](t, db, "select clock_timestamp()"); !step().Applied || step().AppliedAt.Before(now.Add(-10*time.Minute)) || step().AppliedAt.After(now) {
		t.Errorf("at %s: %+v", now.UTC(), step())
	}
	if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
		t.Errorf("not the functions of this code:\n%s", diff)
	}
}

func TestThePrintedScriptMakesTheSameSchemaAsMigrate(t *testing.T) {
	pgtest.NotOnCitus(t, "it does not take this script as one message; psql sends statement by statement")
	t.Parallel()
	for _, schema := range []pgsql.Schema{"", "order_checks"} {
		t.Run(schema.String(), func(t *testing.T) {
			t.Parallel()
			migrated, printed := open(t, pgtest.Empty(t)), open(t, pgtest.Empty(t))
			if err := pgsql.Migrate(t.Context(), migrated, schema); err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			if err := pgsql.PrintMigrations(reserved.Caller{}, &script, schema); err != nil {
				t.Fatal(err)
			}
			exec(t, printed, script.String())
			want := dump(t, migrated, schema.String())
			if diff := cmp.Diff(want, dump(t, printed, schema.String())); diff != "" {
				t.Errorf("migrated and printed differ:\n%s", diff)
			}

			if err := pgsql.Migrate(t.Context(), printed, schema); err != nil {
				t.Fatalf("migrate what was printed: %v", err)
			}
			if diff := cmp.Diff(want, dump(t, printed, schema.String())); diff != "" {
				t.Errorf("Migrate changed it:\n%s", diff)
			}
			if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), printed, schema); err != nil {
				t.Errorf("take down what was printed: %v", err)
			}
		})
	}
}

func TestTheScriptRunsOnceOrNotAtAll(t *testing.T) {
	pgtest.NotOnCitus(t, "it does not take this script as one message; psql sends statement by statement")
	t.Parallel()
	db := open(t, pgtest.Empty(t))
	var script strings.Builder
	if err := pgsql.PrintMigrations(reserved.Caller{}, &script, ""); err != nil {
		t.Fatal(err)
	}
	half := strings.Replace(script.String(), "create table prescient.slot_claim", "create nonsense", 1)
	if _, err := db.ExecContext(t.Context(), half); err == nil {
		t.Fatal("nonsense was run")
	}
	exec(t, db, "rollback")
	if get[bool](t, db, "select exists (select from pg_namespace where nspname = 'prescient')") {
		t.Error("half of the script is there")
	}
	exec(t, db, script.String())
}

func TestManyProcessesMayMigrateConcurrently(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	want := dump(t, pgtest.New(t), "prescient")
	var wg sync.WaitGroup
	for range 4 {
		db := open(t, url)
		wg.Go(func() {
			if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// PostgreSQL gives the sequence of the version table another name if several sessions create it at once.
	got := dump(t, open(t, url), "prescient")
	numbered := regexp.MustCompile(`schema_migration_id_seq\d+`)
	for i := range got {
		got[i] = numbered.ReplaceAllString(got[i], "schema_migration_id_seq")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as one alone leaves it:\n%s", diff)
	}
}

// The version table is in the catalog, but cannot be read yet.
func TestAMigrationWaitsForTheVersionTableThatAnotherOneMakes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := open(t, url)
	read := func(text string) bool { return strings.Contains(text, "is_applied from prescient.schema_migration") }
	var other sync.WaitGroup
	faults := pgtest.OpenFaults(t, url, pgtest.Unprepared)
	faults.Set(pgtest.Fault{At: 1, Of: read, Kind: pgtest.SomebodyFirst, First: func() {
		exec(t, db, "alter table prescient.schema_migration rename to soon")
		other.Go(func() {
			time.Sleep(100 * time.Millisecond)
			exec(t, db, "alter table prescient.soon rename to schema_migration")
		})
	}})
	if err := pgsql.Migrate(t.Context(), faults.DB, ""); err != nil {
		t.Error(err)
	}
	other.Wait()
	if hit, _ := faults.Hit(); hit == 0 {
		t.Error("nobody has read the version table")
	}
}

func TestMigrateIsIdempotent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "update prescient.setting set width = '1 hour'")
	want := dump(t, db, "prescient")
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
		t.Error(diff)
	}
}

func TestMigrateLeavesASchemaOfNewerCodeUnchanged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.schema_migration (version_id, is_applied) values ($1, true)", pgsql.SchemaVersion+1)
	exec(t, db, "update prescient.setting set schema_version = $1", pgsql.SchemaVersion+1)
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Error("one that may be used: ", err)
	}
	exec(t, db, "update prescient.setting set min_code_version = $1", pgsql.SchemaVersion+1)
	want := dump(t, db, "prescient")
	for name, err := range map[string]error{
		"up":   pgsql.Migrate(t.Context(), db, ""),
		"down": pgsql.MigrateDown(reserved.Caller{}, t.Context(), db, ""),
	} {
		if !errors.Is(err, pgsql.ErrNewer) || !strings.Contains(err.Error(), strconv.Itoa(pgsql.SchemaVersion+1)) {
			t.Errorf("%s: %v, want ErrNewer with the version", name, err)
		}
	}
	if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	steps, err := pgsql.Migrations(reserved.Caller{}, t.Context(), db, "")
	if last := steps[len(steps)-1]; err != nil || last.Version != pgsql.SchemaVersion+1 || last.Name != "" || !last.Applied {
		t.Errorf("the last step: %+v, %v", last, err)
	}
}

func TestMigrationsOfAnEmptyDatabaseWritesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Empty(t))
	if n := applied(t, db, ""); n != 0 {
		t.Errorf("%d applied", n)
	}
	if get[bool](t, db, "select exists (select from pg_namespace where nspname = 'prescient')") {
		t.Error("it made the schema")
	}
}

func TestMigrationsTellsWhenInEveryTimeZoneOfTheSession(t *testing.T) {
	pgtest.NotOnCitus(t, "the time zone is a worker's")
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Empty(t)
			if err := pgsql.Migrate(t.Context(), open(t, url, pgsql.Param("timezone", zone)), ""); err != nil {
				t.Fatal(err)
			}
			db := open(t, url, pgsql.Param("timezone", "Pacific/Honolulu")) // another one than that of the migration
			steps, err := pgsql.Migrations(reserved.Caller{}, t.Context(), db, "")
			if err != nil {
				t.Fatal(err)
			}
			now := get[time.Time](t, db, "select clock_timestamp()")
			for i, step := range steps {
				if !step.Applied || step.Version != min(int64(i+1), pgsql.SchemaVersion) || step.AppliedAt.After(now) || step.AppliedAt.Before(now.Add(-10*time.Minute)) {
					t.Errorf("at %s: %+v", now.UTC(), step)
				}
			}
		})
	}
}

// A text that does not fit into another encoding fails everything that is written with it.
func TestADatabaseOfAnotherEncodingIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			db := open(t, encoded(t, encoding))
			err := pgsql.Migrate(t.Context(), db, "")
			if !errors.Is(err, pgsql.ErrEncoding) || !strings.Contains(err.Error(), encoding) || !strings.Contains(err.Error(), "create database") {
				t.Errorf("Migrate: %v", err)
			}
			var script strings.Builder
			if err := pgsql.PrintMigrations(reserved.Caller{}, &script, ""); err != nil {
				t.Fatal(err)
			}
			if e := refused(t, db, pqerror.FeatureNotSupported, script.String()); !strings.Contains(e.Message, encoding) || !strings.Contains(e.Hint, "create database") {
				t.Errorf("the script: %q, hint %q", e.Message, e.Hint)
			}
			exec(t, db, "rollback")
			if get[bool](t, db, "select exists (select from pg_namespace where nspname = 'prescient')") {
				t.Error("the schema was made")
			}
		})
	}
}

// encoded creates an empty database with an encoding.
func encoded(t *testing.T, encoding string) string {
	t.Helper()
	beside := pgtest.Empty(t)
	u, err := url.Parse(beside)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/") + "_" + strings.ToLower(encoding)
	admin := open(t, beside)
	exec(t, admin, "create database "+name+" encoding '"+encoding+"' locale 'C' template template0")
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// applied counts the steps that a database has.
func applied(t *testing.T, db *sqlx.DB, schema pgsql.Schema) int {
	t.Helper()
	steps, err := pgsql.Migrations(reserved.Caller{}, t.Context(), db, schema)
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d migrations, %v", len(steps), err)
	}
	n := 0
	for _, step := range steps {
		if step.Applied && step.Name != pgsql.FunctionsStep {
			n++
		}
	}
	return n
}

// dump describes everything in a schema, except the order in which it was made.
func dump(t *testing.T, db *sqlx.DB, schema string) []string {
	t.Helper()
	lines := list(t, db, `
		with relation as (
			select c.* from pg_class c where c.relnamespace = $1::text::regnamespace
		)
		select format('%s %s kind %s options %s comment %s bound %s key %s', 'relation', relname, relkind, reloptions,
			obj_description(oid, 'pg_class'), pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid))
		from relation where relkind in ('r', 'p', 'S')
		union all
		select format('column %s %s %s %s not null %s identity %s generated %s default %s comment %s', c.relname,
			row_number() over (partition by c.oid order by a.attnum), a.attname, -- which is not the number of one that was dropped and came back
			format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
			col_description(c.oid, a.attnum))
		from relation c
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
		where c.relkind in ('r', 'p')
		union all
		select format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
		from pg_constraint where connamespace = $1::text::regnamespace
		union all
		select 'index ' || indexdef from pg_indexes where schemaname = $1::text
		union all
		select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace = $1::text::regnamespace
		union all
		select 'trigger ' || pg_get_triggerdef(g.oid) from pg_trigger g join relation c on c.oid = g.tgrelid where not g.tgisinternal
		union all
		select query_to_xml(format('select width, schema_version from %I.setting', $1::text), true, true, '')::text
		union all
		select query_to_xml(format('select version_id, is_applied from %I.schema_migration order by id', $1::text), true, true, '')::text
		order by 1`, schema)
	if len(lines) < 100 {
		t.Fatalf("only %d lines of schema %s", len(lines), schema)
	}
	return lines
}
