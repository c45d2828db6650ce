package sql_test

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestTheSchemaGoesUpAndDownStepByStep(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	want := dump(t, db, "prescient")
	steps := applied(t, db, "")
	if stated := get[int](t, db, "select schema_version from prescient.setting"); steps != pgsql.SchemaVersion || stated != steps {
		t.Fatalf("SchemaVersion is %d, the last migration %d, and the setting table states %d: want one number", pgsql.SchemaVersion, steps, stated)
	}
	for version := steps - 1; version >= 0; version-- {
		if err := pgsql.MigrateDown(t.Context(), db, "", int64(version)); err != nil {
			t.Fatal(err)
		}
		if got := applied(t, db, ""); got != version {
			t.Errorf("%d applied after a way down to %d", got, version)
		}
		if version > 0 && get[int](t, db, "select schema_version from prescient.setting") != version {
			t.Errorf("the setting table states another version than %d, the last migration", version)
		}
		if version == 0 {
			left := list(t, db, `select relname from pg_class where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p', 'v', 'S')
				union all select proname from pg_proc where pronamespace = 'prescient'::regnamespace order by 1`)
			if diff := cmp.Diff([]string{"schema_migration", "schema_migration_id_seq"}, left); diff != "" {
				t.Errorf("left at version 0:\n%s", diff)
			}
		}
		if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
			t.Errorf("down to %d and up again:\n%s", version, diff)
		}
	}
}

func TestTheSchemaGoesDownWithAllThatIsInIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', clock_timestamp())")
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', clock_timestamp(), on_conflict => 'replace')")
	exec(t, db, "select prescient.make_history_month('2031-01-01')")
	if err := pgsql.MigrateDown(t.Context(), db, "", 0); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, db, "select count(*) from prescient.future_job"); n != 0 {
		t.Errorf("%d rows", n)
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
			if err := pgsql.PrintMigrations(&script, schema); err != nil {
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
			if err := pgsql.MigrateDown(t.Context(), printed, schema, 0); err != nil {
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
	if err := pgsql.PrintMigrations(&script, ""); err != nil {
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

func TestAnyNumberMayMigrateAtOnce(t *testing.T) {
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
	if diff := cmp.Diff(want, dump(t, open(t, url), "prescient")); diff != "" {
		t.Errorf("not as one alone leaves it:\n%s", diff)
	}
}

// The version table is in the catalog, and cannot be read yet.
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

func TestMigrateTwiceIsNothingToDo(t *testing.T) {
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

func TestASchemaOfNewerCodeIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.schema_migration (version_id, is_applied) values ($1, true)", pgsql.SchemaVersion+1)
	exec(t, db, "update prescient.setting set schema_version = $1", pgsql.SchemaVersion+1)
	if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
		t.Error("one that may be used: ", err)
	}
	exec(t, db, "update prescient.setting set usable_from = $1", pgsql.SchemaVersion+1)
	want := dump(t, db, "prescient")
	for name, err := range map[string]error{
		"up":   pgsql.Migrate(t.Context(), db, ""),
		"down": pgsql.MigrateDown(t.Context(), db, "", 0),
	} {
		if !errors.Is(err, pgsql.ErrNewer) || !strings.Contains(err.Error(), strconv.Itoa(pgsql.SchemaVersion+1)) {
			t.Errorf("%s: %v, want ErrNewer with the version", name, err)
		}
	}
	if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	steps, err := pgsql.Migrations(t.Context(), db, "")
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

func TestMigrationsTellsWhenWhateverTheTimeZoneOfTheSession(t *testing.T) {
	pgtest.NotOnCitus(t, "the time zone is a worker's")
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			db := open(t, pgtest.Empty(t), pgsql.Param("timezone", zone))
			if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
				t.Fatal(err)
			}
			steps, err := pgsql.Migrations(t.Context(), db, "")
			if err != nil {
				t.Fatal(err)
			}
			now := get[time.Time](t, db, "select clock_timestamp()")
			for i, step := range steps {
				if !step.Applied || step.Version != int64(i+1) || step.AppliedAt.After(now) || step.AppliedAt.Before(now.Add(-10*time.Minute)) {
					t.Errorf("at %s: %+v", now.UTC(), step)
				}
			}
		})
	}
}

// A text that does not fit into another encoding is an error, and with it all that is written together with it.
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
			if err := pgsql.PrintMigrations(&script, ""); err != nil {
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

// encoded is an empty database of an encoding.
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
	steps, err := pgsql.Migrations(t.Context(), db, schema)
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d migrations, %v", len(steps), err)
	}
	n := 0
	for _, step := range steps {
		if step.Applied {
			n++
		}
	}
	return n
}

// dump describes everything in a schema but the order in which it was made.
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
