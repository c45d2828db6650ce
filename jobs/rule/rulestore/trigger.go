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

	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

//go:embed templates/*.sql
var templates embed.FS

// template returns the text of a template, in which names in braces stand for what a rule says.
func template(name string) pgsql.Statement {
	text, err := templates.ReadFile("templates/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return pgsql.NewStatement(strings.TrimSpace(string(text)))
}

// events are those that have a trigger.
var events = []string{"insert", "update", "delete"}

// trigger is one of the triggers of a rule, with its function.
type trigger struct {
	// name names the trigger, and the function in the schema of the table. routine is that of the
	// function with the schema, as SQL.
	name, routine string
	// function is the statement that creates or replaces the function, and body its body.
	function, body string
	// revoke is the statement that lets no other role use the function for a trigger of its own.
	revoke string
	// owner owns the function. give is the statement that makes it the owner. Empty: the login owns it.
	owner, give string
	// there tells that the table has the trigger.
	there bool
	// create is the statement that creates or replaces the trigger. argument tells two versions of a
	// trigger apart.
	create, argument string
}

// triggersOf returns the triggers of a rule. An update has a trigger for each row, whose condition is
// tested where the row is written. An update of other columns costs the server 5 microseconds a
// statement more, and 10,000 rows in one statement 0.03 s instead of 0.02 s. A statement trigger that
// joins the two versions of each row costs as much for one row. For 10,000 it took 5.9 s, because it
// keeps the plan that was made for one. The trigger has no list of columns: an earlier trigger may
// change a column that the statement does not name.
//
// Inserts and deletes have a trigger for each statement, with one call for all rows. On a partitioned
// table it is one for each row, since a statement trigger misses what is written to a partition
// directly.
func triggersOf(schema pgsql.Schema, u understood, t *rule.Timing) []trigger {
	names := map[string]string{}
	for _, event := range events {
		names[event] = triggerName(schema, u.Rule.Name, event)
	}
	fill := u.filler(schema, t, names)
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
	all := []trigger{
		newTrigger(fill, "inserted_"+kind, "insert", names["insert"], u.Relation, rows("new", "prescient_inserted"), ""),
		newTrigger(fill, "updated", "update", names["update"], u.Relation, "for each row when ("+u.changed()+")",
			strings.Join(u.Reads, ", ")),
		newTrigger(fill, "deleted_"+kind, "delete", names["delete"], u.Relation, rows("old", "prescient_deleted"), ""),
	}
	if owner := u.table.FunctionOwner; owner != "" {
		for i := range all {
			all[i].owner, all[i].give = owner, fmt.Sprintf("alter function %s() owner to %s;", all[i].routine, owner)
		}
	}
	return all
}

// refuseSuperuser returns a statement that fails for a superuser, unless the owner of the table is one,
// too. It is for a schema without roles, where the role that creates the functions of triggers owns them.
func (u understood) refuseSuperuser() string {
	return fmt.Sprintf(`do $prescient$
begin
    if exists (
        select
        from pg_catalog.pg_class c
        join pg_catalog.pg_roles o on o.oid = c.relowner
        join pg_catalog.pg_roles l on l.rolname = current_user
        where c.oid = %s::regclass and l.rolsuper and not o.rolsuper
    ) then
        raise exception 'the owner of the table could use the rights of a superuser through these triggers'
            using hint = 'Make roles with prescient migrate roles and print the statements again, or use another login.';
    end if;
end
$prescient$;`, pq.QuoteLiteral(u.Relation))
}

func newTrigger(fill func(pgsql.Statement) string, file, event, name, relation, rest, argument string) trigger {
	t := trigger{name: name, argument: argument, function: fill(template(file))}
	t.body = body.FindStringSubmatch(t.function)[1]
	function := fill(pgsql.NewStatement("{" + event + "}"))
	call := ""
	if argument != "" {
		call = pq.QuoteLiteral(argument)
	}
	t.create = fmt.Sprintf("create or replace trigger %s after %s on %s\n%s\nexecute function %s(%s);",
		pq.QuoteIdentifier(name), event, relation, rest, function, call)
	t.routine = function
	t.revoke = fmt.Sprintf("revoke all on function %s() from public;", function)
	return t
}

// clock is the instant of a test in virtual time, or null. Only members of the role that owns the
// function may set it: any other session could let rows wait in slots of the past.
const clock = `case
        when pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user), current_user, 'member')
        then nullif(current_setting('prescient_caller.clock', true), '')::timestamptz
    end`

// body matches the body of a function.
var body = regexp.MustCompile(`(?s)\nas \$\w+\$(.*)\$\w+\$;$`)

// filler returns the function that fills in a template.
func (u understood) filler(schema pgsql.Schema, t *rule.Timing, names map[string]string) func(pgsql.Statement) string {
	var coming []string
	for i, step := range u.Rule.Steps {
		at := "new_since + " + seconds(t.Earliest(i))
		if step.After.Business() { // the check finds the exact instant
			at = "greatest(" + at + ", now)"
		}
		coming = append(coming, at)
	}
	values := []string{
		"{rule}", strings.Join(strings.Fields(u.Rule.Name), " "),
		"{name}", pq.QuoteLiteral(u.Rule.Name), "{entity}", pq.QuoteLiteral(u.Rule.Entity),
		"{key}", u.Key, "{since}", u.Since, "{about}", u.About, "{done}", "(" + u.Done + ")",
		"{first}", seconds(t.EarliestFrom(0)), "{clock}", clock, "{coming}", strings.Join(coming, ", "),
		"{at_once}", fmt.Sprint(u.Rule.AtOnce), "{since_first}", firstSince, "{since_last}", lastSince,
	}
	for event, name := range names {
		values = append(values, "{"+event+"}", u.Schema+"."+pq.QuoteIdentifier(name))
	}
	tag := "$prescient$"
	for n := 1; strings.Contains(strings.Join(values, ""), tag); n++ {
		tag = fmt.Sprintf("$prescient%d$", n)
	}
	replacer := strings.NewReplacer(append(values, "{quote}", tag)...)
	return func(template pgsql.Statement) string {
		// The texts of the rule come last: they may name the default schema.
		return replacer.Replace(template.In(schema))
	}
}

// seconds writes a duration as SQL, in seconds, since a day of an interval may have 23 hours.
func seconds(d time.Duration) string {
	return fmt.Sprintf("interval '%d seconds'", d/time.Second)
}

// changed returns the condition that a column that the rule reads has changed.
func (u understood) changed() string {
	var columns []string
	for _, c := range u.table.columns {
		name, cast := pq.QuoteIdentifier(c.Name), ""
		if !slices.Contains(u.Reads, name) {
			continue
		}
		if !c.Compares {
			cast = `::text collate "C"`
		}
		columns = append(columns, fmt.Sprintf("old.%s%s is distinct from new.%s%s", name, cast, name, cast))
	}
	return strings.Join(columns, " or ")
}

// triggerNames returns the names of the triggers of a rule.
func triggerNames(schema pgsql.Schema, rule string) (names []string) {
	for _, event := range events {
		names = append(names, triggerName(schema, rule, event))
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
