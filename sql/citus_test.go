package sql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/sql/statements"
)

// These tests find what Citus refuses, on any PostgreSQL. Citus evaluates a function that is not
// immutable on the coordinator. It can do so only if the call needs no column, and is certain to be
// evaluated.

func TestNoTableHasATrigger(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, name := range list(t, db, `
		select g.tgname from pg_trigger g join pg_class c on c.oid = g.tgrelid
		where c.relnamespace = 'prescient'::regnamespace and not g.tgisinternal`) {
		t.Errorf("trigger %s", name)
	}
}

func TestNoStatementChangesARowByAFunctionThatIsVolatile(t *testing.T) {
	t.Parallel()
	v := readVolatility(t)
	for name, text := range everyText(t) {
		for _, found := range v.refused(text) {
			t.Errorf("%s: %s", name, found)
		}
	}
}

func TestTheScanFindsCallsThatCitusRefuses(t *testing.T) {
	t.Parallel()
	v := readVolatility(t)
	for text, found := range map[string]string{
		"update prescient.job set paused_at = clock_timestamp()":                                                      "clock_timestamp",
		"delete from prescient.job j where j.job = nextval('n')":                                                      "nextval",
		"with gone as (delete from prescient.job where random() < 0.5 returning *) select count(*) from gone":         "random",
		"update prescient.job j set name = prescient.journal_entry('x', j.paused_at)":                                 "journal_entry",
		"update prescient.job set name = prescient.journal_entry('x', paused_at)":                                     "journal_entry",
		"update prescient.job set sla = '1 s' where job = prescient.ensure_job('x')":                                  "ensure_job",
		"insert into prescient.job (job) values (1) on conflict (job) do update set paused_at = now()":                "now",
		"update prescient.job set name = 'a' returning clock_timestamp()":                                             "clock_timestamp",
		"update prescient.job set name = 'a' returning statement_timestamp()":                                         "statement_timestamp",
		"update prescient.transfer_in i set told = prescient.journal_in('x', (i.data ->> 'a')::timestamptz)":          "::timestamptz",
		"delete from prescient.job j where j.name::interval = '1 s'":                                                  "::interval",
		"update prescient.job set sla = '1 s'::interval where paused_at > $1::timestamptz":                            "",
		"update prescient.job set name = coalesce(name, current_setting('role'))":                                     "current_setting",
		"delete from prescient.job where case when sla is null then paused_at < now() else true end":                  "now",
		"update prescient.job j set paused_at = j.paused_at + interval '1 s'":                                         "interval",
		"update prescient.job j set paused_at = (j.paused_at at time zone 'UTC' + interval '1 s') at time zone 'UTC'": "",
		"update prescient.job set name = coalesce(name, current_user)":                                                "current_user",
		"update prescient.job set name = current_user":                                                                "",
		"update prescient.job set paused_at = statement_timestamp()":                                                  "",
		"insert into prescient.job (job, paused_at) values (nextval('n'), clock_timestamp())":                         "",
		"with a as (update prescient.job set sla = '1 s') select random(), 'delete from x where random()'":            "",
		"update prescient.job j set name = upper(j.name)":                                                             "",
	} {
		if got := strings.Join(v.refused(text), ", "); (got == "") != (found == "") || !strings.Contains(got, found) {
			t.Errorf("%s: found %q, want %q", text, got, found)
		}
	}
}

