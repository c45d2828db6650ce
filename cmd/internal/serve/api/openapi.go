package api

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
)

//go:embed comments.json
var commentsFile []byte

// comments returns the comments of types, and of their fields, which the compiler drops. A test
// writes them.
var comments = sync.OnceValue(func() (all map[string]string) {
	if err := json.Unmarshal(commentsFile, &all); err != nil {
		panic(err)
	}
	return all
})

type object = map[string]any

// parameters describe those of queries.
var parameters = map[string]object{
	acted: {
		"type": "integer", "format": "int64", "minimum": 0,
		"description": "The acted of an action: what is answered is not from before it.",
	},
	"days":        {"type": "integer", "minimum": 1, "maximum": 31, "default": 30},
	"limit":       {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
	"job_exec":    {"type": "string"},
	"entity_name": {"type": "string"},
	"entity_key":  {"type": "string"},
	"item_key":    {"type": "string"},
	"outcome":     {"type": "string", "enum": jobs.Outcomes},
	"from":        {"type": "string", "format": "date-time", "description": "The first slot."},
	"to":          {"type": "string", "format": "date-time", "description": "The slot to stop before."},
	"until":       {"type": "string", "format": "date-time", "description": "Only what ended before."},
	"prefix":      {"type": "string", "description": "The beginning of the ids."},
	"state":       {"type": "string", "enum": []schedule.State{schedule.Active, schedule.Paused, schedule.Ended}},
	"after":       {"type": "string", "description": "What the page before gave as after."},
	"before":      {"type": "string", "description": "The position of the last event of the page before."},
	"preview": {
		"type": "string", "enum": []string{"true"},
		"description": "Do nothing, and say what would be done.",
	},
	"confirm": {"type": "string", "description": "The confirm of the plan that the preview has answered."},
}

// problems are the answers that say what is wrong, and which operations may give each.
var problems = []struct {
	status, says string
	given        func(r route) bool
}{
	{"400", "The request cannot be read.", func(r route) bool { return r.query != nil }},
	{"401", "The token is missing or wrong.", func(route) bool { return true }},
	{
		"403", "The token may only read, or the database role of the server may not do it.",
		func(route) bool { return true },
	},
	{"404", "There is no such thing.", func(r route) bool { return strings.Contains(r.path, "{") || r.body != nil }},
	{"408", "The body did not come in time.", func(r route) bool { return r.body != nil }},
	{"413", "The body is too large.", func(r route) bool { return r.body != nil }},
	{"415", "The body is not application/json.", func(r route) bool { return r.body != nil }},
	{"422", "It makes no sense, or a field is wrong.", func(r route) bool { return r.query != nil }},
	{"428", "Neither preview nor confirm was given.", func(r route) bool { return r.body != nil }},
	{"429", "Too many wrong tokens came from this address.", func(route) bool { return true }},
	{"500", "Something went wrong; the log of the server has it.", func(r route) bool { return r.query != nil }},
	{"503", "The database is not there, or is asked too much: try again.", func(r route) bool {
		return r.query != nil
	}},
}

// document returns the OpenAPI document of the routes. It describes their types by the comments of
// these.
func document() object { return (&schemas{all: object{}, comments: comments()}).document() }

func (s *schemas) document() object {
	paths := map[string]object{}
	for _, r := range slices.Concat(new(api).storeRoutes(), new(api).routes()) {
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = s.operation(r)
	}
	responses := object{}
	for _, p := range problems {
		responses[p.status] = content(p.says, web.ProblemJSON, s.of(reflect.TypeFor[web.Problem]()))
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "prescient serve", "version": "1",
			"description": "What prescient serve shows and does. Requests have the header Authorization: Bearer, and a token; " +
				"a server that listens on this machine alone and has no tokens lets everybody read. " +
				"An answer says when it was read from the database, as_of, and how long ago that was, age. " +
				"An action is asked for twice with the same body: with preview=true, and with the confirm of that answer. " +
				"Every error is a problem of RFC 9457, also of a path that is not here (404) " +
				"and of a method that a path does not have (405, with the header Allow).",
		},
		"servers": []object{{"url": Prefix}}, "security": []object{{"token": []string{}}, {}},
		"paths": paths,
		"components": object{
			"schemas":         s.all,
			"responses":       responses,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}
}

// schemas collects the schemas of types.
type schemas struct {
	all      object
	comments map[string]string
	used     map[string]string // the comments that were used; nil: they are not asked for
}

func (s *schemas) operation(r route) object {
	o := object{"operationId": r.id, "summary": r.summary}
	var list []object
	for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(r.path, -1) {
		list = append(list, object{"name": name[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, name := range r.query {
		list = append(list, object{"name": name, "in": "query", "schema": parameters[name]})
	}
	if list != nil {
		o["parameters"] = list
	}
	answers := object{"200": content("The answer.", "application/json", s.of(reflect.TypeOf(r.answer)))}
	if r.body != nil {
		body := object{"application/json": object{"schema": s.of(reflect.TypeOf(r.body))}}
		o["requestBody"] = object{"required": true, "content": body}
		answers["200"] = content("With preview the plan, with confirm what was done.", "application/json",
			object{"oneOf": []object{s.of(reflect.TypeFor[board.Plan]()), s.of(reflect.TypeFor[board.Done]())}})
		answers["202"] = content("It goes on; the actions tell how it ends.", "application/json",
			s.of(reflect.TypeFor[board.Done]()))
		answers["409"] = content("It would do something else by now, and nothing is done; "+
			"a catch-up goes on already; or another transaction holds a lock on what it changes.",
			web.ProblemJSON, s.of(reflect.TypeFor[changed]()))
	}
	for _, p := range problems {
		if p.given(r) {
			answers[p.status] = object{"$ref": "#/components/responses/" + p.status}
		}
	}
	o["responses"] = answers
	return o
}

func content(says, media string, schema object) object {
	return object{"description": says, "content": object{media: object{"schema": schema}}}
}

// enums are the values of texts that have few.
var enums = map[reflect.Type]any{
	reflect.TypeFor[slots.Mode]():   []slots.Mode{slots.ModeRun, slots.ModeDefer, slots.ModeExpire},
	reflect.TypeFor[jobs.Outcome](): jobs.Outcomes,
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[duration.Text](), reflect.TypeFor[outbox.Position]():
		return object{"type": "string"}
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": []string{"object", "array", "string", "number", "boolean", "null"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := s.of(t.Elem())
		return object{"anyOf": []object{inner, {"type": "null"}}}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object"}
	case reflect.Struct:
		return s.structure(t)
	case reflect.String:
		o := object{"type": "string"}
		if values, few := enums[t]; few {
			o["enum"] = values
		}
		return o
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	}
	panic(fmt.Sprintf("no schema for %v", t)) // a test makes the document
}

// structure returns the name of the schema of a struct.
func (s *schemas) structure(t reflect.Type) object {
	name := t.Name()
	if pkg := filepath.Base(t.PkgPath()); pkg != "board" && pkg != "web" && pkg != "api" {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if s.all[name] != nil {
		return ref
	}
	o := object{"type": "object", "additionalProperties": false}
	s.all[name] = o
	if says := s.comment(t.String()); says != "" {
		o["description"] = says
	}
	properties, required := object{}, []string{}
	s.fields(t, properties, &required)
	slices.Sort(required)
	// A request may leave out what it does not narrow.
	if _, request := reflect.Zero(t).Interface().(board.Action); !request {
		o["required"] = required
	}
	o["properties"] = properties
	return ref
}

// fields adds the fields of a struct, and of those that it embeds.
func (s *schemas) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && f.Anonymous:
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			s.fields(inner, properties, required)
			continue
		}
		schema := s.of(f.Type)
		if options == "string" {
			schema = object{"type": "string"}
		}
		if says := s.comment(t.String() + "." + f.Name); says != "" && schema["$ref"] == nil {
			schema["description"] = says
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") && !slices.Contains(*required, name) {
			*required = append(*required, name)
		}
	}
}

// comment returns the comment of a type, or of a field.
func (s *schemas) comment(name string) string {
	says := s.comments[name]
	if says != "" && s.used != nil {
		s.used[name] = says
	}
	return says
}
