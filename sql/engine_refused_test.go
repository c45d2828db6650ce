package sql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// signs maps an engine to objects that make a server look like it. A session finds them before
// PostgreSQL's own.
var signs = map[string]string{
	"YugabyteDB": `create function engine.version() returns text language sql
		as $$ select 'PostgreSQL 15.12-YB-2026.1.0.1-b0 on x86_64-pc-linux-gnu, compiled by clang version 21.1.1, 64-bit' $$`,
	"EDB Postgres Distributed":             `create view engine.pg_extension as select 'bdr'::name as extname`,
	"Aurora PostgreSQL Limitless Database": `create view engine.pg_extension as select 'aurora_limitless_fdw'::name as extname`,
	"Aurora DSQL":                          `create schema sys; create view sys.iam_pg_role_mappings as select 1 as one`,
}

func TestARefusedEngineGetsNoSchemaAndIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, sign := range signs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Empty(t)
			db := open(t, url)
			if err := pgsql.Migrate(t.Context(), db, ""); err != nil {
				t.Fatal("PostgreSQL is refused:", err)
			}
			exec(t, db, "create schema engine; "+sign)
			strange := open(t, url, pgsql.Param("search_path", "engine, pg_catalog"))
			isRefused(t, name, pgsql.RefuseEngine(reserved.Caller{}, t.Context(), strange))
			_, err := pgsql.ReadSetting(t.Context(), strange, "")
			isRefused(t, name, err)
			isRefused(t, name, pgsql.Migrate(t.Context(), strange, "checks"))
			if get[bool](t, db, "select exists (select from pg_namespace where nspname = 'checks')") {
				t.Error("a schema was made")
			}
		})
	}
}

func isRefused(t *testing.T, name string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*pgsql.EngineError](err)
	if !ok || refused.Name != name || !strings.Contains(err.Error(), (&pgsql.EngineError{}).Remedy()) || errors.Is(err, pgsql.ErrNotMigrated) {
		t.Errorf("%v, want %s", err, name)
	}
}

// One has a table named like a view of Aurora DSQL in another schema. The other has a schema that
// no role may use.
func TestAServerThatOnlyLooksLikeARefusedEngineIsAccepted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "create table public.iam_pg_role_mappings (); create schema sys; create table sys.jobs (); revoke all on schema sys from public")
	for _, role := range []string{"", "pg_monitor"} {
		err := pgsql.ReadTx(t.Context(), db, func(tx *sqlx.Tx) error {
			if role != "" {
				exec(t, tx, "set local role "+role)
			}
			return pg.One(t.Context(), tx, pg.EngineSigns.In(pgsql.DefaultSchema), nil, new(string))
		})
		if err = errors.Join(err, pgsql.RefuseEngine(reserved.Caller{}, t.Context(), db)); err != nil {
			t.Errorf("role %q: %v", role, err)
		}
	}
}
