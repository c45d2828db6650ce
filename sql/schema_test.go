package sql_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestSchemaNamesThatNeedQuotesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Prescient", "1st", "a-b", "a.b", `a"b`, "a b", " ", "ä", "a;drop", "$x", "a\x00", "a\n", "pg_catalog", "pg_x",
		strings.Repeat("a", 64),
	} {
		if s, err := pgsql.ParseSchema(name); err == nil || s != "" {
			t.Errorf("ParseSchema(%q) = %q, %v", name, s, err)
		}
	}
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]pgsql.Schema{
		"": pgsql.DefaultSchema, "prescient": pgsql.DefaultSchema, "_": "_", "a1_": "a1_", "my_prescient": "my_prescient",
		strings.Repeat("a", 63): pgsql.Schema(strings.Repeat("a", 63)),
	} {
		if s, err := pgsql.ParseSchema(name); err != nil || s != want {
			t.Errorf("ParseSchema(%q) = %q, %v", name, s, err)
		}
	}
	if pgsql.Schema("").String() != "prescient" {
		t.Error("the zero Schema is not the default")
	}
}

func TestAKeyWordIsRefusedAsASchemaBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, word := range []pgsql.Schema{"order", "user", "table", "select", "between", "left"} {
		if err := pgsql.Migrate(t.Context(), db, word); err == nil || !strings.Contains(err.Error(), "key word") {
			t.Errorf("Migrate into %q: %v", word, err)
		}
		if get[bool](t, db, "select exists (select from pg_namespace where nspname = $1)", word.String()) {
			t.Errorf("schema %q was made", word)
		}
	}
}

// A role that dumps for another version may have this setting.
func TestASessionThatQuotesAllNamesMigrates(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.URL(t), pgsql.Param("quote_all_identifiers", "on"))
	if err := pgsql.Migrate(t.Context(), db, "orders"); err != nil {
		t.Error(err)
	}
}

func TestABadNameIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, name := range []pgsql.Schema{"Shop", "my-shop", "a;b", "\x00", "pg_shop", pgsql.Schema(strings.Repeat("a", 64))} {
		_, want := pgsql.ParseSchema(string(name))
		if err := pgsql.Migrate(t.Context(), db, name); err == nil || err.Error() != want.Error() {
			t.Errorf("Migrate into %q: %v", name, err)
		}
	}
	if n := get[int](t, db, "select count(*) from pg_namespace where nspname like 'aaa%'"); n > 0 {
		t.Errorf("%d schemas were made", n)
	}
}

func TestSchemasOfAPatternAreFoundThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := pgtest.Direct(t)
	if err := pgsql.Migrate(t.Context(), open(t, direct), "tenant_1"); err != nil {
		t.Fatal(err)
	}
	db := open(t, pgtest.Pooled(t, direct))
	var looking sync.WaitGroup
	for pattern, want := range map[string]string{"tenant_*": "[tenant_1]", "tenant*": "[tenant_1]", "tenants_*": "[]", "*escient": "[prescient]"} {
		for range 4 {
			looking.Go(func() {
				for range 100 {
					if got, err := pg.Schemas(t.Context(), db, pattern); fmt.Sprint(got) != want || err != nil {
						t.Errorf("%s: %v, %v", pattern, got, err)
						return
					}
				}
			})
		}
	}
	looking.Wait()
}

func TestTheLongestSchemaNameWorks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	name := pgsql.Schema("s" + strings.Repeat("x", 62))
	if err := pgsql.Migrate(t.Context(), db, name); err != nil {
		t.Fatal(err)
	}
	if _, err := pgsql.ReadSetting(t.Context(), db, name); err != nil {
		t.Error(err)
	}
	if months := get[int](t, db, "select count(*) from pg_inherits where inhparent = ($1 || '.future_job_history')::regclass", name.String()); months != 4 {
		t.Errorf("%d partitions, want three months and the rest", months)
	}
}

func TestReadSettingKnowsASchemaOfAnotherVersion(t *testing.T) {
	t.Parallel()
	empty, migrated := open(t, pgtest.Empty(t)), pgtest.New(t)
	if _, err := pgsql.ReadSetting(t.Context(), nil, ""); err == nil {
		t.Error("settings of no database")
	}
	if _, err := pgsql.ReadSetting(t.Context(), empty, ""); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Errorf("nothing there: %v", err)
	}
	const own = pgsql.SchemaVersion
	for _, test := range []struct {
		version, usableFrom int
		want                error
	}{
		{own - 1, own - 1, pgsql.ErrNotMigrated},
		{own, own, nil},
		{own, own - 1, nil},
		{own + 1, own, nil},
		{own + 2, own - 1, nil}, // newer code has only added to it
		{own + 1, own + 1, pgsql.ErrNewer},
	} {
		exec(t, migrated, "update prescient.setting set schema_version = $1, min_code_version = $2", test.version, test.usableFrom)
		if _, err := pgsql.ReadSetting(t.Context(), migrated, ""); !errors.Is(err, test.want) {
			t.Errorf("version %d, usable from %d: %v, want %v", test.version, test.usableFrom, err, test.want)
		}
	}
	exec(t, migrated, "delete from prescient.setting")
	if _, err := pgsql.ReadSetting(t.Context(), migrated, ""); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Errorf("no row: %v", err)
	}
}

func TestNowFollowsTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	setting, err := pgsql.ReadSetting(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	if get[bool](t, db, "select $1::timestamptz > clock_timestamp() or $1::timestamptz < clock_timestamp() - interval '1 minute'", setting.Now()) {
		t.Errorf("Now is %s", setting.Now())
	}
	if !setting.Grid.Contains(setting.Since) || !setting.Since.After(setting.Now().Add(-setting.Grid.Width())) {
		t.Errorf("since %s", setting.Since)
	}
}

// The order of a language changes with an upgrade of the system, and an index in that order then misses keys.
func TestEveryIndexOfTextComparesByBytes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const indexes = `
		select i.indexrelid::regclass || ' (' || co.collname || ')'
		from pg_index i
		join pg_class c on c.oid = i.indrelid
		cross join unnest(i.indcollation) as used
		join pg_collation co on co.oid = used
		where c.relnamespace = 'prescient'::regnamespace`
	if got := list(t, db, indexes+" and co.collname <> 'C'"); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := list(t, db, indexes); len(got) < 20 {
		t.Errorf("only %q", got)
	}
}
