package rulestore

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	pgsql "github.com/prescient-go/prescient/sql"
)

//go:embed templates/*.sql
var templates embed.FS

// template returns the text of a template, in which names in braces stand for what a rule says.
func template(name string) pg.Statement {
	text, err := templates.ReadFile("templates/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return pg.NewStatement(strings.TrimSpace(string(text)))
}

// truncate is the event whose trigger only rules have that note something of rows.
const truncate = "truncate"

// events are those that may have a trigger.
var events = []string{"insert", "update", "delete", truncate}

// trigger is one of the triggers of a rule, with its function.
type trigger struct {
	// name names the trigger, and its function in the schema of functions.
	name string
	// function is the statements that create or replace the function, and body its body.
	function, body string
	// works tells that the table has the trigger, and there that it has the same version.
	works, there bool
	// create is the statement that creates or replaces the trigger. argument tells two versions of a
	// trigger apart.
	create, argument string
}

// triggersOf returns the triggers of a rule, and the statements that come before and after them. Those before create
// the type that all share, and what the condition of a trigger calls. The first trigger locks the table. Those after
// it create the functions that all share, and test that the triggers are those of one table. Nothing before the first
// trigger locks the table, or an alter table could wait for the lock, and the trigger for the alter table.
//
// An update has a trigger for each row, whose condition is tested where the row is written. An update
// of other columns costs the server 5 microseconds a statement more, and 10,000 rows in one statement
// 0.03 s instead of 0.02 s. A statement trigger that joins the two versions of each row costs as much
// for one row. For 10,000 it took 5.9 s, because it keeps the plan that was made for one. The trigger
// has no list of columns: an earlier trigger may change a column that the statement does not name.
//
// Inserts and deletes have a trigger for each statement, with one call for all rows. On a partitioned
// table it is one for each row, since a statement trigger misses what is written to a partition
// directly.
//
// A truncate has a trigger if something is noted of rows. It stays if the rule notes nothing later, and does no harm.
func triggersOf(
	schema pgsql.Schema, u understood, fill func(pg.Statement, string) string,
) (before, after string, all []trigger) {
	before = fill(template("type"), "")
	row, safe := fill(template("row"), ""), fill(template("safe"), "")
	version := sha256.Sum256([]byte(before + row + safe))
	protect := func(which, of string) string {
		return u.protect(schema, fmt.Sprintf("%s(%s, timestamptz)", u.function(schema, which), of), false)
	}
	row += protect(rowFunction, u.function(schema, rowType))
	safe += protect(safeFunction, u.anyRow())
	after = row + "\n" + safe + "\n"
	if u.table.Roles {
		after += fill(template("call"), "") + "\n"
	}
	after += fill(template("check"), "") + "\n\n"
	if moves := u.function(schema, movesFunction) + "(timestamptz, timestamptz)"; u.clock() != "" {
		before += "\n" + fill(template("moves"), "") + u.protect(schema, moves, true)
	} else {
		after = "drop function if exists " + moves + ";\n" + after
	}
	kind, level := "many", "for each statement"
	if u.table.partitioned() {
		kind, level = "one", "for each row"
	}
	rows := func(which, table string) string {
		if u.table.partitioned() {
			return level
		}
		return fmt.Sprintf("referencing %s table as %s %s", which, table, level)
	}
	add := func(file, event, rest, argument string) {
		name := triggerName(schema, u.Rule.Name, event)
		function := u.function(schema, event)
		made := trigger{name: name, argument: argument, function: fill(template(file), hex.EncodeToString(version[:4]))}
		made.body = body.FindStringSubmatch(made.function)[1]
		made.function += u.protect(schema, function+"()", u.table.partitioned())
		if argument != "" {
			argument = pq.QuoteLiteral(argument)
		}
		made.create = fmt.Sprintf("create or replace trigger %s after %s on %s\n%s\nexecute function %s(%s);",
			pq.QuoteIdentifier(name), event, u.Relation, rest, function, argument)
		all = append(all, made)
	}
	add("inserted_"+kind, "insert", rows("new", "prescient_inserted"), "")
	add("updated", "update", "for each row when ("+u.changed(schema)+")", strings.Join(u.Reads, ", "))
	add("deleted_"+kind, "delete", rows("old", "prescient_deleted"), "")
	if u.Facts.Noted() {
		add("truncated", truncate, "for each statement", "")
	}
	return before + "\n\n", after, all
}

// function returns the name of a function of a rule, as SQL. All are in a schema of their own, in which
// no application may create anything: a trigger calls the function of a row by its name.
func (u understood) function(schema pgsql.Schema, which string) string {
	return pg.Rules.In(schema) + "." + pq.QuoteIdentifier(triggerName(schema, u.Rule.Name, which))
}

// dropFunctions returns the statement that drops the functions of a rule, and the triggers that call
// them. It leaves out the parameters, whose types may be of a schema that the login may not use.
func dropFunctions(schema pgsql.Schema, name string) string {
	var functions []string
	for _, which := range append(slices.Clone(events), rowFunction, safeFunction, movesFunction) {
		functions = append(functions, pg.Rules.In(schema)+"."+pq.QuoteIdentifier(triggerName(schema, name, which)))
	}
	return fmt.Sprintf("%s; drop function if exists %s cascade; drop type if exists %s.%s", dropAlso(schema, name),
		strings.Join(functions, ", "), pg.Rules.In(schema), pq.QuoteIdentifier(triggerName(schema, name, rowType)))
}

// rowFunction is in the name of the function that says what a row means. safeFunction is in that of the one which never
// fails, and movesFunction in that of the one which says whether an update of since may move a check. rowType is in
// that of the type of what the rule reads of a row.
const (
	rowFunction   = "row"
	safeFunction  = "safe"
	movesFunction = "moves"
	rowType       = "type"
)

// protect returns the statements after which no other role may call a function, or use it for a trigger of
// its own, and any operator may replace it. The trigger of a partitioned table is copied to each partition,
// by the role that creates the partition: it needs the right to execute the function. Without one to use
// the schema, it can do nothing else with it.
func (u understood) protect(schema pgsql.Schema, function string, copied bool) (text string) {
	if copied {
		text = fmt.Sprintf("\ngrant execute on function %s to public;", function)
	} else {
		text = fmt.Sprintf("\nrevoke all on function %s from public;", function)
	}
	if u.table.Roles {
		text += fmt.Sprintf("\nalter function %s owner to %s;", function, pg.Rules.In(schema))
	}
	return text
}

// settings returns the statements that come first, once for all rules. In the rest of the transaction, the
// server reads the texts of rules as they are meant. They also create the schema of the functions if it is
// missing, and refuse one that belongs to another role. Two sessions may create it at once.
func (u understood) settings(schema pgsql.Schema) string {
	functions, owners := pg.Rules.In(schema), "r.rolsuper or r.rolname = current_user"
	if u.table.Roles {
		owners = "r.rolname = n.nspname"
	}
	return rulesession.Understand + fmt.Sprintf(`;
set local search_path = pg_catalog, pg_temp;

do $$
begin
    if to_regnamespace('%s') is null then
        create schema %[1]s;
    end if;
exception
    when duplicate_schema or unique_violation then
        null;
end
$$;
do $$
begin
    if not exists (
        select
        from pg_namespace n
        join pg_roles r on r.oid = n.nspowner
        where n.nspname = '%[1]s' and (%[2]s)
    ) then
        raise exception 'schema %[1]s belongs to another role, which could change what the triggers run'
            using errcode = 'object_not_in_prerequisite_state',
                hint = 'Let its owner or a superuser drop it, or make roles with prescient migrate roles.';
    end if;
end
$$;

`, functions, owners)
}

// clock is the instant of a test in virtual time, or null. Only members of the role that owns the
// function may set it: any other session could let rows wait in slots of the past. To read the setting costs less than
// to look for the members, so it comes first.
const clock = `case
        when coalesce(current_setting('prescient_caller.clock', true), '') = '' then null
        when pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user), current_user, 'member')
        then current_setting('prescient_caller.clock')::timestamptz
    end`

// body matches the body of a function.
var body = regexp.MustCompile(`(?s)\nas \$\w+\$(.*)\$\w+\$;$`)

// filler returns the function that fills in a template. version is that of the function of a row.
func (u understood) filler(schema pgsql.Schema, t *rule.Timing) func(text pg.Statement, version string) string {
	var columns, steps, resume []string
	for _, column := range u.Reads {
		columns = append(columns, fmt.Sprintf("(prescient_row).%s as %[1]s", column))
	}
	coming := u.coming(t, "prescient_since.prescient_at")
	for i := range u.Rule.Steps {
		coming[i] += fmt.Sprintf(" as prescient_s%d", i+1)
		steps = append(steps, fmt.Sprintf("prescient_coming.prescient_s%d", i+1))
		at := fmt.Sprintf("coming[%d]", i+1)
		if !t.Exact(i) || u.Facts.SinceLookup() || len(u.Facts.Pause) > 0 { // the check finds the exact instant
			at = "greatest(" + at + ", now + interval '1 microsecond')"
		}
		resume = append(resume, at)
	}
	ends, begins := "null::timestamptz", "least("+strings.Join(steps, ", ")+")"
	recovers, meets := u.Rule.Recovered != (rule.Act{}), u.Rule.Met != (rule.Act{})
	if recovers || meets {
		ends = u.Facts.RowDoneAtSQL()
	}
	if meets { // the check looks at the row when it is done
		begins = fmt.Sprintf("case when %s is not null then least(%[1]s, %s) end", begins, ends)
		resume = append(resume, "new_ends")
	}
	every, changes, forget, pausedKeys := "null::text[]", "false", "", "null::text[]"
	first, newFirst := "r.first", "new_first"
	if columns := u.Facts.Changed; len(columns) > 0 {
		every, changes = "array_agg(r.key)", differ("old_row", "new_row", columns)
	}
	if len(u.Facts.Pause) > 0 {
		pausedKeys = "array_agg(r.key) filter (where r.paused)"
		// A check notes since when the row is paused, and looks at it once a day from then on.
		first = "case when r.paused then least(r.first, here.now) else r.first end"
		newFirst = "case when new_paused then least(new_first, now) else new_first end"
		resume = append(resume, "case when new_paused then now + interval '1 microsecond' end")
	}
	if u.Facts.Noted() {
		forget = "\n" + pg.NewStatement("    perform prescient.rule_mark({name}, %s, null);").In(schema)
		forget = strings.ReplaceAll(forget, "{name}", pq.QuoteLiteral(u.Rule.Name))
	}
	version := func(columns []string) string {
		if len(columns) == 0 {
			return "null::text"
		}
		return fmt.Sprintf("row(%s)::text", strings.Join(columns, ", "))
	}
	now := pq.QuoteIdentifier(triggerName(schema, u.Rule.Name, rowFunction)) + ".prescient_now" // no column of the table
	values := []string{
		"{rule}", strings.Join(strings.Fields(u.Rule.Name), " "),
		"{name}", pq.QuoteLiteral(u.Rule.Name), "{entity}", pq.QuoteLiteral(u.Rule.Entity),
		"{relation}", u.Relation, "{literal}", pq.QuoteLiteral(u.Relation), "{columns}", strings.Join(columns, ", "),
		"{alias}", u.Name(),
		"{since}", u.Facts.RowSinceSQL(),
		"{about}", u.Facts.RowWhereSQL(), "{done}", u.Facts.RowDoneSQL(now), "{asks}", version(u.Asks),
		"{looks}", version(u.Looks), "{enters}", version(u.Enters), "{ends}", ends,
		"{clock}", clock, "{coming}", strings.Join(coming, ", "), "{steps}", strings.Join(steps, ", "),
		"{resume}", strings.Join(resume, ", "),
		"{every}", every, "{paused}", u.Facts.PausedSQL(), "{paused_keys}", pausedKeys,
		"{first}", first, "{new_first}", newFirst,
		"{marks}", fmt.Sprint(len(u.Facts.Changed) > 0), "{changed}", changes,
		"{forget_many}", strings.ReplaceAll(forget, "%s", "keys"),
		"{forget_one}", strings.ReplaceAll(forget, "%s", "array[key]"),
		"{starts}", fmt.Sprint(u.Facts.SinceLookup()),
		"{begins}", begins, "{recovers}", fmt.Sprint(recovers), "{meets}", fmt.Sprint(meets),
		"{at_once}", fmt.Sprint(u.Rule.AtOnce),
		"{since_first}", expr.FirstSince, "{since_last}", expr.LastSince, "{clocked}", u.clock(),
		"{first_delay}", fmt.Sprintf(`'%d seconds'::pg_catalog."interval"`, t.EarliestFrom(0)/time.Second),
	}
	values = slices.Concat(values, u.rows(schema), u.keyed())
	for _, name := range append([]string{rowFunction, safeFunction, movesFunction}, events...) {
		values = append(values, "{"+name+"}", u.function(schema, name))
	}
	var functions []string
	for _, name := range events {
		functions = append(functions, fmt.Sprintf("to_regprocedure('%s()')", u.function(schema, name)))
	}
	// A trigger of the rule, and not its copy for a partition.
	values = append(values, "{own_trigger}", "tgfoid in ("+strings.Join(functions, ", ")+") and tgparentid = 0")
	owner, caller := pg.Rules.In(schema), "null"
	if u.table.Roles {
		caller = pq.QuoteLiteral(owner)
	}
	tag := "$prescient$"
	for n := 1; strings.Contains(strings.Join(values, ""), tag); n++ {
		tag = fmt.Sprintf("$prescient%d$", n)
	}
	values = append(values, "{quote}", tag, "{owner}", owner, "{caller}", caller, "{settings}", rulesession.Function,
		"{trigger_settings}", rulesession.Trigger(u.plain))
	return func(text pg.Statement, version string) string {
		// The texts of the rule come last: they may name the default schema.
		return strings.NewReplacer(append(slices.Clip(values), "{version}", version)...).Replace(text.In(schema))
	}
}

// coming returns the SQL of what the row alone says of when each step is due, from the SQL of RowSinceSQL.
func (u understood) coming(t *rule.Timing, since string) (list []string) {
	for i, step := range u.Rule.Steps {
		switch {
		case step.Interval == "":
			list = append(list, since+" + "+seconds(t.Earliest(i)))
		case step.After == rule.Delay{}:
			list = append(list, u.Facts.RowDueSQL(i, since, ""))
		default:
			list = append(list, u.Facts.RowDueSQL(i, since, seconds(t.Earliest(i))))
		}
	}
	return list
}

// anyRow is the type of a row as a trigger has it, as SQL. In a partition, a row has the type of the partition.
func (u understood) anyRow() string {
	if u.table.partitioned() {
		return "anyelement"
	}
	return u.Relation
}

// keyed returns the values of a template that are about the key.
func (u understood) keyed() []string {
	var names []string
	part := "format('%s', ($1).column)"
	if len(u.Key) > 1 {
		part = rule.EscapedPart(part)
	}
	for i, number := range u.numbers {
		of := slices.IndexFunc(u.table.columns, func(c column) bool { return c.Number == number })
		names = append(names, fmt.Sprintf("(%d, %s, %d)", i+1, pq.QuoteLiteral(u.table.columns[of].Name),
			slices.Index(u.Reads, u.Key[i])+1))
	}
	part = strings.Replace(strings.ReplaceAll(part, "%", "%%"), "column", "%I", 1)
	return []string{
		"{key}", u.KeyText(u.Name()), "{key_columns}", u.Key.String(), "{key_names}", strings.Join(names, ", "),
		"{key_part}", pq.QuoteLiteral(part), "{known_key}", u.KeyText("known"),
		"{old_key}", u.KeyText("old"), "{old_key_alike}", alike("old", "known", u.Key),
		"{deleted_key}", u.KeyText("prescient_row"), "{key_alike}", alike("prescient_row", "known", u.Key),
	}
}

// alike returns the condition that columns of two rows have the same types.
func alike(row, other string, columns []string) string {
	list := make([]string, len(columns))
	for i, column := range columns {
		list[i] = fmt.Sprintf("pg_typeof(%s.%s) = pg_typeof(%s.%[2]s)", row, column, other)
	}
	return strings.Join(list, " and ")
}

// rows returns the values of a template that say how a trigger hands on what the rule reads of a row: by the names of
// the columns, whose types the trigger compares first, and a setting of the session.
func (u understood) rows(schema pgsql.Schema) []string {
	var declared, numbers []string
	for _, c := range u.table.columns {
		if name := pq.QuoteIdentifier(c.Name); slices.Contains(u.Reads, name) {
			declared = append(declared, name+" "+c.Declared)
			numbers = append(numbers, fmt.Sprint(c.Number))
		}
	}
	columns := func(row string) string { return row + "." + strings.Join(u.Reads, ", "+row+".") }
	types := func(row string) string { return alike(row, "new_row", u.Reads) }
	understandable := func(row string) string { return rulesession.UsualAbbreviations + " and " + types(row) }
	kind, own := u.function(schema, rowType), ""
	if u.table.Roles {
		own = fmt.Sprintf("\nalter type %s owner to %s;", kind, pg.Rules.In(schema))
	}
	return []string{
		"{type}", kind, "{own_type}", own, "{declared}", strings.Join(declared, ", "), "{any_row}", u.anyRow(),
		"{numbers}", "{" + strings.Join(numbers, ",") + "}",
		"{old_columns}", columns("old"), "{new_columns}", columns("new"), "{inserted_columns}", columns("prescient_row"),
		"{reads}", strings.Join(u.Reads, ", "),
		"{new_types}", types("new"), "{usual}", rulesession.UsualAbbreviations,
		"{new_alike}", understandable("new"), "{inserted_alike}", understandable("prescient_row"),
		"{same}", u.same("old_row", "new_row"),
	}
}

// seconds writes a duration as SQL, in seconds, since a day of an interval may have 23 hours.
func seconds(d time.Duration) string {
	return fmt.Sprintf("interval '%d seconds'", d/time.Second)
}

// changed returns the condition that a column that the rule reads has changed. It compares the bytes of values. So it
// means the same with any settings of the session, for a value that equals another, and for a type without =.
//
// If since is a column, a small function leaves out an update that only moves it later before a step is due. That costs
// 8 microseconds. The function of the trigger would find out too, for 40. The server reads the text of the condition
// for each statement, so the same in the condition would cost 24.
func (u understood) changed(schema pgsql.Schema) string {
	column := u.clock()
	if column == "" {
		return differ("old", "new", u.Reads)
	}
	return fmt.Sprintf("%[1]s or old.%[2]s is distinct from new.%[2]s and %[3]s(old.%[2]s, new.%[2]s)",
		differ("old", "new", u.others), column, u.function(schema, movesFunction))
}

// clock returns the column of timestamps that alone says when a row is due, with constant delays. Only since reads it.
// Returns "" if the rule has no such column.
func (u understood) clock() string {
	if u.Facts.Lookup() || len(u.Facts.Since) != 1 {
		return ""
	}
	since := u.Facts.Since[0]
	name, err := rule.ParseName(since.SQL)
	if err != nil || len(name) > 2 || since.Type != expr.Instant || len(u.Facts.After) > 0 {
		return ""
	}
	column := pq.QuoteIdentifier(name[len(name)-1]) // behind that of the table
	if !slices.Contains(u.Reads, column) || slices.Contains(u.others, column) {
		return ""
	}
	return column
}

// same returns the condition that no column has changed except those that only since reads. It is false if the rule
// looks something up: the check of such a row may have ended before a step was due.
func (u understood) same(old, new string) string {
	if u.Facts.Lookup() {
		return "false"
	}
	return "not " + differ(old, new, u.others)
}

// differ returns the condition that two versions of a row differ in a column.
func differ(old, new string, columns []string) string {
	version := func(which string) string {
		return "row(" + which + "." + strings.Join(columns, ", "+which+".") + ")"
	}
	return fmt.Sprintf("pg_catalog.record_image_ne(%s, %s)", version(old), version(new))
}

// triggerNames returns the names of the triggers of a rule.
func triggerNames(schema pgsql.Schema, a rule.Applied) (names []string) {
	for _, event := range events {
		if event != truncate || a.Facts.Noted() {
			names = append(names, triggerName(schema, a.Rule.Name, event))
		}
	}
	return names
}

var unsafe = regexp.MustCompile(`[^a-z0-9_]+`)

// maxTriggerName is the longest name in PostgreSQL, in bytes.
const maxTriggerName = 63

// triggerName returns the name of a trigger and its function. A name that is not that of the rule,
// or that another schema could have too, gets a hash of both.
func triggerName(schema pgsql.Schema, rule, event string) string {
	safe := unsafe.ReplaceAllString(strings.ToLower(rule), "_")
	name := fmt.Sprintf("prescient_%s_%s", safe, event)
	if safe == rule && len(name) <= maxTriggerName && schema.String() == string(pgsql.DefaultSchema) {
		return name
	}
	sum := sha256.Sum256([]byte(schema.String() + " " + rule))
	hash := hex.EncodeToString(sum[:4])
	room := maxTriggerName - len("prescient___") - len(hash) - len(event)
	return fmt.Sprintf("prescient_%s_%s_%s", safe[:min(room, len(safe))], hash, event)
}
