package sql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
)

// versionTableName is the table that records which migrations were applied.
const versionTableName = "schema_migration"

// Objects lists the tables by name, without the monthly partitions of future_job_history, the domains and composite
// types, and the functions and procedures with the types of their parameters, such as "slot_ceil(timestamptz)". An
// application may have objects of its own in the schema, also functions of the same names.
func Objects(_ reserved.Caller) (tableNames, typeNames, routineHeads []string) {
	o := objects()
	return slices.Clone(o.tables), slices.Clone(o.types), slices.Clone(o.routines)
}

// objects searches all files once: a search takes 6 ms of CPU time, and doctor needs the names several times.
var objects = sync.OnceValue(func() (o struct{ tables, types, routines []string }) {
	o.tables = append(declared(`create table prescient\.(\w+)`, migrations()), versionTableName)
	o.types = declared(`create (?:domain|type) prescient\.(\w+)`, migrations())
	o.routines = declaredRoutines()
	return o
})

// declared lists the names that a pattern finds in files.
func declared(pattern string, files []source) []string {
	var names []string
	for _, f := range files {
		for _, match := range regexp.MustCompile(`(?m)^`+pattern).FindAllStringSubmatch(f.text, -1) {
			names = append(names, match[1])
		}
	}
	return names
}

var routineHead = regexp.MustCompile(
	`(?ms)^create or replace (?:function|procedure) prescient\.(\w+)\((.*?)\)\n(?:returns|language)`,
)

func declaredRoutines() []string {
	var all []string
	for _, f := range functions() {
		for _, head := range routineHead.FindAllStringSubmatch(f.text, -1) {
			all = append(all, head[1]+"("+strings.Join(parameterTypes(head[2]), ", ")+")")
		}
	}
	return all
}

var (
	outParameter = regexp.MustCompile(`^out\s`)
	defaultValue = regexp.MustCompile(`\sdefault\s.*$`)
)

// parameterTypes returns the types in a list of parameters, such as "at timestamptz, job text
// default null". No default value in our functions contains a comma.
func parameterTypes(parameters string) []string {
	var all []string
	for parameter := range strings.SplitSeq(parameters, ",") {
		parameter = strings.TrimSpace(parameter)
		if parameter == "" || outParameter.MatchString(parameter) {
			continue
		}
		_, kind, _ := strings.Cut(defaultValue.ReplaceAllString(parameter, ""), " ")
		all = append(all, strings.TrimSpace(kind))
	}
	return all
}

// dropScript drops everything of prescient in a schema, and the schema if nothing else is in it. It
// fails if an application's object depends on an object of prescient, other than the triggers of rules.
func dropScript(schema Schema) string {
	var script strings.Builder
	drop := func(kind string, names []string) {
		var qualified []string
		for _, name := range names {
			qualified = append(qualified, schema.qualify("prescient."+name))
		}
		fmt.Fprintf(&script, "drop %s if exists %s;\n", kind, strings.Join(qualified, ", "))
	}
	// The triggers of rules go with their functions. Their tables belong to applications, whose sessions must
	// not wait long behind these locks.
	fmt.Fprintf(&script, "%s;\ndrop schema if exists %s cascade;\n", waitBriefly, pg.Rules.In(schema))
	tables, types, routines := Objects(reserved.Caller{})
	drop("routine", routines)
	drop("table", tables)
	drop("type", types)
	if schema != "public" {
		fmt.Fprintf(&script, `do $$
begin
    drop schema if exists %s;
exception
    when dependent_objects_still_exist or insufficient_privilege then
        null; -- it has something of an application, or belongs to another role
end
$$;
`, pq.QuoteIdentifier(schema.String()))
	}
	return script.String()
}
