package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Any role that may create schemas could otherwise let each login that looks for stores run its code.
func TestASchemaOfAStrangerIsNoStoreOfAPattern(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "each schema is the coordinator's login's")
	const stranger = "store_stranger"
	url := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("create role " + stranger)
	pgtest.DropRoles(t, db, stranger)
	if err := pgsql.Migrate(t.Context(), db, "tenant_1"); err != nil {
		t.Fatal(err)
	}
	db.MustExec("select tenant_1.enqueue('job', 'order', n::text, check_at => now() + interval '1 day') from generate_series(1, 30) as n")
	db.MustExec(`create schema tenant_2 authorization ` + stranger + `; create schema tenant_3 authorization ` + stranger + `;
		create table tenant_2.setting (); create table tenant_2.future_job ();
		create function tenant_2.settings() returns table (width interval, since timestamptz, schema_version int, min_code_version int)
		language plpgsql as $$ begin raise exception 'it runs as %', current_user; end $$`)
	exits := func(want cmd.Code, settings string, args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "prescient.yaml")
		text := fmt.Sprintf("database: {url: '%s'}\nstores: [{name: tenants, schema: tenant_*%s}]\n", url, settings)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		app := cmd.New(registry())
		var out, said strings.Builder
		app.Out, app.Err = &out, &said
		if code := app.Run(t.Context(), append(args, "--config", file)); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, &said)
		}
		return out.String() + said.String()
	}
	for _, args := range [][]string{
		{"status"},
		{"migrate", "up"},
		{"run"},
		{"stores", "list"},
		{"stores", "move", "tenants/tenant_1"},
		{"migrate", "up", "--store", "tenants/tenant_2"},
		{"migrate", "up", "--store", "tenants/tenant_3"},
		{"stores", "add", "tenants/tenant_3"},
	} {
		said := exits(cmd.Failure, "", args...)
		if !strings.Contains(said, "belongs to role "+stranger) || strings.Contains(said, "it runs as") {
			t.Errorf("%s: %s", args, said)
		}
	}
	var ran bool
	if err := db.Get(&ran, "select exists (select from tenant_1.slot_run)"); err != nil || !ran {
		t.Errorf("the slot of the other store was not run: %v", err)
	}
	var made []string
	if err := db.Select(&made, "select oid::regclass::text from pg_class where relnamespace in ('tenant_2'::regnamespace, 'tenant_3'::regnamespace) order by 1"); err != nil {
		t.Fatal(err)
	}
	if want := "[tenant_2.future_job tenant_2.setting]"; fmt.Sprint(made) != want {
		t.Errorf("there are %s, want %s", made, want)
	}

	exits(cmd.Done, ", owner: "+stranger, "migrate", "up", "--store", "tenants/tenant_3")
	exits(cmd.Done, "", "status", "--store", "tenants/tenant_1")
	db.MustExec("alter schema tenant_1 owner to pg_database_owner") // as schema public of a new database
	exits(cmd.Done, "", "status", "--store", "tenants/tenant_1")
}
