package cmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/internal/web/webtest"
)

// common describe the fields that mean the same everywhere, if the type has no comment for them.
var common = map[string]string{
	"anonymous":   "the check has no key",
	"changed":     "false: it was so before",
	"checked":     "rows that were checked",
	"dry_run":     "nothing was changed",
	"entity_key":  "the key of what is checked, such as 42",
	"entity_name": "the kind of what is checked, such as orders",
	"failed":      "rows whose check failed",
	"finished":    "rows that ended",
	"job_exec":    "the name of the job",
	"kind":        "what opened the slot: run, catch_up, or by_hand for jobs run",
	"late":        "checks that began later than the SLA",
	"name":        "its name",
	"outcome":     "done, cancelled, replaced, failed, max_checks, horizon, past, deadline or skipped",
	"rescheduled": "rows that moved to a later slot",
	"runner":      "the machine and the process of the runner",
	"schema":      "the schema of the tables",
	"slot":        "an instant on the grid of slots; UTC",
	"store":       "the name of the store",
	"width":       "of a slot",
}

// schemaOf returns the JSON Schema of what commands print, in which $defs has the schema of each command by its words,
// such as jobs-list.
func schemaOf(t *testing.T, all map[string][]value) []byte {
	t.Helper()
	dirs, names, fields := map[string]bool{}, map[reflect.Type]string{}, map[string]map[string]string{}
	for _, values := range all {
		for _, v := range values {
			structs(v.is, func(is reflect.Type) {
				_, dir, _ := strings.Cut(is.PkgPath(), module+"/")
				dirs["../"+dir], names[is], fields[is.String()] = true, schemaName(is), jsonNames(is)
			})
		}
	}
	s := web.Naming{
		Prefix: "#/$defs/", Names: names, Open: true, Common: common,
		Comments: forJSON(webtest.Comments(t, slices.Collect(maps.Keys(dirs))...), fields),
	}.Start()
	for name, values := range all {
		def := valueOf(s, values)
		s.All[strings.ReplaceAll(name, " ", "-")] = def
		for other, same := range elsewhere {
			if same == name {
				s.All[strings.ReplaceAll(other, " ", "-")] = def
			}
		}
	}
	s.All["stores"] = ofStores
	described(t, s.All)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(web.Object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "JSON of the commands of prescient",
		"description": "$defs has the schema of each command, such as jobs-list, and stores, which is what a command prints of several stores.",
		"$defs":       s.All,
	}); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// ofStores is the schema of what a command prints of several stores.
var ofStores = web.Object{
	"description": "what a command prints of several stores", "type": "object", "required": []string{"stores"},
	"properties": web.Object{"stores": web.Object{"type": "array", "items": web.Object{
		"type": "object", "required": []string{"store", "error"},
		"properties": web.Object{
			"store":  web.Object{"type": "string", "description": "its name"},
			"error":  web.Object{"type": []string{"string", "null"}, "description": "null: none"},
			"items":  web.Object{"type": []string{"array", "null"}, "description": "of a list: the items of this store; null if it has an error"},
			"result": web.Object{"description": "of any other command: what it prints of one store, or null"},
		},
	}}},
}

// valueOf returns the schema of the values that a command has printed. A list is an object with items.
func valueOf(s *web.Schemas, values []value) web.Object {
	var list []web.Object
	for _, v := range values {
		if v.ofStores() {
			continue
		}
		one := s.Of(v.is, false)
		if v.is.Kind() == reflect.Slice {
			one = web.Object{"type": "object", "required": []string{"items"}, "properties": web.Object{"items": one}}
		}
		if !slices.ContainsFunc(list, func(o web.Object) bool { return reflect.DeepEqual(o, one) }) {
			list = append(list, one)
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return web.Object{"anyOf": list}
}

// structs calls yield with each struct in a type.
func structs(is reflect.Type, yield func(is reflect.Type)) {
	switch {
	case is.Kind() == reflect.Slice || is.Kind() == reflect.Pointer:
		structs(is.Elem(), yield)
	case is.Kind() == reflect.Struct && strings.HasPrefix(is.PkgPath(), module):
		yield(is)
		for field := range is.Fields() {
			if field.Tag.Get("json") != "-" {
				structs(field.Type, yield)
			}
		}
	}
}

// schemaName returns the name of the schema of a struct, such as JobsPruned of jobscmd.prunedView.
func schemaName(is reflect.Type) string {
	upper := func(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
	name, pkg := upper(is.Name()), strings.TrimSuffix(path.Base(is.PkgPath()), "cmd")
	name = strings.TrimSuffix(name, "View")
	switch {
	case is == reflect.TypeFor[scheduleapi.View]():
		return "Schedule"
	case pkg == "view" || upper(pkg) == name:
		return name
	}
	return upper(pkg) + name
}

// jsonNames returns the names in JSON of the fields of a struct.
func jsonNames(is reflect.Type) map[string]string {
	names := map[string]string{}
	for _, field := range reflect.VisibleFields(is) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names[field.Name] = name
		}
	}
	return names
}

var (
	asJSON    = regexp.MustCompile(`^\w+ is (a )?[\w.]+ as (the )?JSON( of commands and of the API)?\.( |$)|,? as JSON\b|^\w+ reports on .*`)
	see       = regexp.MustCompile(` \(see [\w.]+\)|[;,] see [\w.]+`) // another Go name
	ofType    = regexp.MustCompile(`\b[A-Z]\w+\.([A-Z]\w+)`)
	goWord    = regexp.MustCompile(`\b[A-Z](?:[A-Z]*[a-z][A-Za-z0-9]*)?\b`) // not SLA
	goLink    = regexp.MustCompile(`\[([A-Z][A-Za-z.]*)\]`)
	nilOfJSON = strings.NewReplacer("nil", "null", "Nil", "Null")
)

// forJSON returns comments with the names that JSON has for fields and for nil.
func forJSON(comments map[string]string, fields map[string]map[string]string) map[string]string {
	for of, text := range comments {
		names := fields[of]
		if dot := strings.LastIndex(of, "."); names == nil {
			names = fields[of[:dot]]
		}
		text = see.ReplaceAllString(asJSON.ReplaceAllString(goLink.ReplaceAllString(text, "$1"), ""), "")
		text = ofType.ReplaceAllStringFunc(text, func(name string) string { return snake(path.Ext(name)[1:]) })
		first, rest, _ := strings.Cut(text, " ")
		if fields[of] == nil { // the comment of a type begins with its name
			first, rest = "", text
		}
		rest = goWord.ReplaceAllStringFunc(rest, func(word string) string { return cmp.Or(names[word], word) })
		comments[of] = nilOfJSON.Replace(strings.TrimSpace(first + " " + rest))
	}
	return comments
}

// snake returns a Go name as JSON has it: unless_ended_within of UnlessEndedWithin.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

// described fails the test for a field whose meaning no comment says, and for a list that may be missing: a program that
// goes through it would need a special case. A schedule is written as it is read, where exclude is optional.
func described(t *testing.T, all web.Object) {
	t.Helper()
	for name, def := range all {
		properties, _ := def.(web.Object)["properties"].(web.Object)
		required, _ := def.(web.Object)["required"].([]string)
		for field, of := range properties {
			text, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte(`"description"`)) && !bytes.Contains(text, []byte(`"$ref"`)) {
				t.Errorf("%s.%s: say what it is in the comment of its field", name, field)
			}
			if of.(web.Object)["type"] == "array" && field != "exclude" && !slices.Contains(required, field) {
				t.Errorf("%s.%s may be missing: print an empty list", name, field)
			}
		}
	}
}
