package sqljob_test

import (
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs/sqljob"
)

func TestAQueryThatCanRunPassesItsCheckWithoutRunning(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, query := range map[string]string{
		"as people write it": unshipped,
		"with a semicolon":   unshipped + ";\n",
		"with a comment":     unshipped + " -- the end",

		"comments after the semicolon":  unshipped + "; -- the end; really\n /* of /* it; */ ' */ ;; -- no newline",
		"literals that look like ends":  `select k as entity_key, json_build_array('-- ''; /*', e'\'; --', $a$ ; -- $b$ $a$, $$;$$) as event from unnest($1::text[]) k; -- end`,
		"a literal at the end":          "select k as entity_key, now() as next from unnest($1::text[]) k where k <> '; -- '",
		"a quoted literal at the end":   `select k as entity_key, now() as next from unnest($1::text[]) k where k <> e'\\\'; -- ';`,
		"a dollar within a name at end": `select k$a$ as entity_key, now() as next from unnest($1::text[]) k$a$; -- $a$`,
		"that is slow":                  `select k as entity_key, '{}'::json as event from unnest($1::text[]) k, pg_sleep(60)`,
		"a common table":                `with k as (select unnest($1::text[]) as k) select k as entity_key, now() as next from k`,
	} {
		if err := sqljob.Check(t.Context(), w.config(query, func(c *sqljob.Config) { c.Timeout = await.Limit })); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAQueryThatCannotRunFailsItsCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const good = `select k as entity_key, now() as next from unnest($1::text[]) k`
	for name, test := range map[string]struct{ query, role, want string }{
		"a typo":           {query: "select k as entity_key\n, now() as next form x where k = any ($1)", want: `syntax error at or near "form" at position 2:17`},
		"no parameter":     {query: `select 'a' as entity_key, now() as next`, want: "parameter"},
		"two parameters":   {query: `select k as entity_key, $2::timestamptz as next from unnest($1::text[]) k`, want: "parameter"},
		"two statements":   {query: good + "; select 1", want: "multiple commands"},
		"no query":         {query: `delete from orders where id::text = any ($1::text[])`, want: "syntax error"},
		"it writes":        {query: `with k as (delete from orders where id::text = any ($1::text[]) returning 1) select '' as entity_key, now() as next from k`, want: "data-modifying"},
		"a misspelt field": {query: `select k as entity_keys, now() as next from unnest($1::text[]) k`, want: `column "entity_keys" is not known`},
		"a missing role":   {query: good, role: "nobody", want: `role "nobody" does not exist`},
	} {
		err := sqljob.Check(t.Context(), w.config(test.query, func(c *sqljob.Config) { c.Role = test.role }))
		if err == nil || !strings.HasPrefix(err.Error(), `query of job "unshipped": `) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", name, err, test.want)
		}
	}
}

// The server tests the rights of a query when it opens a cursor for it.
func TestTheCheckFindsARightThatTheRoleLacks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const role = "prescient sqljob checker"
	w.exec(`create role "` + role + `"; create schema desk; grant usage on schema desk to "` + role + `"`)
	t.Cleanup(func() {
		if _, err := w.db.Exec(`drop owned by "` + role + `"; drop role "` + role + `"`); err != nil {
			t.Error(err)
		}
	})
	w.exec(`create table desk.cases (id text);
		create view desk.open as select id from desk.cases;
		create function desk.due(text) returns timestamptz language sql volatile as 'select now()';
		revoke execute on function desk.due from public;
		create schema hidden; create table hidden.cases (id text)`)
	const keys = " from unnest($1::text[]) as k"
	for name, test := range map[string]struct{ query, want, grant string }{
		"to read a table": {
			"select k as entity_key, now() as next" + keys + " join desk.cases c on c.id = k",
			"permission denied for table cases", "select on desk.cases",
		},
		"to read a table in a condition": {
			"select k as entity_key, now() as next" + keys + " where not exists (select from desk.cases c where c.id = k)",
			"permission denied for table cases", "select on desk.cases",
		},
		"to read a view": {
			"select id as entity_key, now() as next from desk.open where id = any ($1::text[])",
			"permission denied for view open", "select on desk.open",
		},
		"to execute a function": {
			"select k as entity_key, desk.due(k) as next" + keys, "permission denied for function due", "execute on function desk.due",
		},
		"to use a schema": {
			"select id as entity_key, now() as next from hidden.cases where id = any ($1::text[])",
			"permission denied for schema hidden", "select on hidden.cases to \"" + role + "\"; grant usage on schema hidden",
		},
	} {
		cfg := w.config(test.query, func(c *sqljob.Config) { c.Role = role })
		if err := sqljob.Check(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", name, err, test.want)
		}
		w.exec("grant " + test.grant + ` to "` + role + `"`)
		if err := sqljob.Check(t.Context(), cfg); err != nil {
			t.Errorf("%s, once it is granted: %v", name, err)
		}
		w.exec(`revoke select on all tables in schema desk from "` + role + `"`)
	}
}

func TestACheckWithoutADatabaseIsRefused(t *testing.T) {
	t.Parallel()
	err := sqljob.Check(t.Context(), sqljob.Config{Name: "unshipped", Query: "select 1"})
	if want := `query of job "unshipped": DB must be set`; err == nil || err.Error() != want {
		t.Error(err)
	}
}