// Citus runs a query that reads a table on a worker, with the functions that it calls. The worker
// has another session and transaction. Runners that open a slot do not wait for that transaction's
// number, and no number of the coordinator can be compared with it.
func TestNoQueryOfATableAsksTheSessionOrTakesANumber(t *testing.T) {
	t.Parallel()
	session := regexp.MustCompile(`due_slot\(|pg_current_xact_id\(|pg_current_snapshot\(|oldest_active_xid\(|current_setting\('(?:application_name|role|prescient)|session_user`)
	table := regexp.MustCompile(`\b(?:from|join)\s+prescient\.\w+\b[^(]`)
	comment := regexp.MustCompile(`(?m)--.*$`)
	end := regexp.MustCompile(`;|\bthen\n`) // of a statement, or of a condition of PL/pgSQL
	found := 0
	for name, text := range everyText(t) {
		for _, statement := range end.Split(comment.ReplaceAllString(text, ""), -1) {
			if !session.MatchString(statement) {
				continue
			}
			if found++; table.MatchString(statement) {
				t.Errorf("%s: %s", name, statement)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d statements ask the session", found)
	}
}

func TestNoStatementNamesTwoSchemas(t *testing.T) {
	t.Parallel()
	schemas := list(t, pgtest.New(t), `select nspname from pg_namespace where nspname not in ('prescient', 'pg_catalog')`)
	named := regexp.MustCompile(`\b(?:` + strings.Join(schemas, "|") + `)\.\w+`)
	for name, text := range everyText(t) {
		if found := named.FindString(withoutQuotes(text)); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
}

// everyText returns the statements, the text of the migrations, and the function bodies as the
// server has them.
func everyText(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	bodies := regexp.MustCompile(`(?s)\$\$.*?\$\$`) // the server returns these
	files, err := filepath.Glob("statements/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("statements: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = bodies.ReplaceAllString(pg.NewStatement(statements.Expand(string(text))).In(pgsql.DefaultSchema), "''")
	}
	var script strings.Builder
	if err := pgsql.PrintMigrations(reserved.Caller{}, &script, ""); err != nil {
		t.Fatal(err)
	}
	texts["migrate print"] = bodies.ReplaceAllString(script.String(), "''")
	db := pgtest.New(t)
	for _, name := range list(t, db, `select oid::regprocedure::text from pg_proc where pronamespace = 'prescient'::regnamespace`) {
		texts[name] = get[string](t, db, `select prosrc from pg_proc where oid = $1::regprocedure`, name)
	}
	return texts
}

// volatility holds the volatile (v) and stable (s) functions of the server by name, and the columns
// of each table.
type volatility struct {
	functions map[string]string
	columns   map[string][]string
}

func readVolatility(t *testing.T) volatility {
	t.Helper()
	db := pgtest.New(t)
	v := volatility{map[string]string{}, map[string][]string{}}
	for _, kind := range []string{"s", "v"} { // of two functions with one name, the worse counts
		for _, name := range list(t, db, `select proname from pg_proc where provolatile = $1`, kind) {
			v.functions[name] = kind
		}
	}
	for _, table := range list(t, db, `select relname from pg_class where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p')`) {
		v.columns[table] = list(t, db, `
			select attname from pg_attribute where attrelid = ('prescient.' || $1::text)::regclass and attnum > 0`, table)
	}
	return v
}

var (
	changes = regexp.MustCompile(`\b(?:update|delete from)\s+prescient\.(\w+)|\bdo update\b`)
	calls   = regexp.MustCompile(`\b(?:\w+\.)?(\w+)\(`)
	column  = regexp.MustCompile(`(\w+\.)?\b([a-z_]\w*)\b`)
	chosen  = regexp.MustCompile(`\bcoalesce(\()|\bcase\b`)
	// sessionValue matches the functions of SQL that are written without parentheses.
	sessionValue = regexp.MustCompile(`\b(?:current_(?:user|role|catalog|schema|date|time|timestamp)|session_user|localtime|localtimestamp)\b`)
	// sums matches an interval that is added to a column or subtracted from it, which for a timestamptz depends on the zone of the session.
	sums  = regexp.MustCompile(`\b\w+\.\w+ [-+] (?:[^\n]*\* )?interval\b`)
	casts = regexp.MustCompile(`[^'\d\s]::(?:timestamp|timestamptz|date|time|timetz|interval)\b`) // these depend on settings of the session
)

// refused returns the calls in a text that Citus would refuse. The text holds one statement or
// more.
func (v volatility) refused(text string) (found []string) {
	text = strings.ToLower(withoutQuotes(text))
	for _, at := range changes.FindAllStringSubmatchIndex(text, -1) {
		table := "" // the table of on conflict, where Citus refuses every function that is not immutable
		if at[2] >= 0 {
			table = text[at[2]:at[3]]
		}
		part := untilEnd(text[at[0]:])
		found = append(found, casts.FindAllString(part, -1)...)
		found = append(found, sums.FindAllString(part, -1)...)
		for _, call := range calls.FindAllStringSubmatchIndex(part, -1) {
			name := part[call[2]:call[3]]
			kind := v.functions[name]
			switch arguments := untilEnd(part[call[1]:]); {
			case kind == "v", kind == "s" && table == "", kind == "s" && v.hasColumn(table, arguments, part):
				found = append(found, name+" in "+strings.Join(strings.Fields(part[:min(len(part), 60)]), " "))
			}
		}
		if _, returned, ok := strings.Cut(part, "returning"); ok {
			for _, call := range calls.FindAllStringSubmatch(returned, -1) {
				if v.functions[call[1]] != "" {
					found = append(found, call[1]+" in a returning")
				}
			}
		}
		for _, at := range chosen.FindAllStringSubmatchIndex(part, -1) {
			values := untilEnd(part[at[1]:])
			if at[2] < 0 {
				values, _, _ = strings.Cut(values, " end")
			}
			for _, call := range calls.FindAllStringSubmatch(values, -1) {
				if v.functions[call[1]] != "" {
					found = append(found, call[1]+" in a coalesce or case")
				}
			}
			for _, name := range sessionValue.FindAllString(values, -1) {
				found = append(found, name+" in a coalesce or case")
			}
		}
	}
	return found
}

// hasColumn tells whether arguments name a column of the changed table, or a column by its alias.
func (v volatility) hasColumn(table, arguments, part string) bool {
	for _, match := range column.FindAllStringSubmatch(arguments, -1) {
		alias := strings.TrimSuffix(match[1], ".")
		if alias == "" && slices.Contains(v.columns[table], match[2]) ||
			alias != "" && regexp.MustCompile(`(?:\w|\))\s+(?:as\s+)?`+alias+`\s`).MatchString(part) {
			return true
		}
	}
	return false
}

// untilEnd cuts a text at the end of its statement, or of the parenthesis that it is in.
func untilEnd(text string) string {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return text[:i]
			}
		case ';':
			return text[:i]
		}
	}
	return text
}

