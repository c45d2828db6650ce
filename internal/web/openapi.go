package web

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Object is an object of an OpenAPI document.
type Object = map[string]any

// Route is an operation of an API. The API and its OpenAPI document are made from the same routes.
type Route struct {
	Method, Path             string
	ID, Summary, Description string
	Query, Headers           []string // the names of its parameters
	Body                     any      // of this type; nil: none
	Media                    []string // of the body. Defaults to application/json
	Replies                  []Reply  // but for problems
	Handle                   Handler
}

// Reply is an answer of a route that is no problem.
type Reply struct {
	Status  int
	Says    string
	Of      []any    // of one of these types; none: without a body
	Media   string   // Defaults to application/json
	Headers []string // the names
}

// OK is the reply of a route that answers with a value of one type.
func OK(says string, of any) []Reply {
	return []Reply{{Status: http.StatusOK, Says: says, Of: []any{of}}}
}

// ProblemReply is an answer that says what is wrong.
type ProblemReply struct {
	Status int
	Says   string
	Given  func(r Route) bool // reports whether a route may give it
}

// Refusal returns a ProblemReply.
func Refusal(status int, says string, given func(r Route) bool) ProblemReply {
	return ProblemReply{status, says, given}
}

// ByPath returns the handlers of each path, by method.
func ByPath(routes []Route) map[string]map[string]Handler {
	paths := map[string]map[string]Handler{}
	for _, r := range routes {
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]Handler{}
		}
		paths[r.Path][r.Method] = r.Handle
	}
	return paths
}

// OpenAPI describes an API, beside its routes.
type OpenAPI struct {
	Title, Description string
	Server             string   // the beginning of the paths
	Security           []Object // which of the schemes a request must have; {}: none is needed, either
	// Parameters are the schemas of parameters, by name. Required names those that a request must have.
	Parameters map[string]Object
	Required   []string
	Headers    map[string]Object // of answers, by name
	Problems   []ProblemReply
	// Enums are the values of texts that have few, by type.
	Enums map[reflect.Type]any
	// Names are the names of schemas, by type. Others are called as the type, after its package
	// unless that is one of Own.
	Names map[reflect.Type]string
	Own   []string
	// Comments are the comments of types, and of their fields, which the compiler drops: board.Slot, and
	// board.Slot.Took. A test writes them.
	Comments map[string]string
}

// Document returns the OpenAPI document of the routes, and the comments that it has used.
//
// Each field of an answer is required unless its JSON may leave it out. A field of a body is required if
// the struct tag "required" names it, at the field or at the embedded struct. With the tag "nullable", all
// fields of an embedded struct may be null.
func (o OpenAPI) Document(routes []Route) (document Object, used map[string]string) {
	s := &schemas{OpenAPI: o, all: Object{}, used: map[string]string{}}
	paths := map[string]Object{}
	for _, r := range routes {
		if paths[r.Path] == nil {
			paths[r.Path] = Object{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = s.operation(r)
	}
	responses := Object{}
	for _, p := range o.Problems {
		responses[strconv.Itoa(p.Status)] = content(p.Says, ProblemJSON, s.of(reflect.TypeFor[Problem](), false))
	}
	return Object{
		"openapi":  "3.1.0",
		"info":     Object{"title": o.Title, "version": "1", "description": o.Description},
		"servers":  []Object{{"url": o.Server}},
		"security": o.Security,
		"paths":    paths,
		"components": Object{
			"schemas":         s.all,
			"responses":       responses,
			"securitySchemes": Object{"token": Object{"type": "http", "scheme": "bearer"}},
		},
	}, s.used
}

// schemas collects the schemas of types.
type schemas struct {
	OpenAPI
	all  Object
	used map[string]string // comments
}

// inPath matches the parameters of a path.
var inPath = regexp.MustCompile(`\{(\w+)\}`)

func (s *schemas) operation(r Route) Object {
	o := Object{"operationId": r.ID, "summary": r.Summary}
	if r.Description != "" {
		o["description"] = r.Description
	}
	var list []Object
	for _, name := range inPath.FindAllStringSubmatch(r.Path, -1) {
		list = append(list, Object{"name": name[1], "in": "path", "required": true, "schema": Object{"type": "string"}})
	}
	for i, name := range slices.Concat(r.Query, r.Headers) {
		p := Object{"name": name, "in": "query", "schema": s.Parameters[name]}
		if i >= len(r.Query) {
			p["in"] = "header"
		}
		if slices.Contains(s.Required, name) {
			p["required"] = true
		}
		list = append(list, p)
	}
	if list != nil {
		o["parameters"] = list
	}
	if r.Body != nil {
		media, schema := Object{}, s.of(reflect.TypeOf(r.Body), true)
		for _, name := range append([]string{"application/json"}, r.Media...) {
			media[name] = Object{"schema": schema}
		}
		o["requestBody"] = Object{"required": true, "content": media}
	}
	o["responses"] = s.replies(r)
	return o
}

// replies returns the answers that a route may give, by status.
func (s *schemas) replies(r Route) Object {
	all := Object{}
	for _, p := range s.Problems {
		if status := strconv.Itoa(p.Status); p.Given(r) {
			all[status] = Object{"$ref": "#/components/responses/" + status}
		}
	}
	for _, reply := range r.Replies {
		answer := Object{"description": reply.Says}
		if len(reply.Of) > 0 {
			answer = content(reply.Says, reply.Media, s.oneOf(reply.Of))
		}
		if len(reply.Headers) > 0 {
			headers := Object{}
			for _, name := range reply.Headers {
				headers[name] = s.Headers[name]
			}
			answer["headers"] = headers
		}
		all[strconv.Itoa(reply.Status)] = answer
	}
	return all
}

func (s *schemas) oneOf(types []any) Object {
	if len(types) == 1 {
		return s.of(reflect.TypeOf(types[0]), false)
	}
	var list []Object
	for _, v := range types {
		list = append(list, s.of(reflect.TypeOf(v), false))
	}
	return Object{"oneOf": list}
}

func content(says, media string, schema Object) Object {
	if media == "" {
		media = "application/json"
	}
	return Object{"description": says, "content": Object{media: Object{"schema": schema}}}
}

// of returns the schema of a type in a body or in an answer.
func (s *schemas) of(t reflect.Type, body bool) Object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return Object{
			"type":                 []string{"object", "array", "string", "number", "boolean", "null"},
			"additionalProperties": true,
		}
	case t.Kind() == reflect.Pointer:
		return orNull(s.of(t.Elem(), body))
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return Object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Slice:
		return Object{"type": "array", "items": s.of(t.Elem(), body)}
	case reflect.Map:
		return Object{"type": "object"}
	case reflect.Struct:
		return s.structure(t, body)
	case reflect.String:
		o := Object{"type": "string"}
		if values, few := s.Enums[t]; few {
			o["enum"] = values
		}
		return o
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return Object{"type": "integer", "format": "int64"}
	}
	panic(fmt.Sprintf("no schema for %v", t)) // a test makes the document
}

// orNull returns the schema of a value that may also be null.
func orNull(schema Object) Object { return Object{"anyOf": []Object{schema, {"type": "null"}}} }

// structure returns a reference to the schema of a struct.
func (s *schemas) structure(t reflect.Type, body bool) Object {
	name := s.name(t)
	ref := Object{"$ref": "#/components/schemas/" + name}
	if s.all[name] != nil {
		return ref
	}
	o := Object{"type": "object", "additionalProperties": false}
	s.all[name] = o
	if says := s.comment(t.String()); says != "" {
		if other := s.Names[t]; other != "" {
			says = other + strings.TrimPrefix(says, upperFirst(t.Name()))
		}
		o["description"] = says
	}
	properties, required := Object{}, map[string]bool{}
	s.fields(t, body, properties, required)
	o["properties"] = properties
	if len(required) > 0 {
		o["required"] = slices.Sorted(maps.Keys(required))
	}
	return ref
}

// name returns the name of the schema of a struct.
func (s *schemas) name(t reflect.Type) string {
	if name := s.Names[t]; name != "" {
		return name
	}
	if pkg := path.Base(t.PkgPath()); pkg != "web" && !slices.Contains(s.Own, pkg) {
		return upperFirst(pkg) + upperFirst(t.Name())
	}
	return upperFirst(t.Name())
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// fields adds the fields of a struct, and of those that it embeds.
func (s *schemas) fields(t reflect.Type, body bool, properties Object, required map[string]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, needed := range strings.Fields(f.Tag.Get("required")) {
			required[needed] = true
		}
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && f.Anonymous:
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			s.fields(inner, body, properties, required)
			if _, nullable := f.Tag.Lookup("nullable"); nullable {
				for name, schema := range properties {
					properties[name] = orNull(schema.(Object))
				}
			}
			continue
		}
		schema := s.of(f.Type, body)
		if options == "string" {
			schema = Object{"type": "string"}
		}
		if says := s.comment(t.String() + "." + f.Name); says != "" && schema["$ref"] == nil {
			schema["description"] = says
		}
		properties[name] = schema
		if !body && !strings.Contains(options, "omit") {
			required[name] = true
		}
	}
}

// comment returns the comment of a type, or of a field.
func (s *schemas) comment(name string) string {
	says := s.Comments[name]
	if says != "" {
		s.used[name] = says
	}
	return says
}

// ParseComments returns the comments of a file for OpenAPI.Comments.
func ParseComments(text []byte) (all map[string]string) {
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err) // it is part of the binary
	}
	return all
}

// Describe returns the route of the document of an API.
func Describe(document func() Object) Route {
	return Route{
		Method: http.MethodGet, Path: "/openapi.json", ID: "describe", Summary: "This document",
		Replies: OK("This document.", map[string]any{}),
		Handle:  func(http.ResponseWriter, *http.Request) (any, error) { return document(), nil },
	}
}