// withoutQuotes removes comments and quoted text.
func withoutQuotes(text string) string {
	return regexp.MustCompile(`--[^\n]*|'[^']*'`).ReplaceAllStringFunc(text, func(match string) string {
		if strings.HasPrefix(match, "--") {
			return ""
		}
		return "''"
	})
}

// On Citus, a statement with a table runs on a worker, and so do its functions. The locks and the transaction numbers of
// prescient are the coordinator's.
func TestNoStatementCallsAFunctionOfTheCoordinatorBesideATable(t *testing.T) {
	t.Parallel()
	table := regexp.MustCompile(`\b(?:from|join|into|update)\s+prescient\.[a-z_]+\b[^(a-z_]`)
	local := regexp.MustCompile(`pg_(?:try_)?advisory|pg_current_(?:xact_id|snapshot)|pg_locks`)
	messages, functions := map[string]string{}, map[string]string{}
	for name, text := range everyText(t) {
		if file, is := strings.CutPrefix(name, "statements/"); is {
			messages[file] = withoutQuotes(text) + "\n"
		} else if name, _, is := strings.Cut(strings.TrimPrefix(name, "prescient."), "("); is {
			functions[name] = withoutQuotes(text)
		}
	}
	bound := map[string]bool{} // they lock, or read transaction numbers, or call a function that does
	calls := func(text string) (names []string) {
		for name := range bound {
			if strings.Contains(text, "prescient."+name+"(") {
				names = append(names, name)
			}
		}
		return names
	}
	for before := -1; before < len(bound); {
		before = len(bound)
		for name, text := range functions {
			if local.MatchString(text) || len(calls(text)) > 0 {
				bound[name] = true
			}
		}
	}
	if !bound["lock_rule"] || !bound["newest_events"] {
		t.Fatalf("the functions that are found: %v", bound)
	}
	ofCitus := []string{"rows_finish.sql", "rows_finish_alike.sql"} // which has rows_finish_apart
	for name, text := range messages {
		if called := calls(text); len(called) > 0 && table.MatchString(text) && !slices.Contains(ofCitus, name) {
			t.Errorf("%s calls %q beside a table", name, called)
		}
	}
}
