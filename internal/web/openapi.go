package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prescient-go/prescient/internal/seq"
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
	MaxBody                  int64    // of the body, in bytes. Defaults to the limit of the API
	Extends                  bool     // it extends its deadlines, because its body is long
	Names                    bool     // its body names what it is about
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

// ProblemOfRoute is a reply of a route that says what is wrong.
func ProblemOfRoute(status int, says string) Reply {
	return Reply{Status: status, Says: says, Of: []any{Problem{}}, Media: ProblemJSON}
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

// CommonProblems are the problems that any API has, and which routes may give each.
var CommonProblems = []ProblemReply{
	Refusal(http.StatusBadRequest, "The request cannot be read: a parameter, its JSON or an unknown field.", anyRoute),
	Refusal(http.StatusUnauthorized, "The token is missing or wrong.", anyRoute),
	Refusal(http.StatusForbidden, "The token may only read, or the database role of the server may not do it.", asks),
	Refusal(http.StatusNotFound, "There is no such thing.", func(r Route) bool {
		return strings.Contains(r.Path, "{") || r.Names
	}),
	Refusal(http.StatusRequestTimeout, "The body did not come in time.", hasBody),
	Refusal(http.StatusRequestEntityTooLarge, "The body is too large.", hasBody),
	Refusal(http.StatusUnsupportedMediaType, "The body is not application/json.", hasBody),
	Refusal(http.StatusUnprocessableEntity, "A field is wrong, and errors lists each with its rule; or it makes no sense.",
		func(r Route) bool { return asks(r) && !r.Extends }),
	Refusal(http.StatusInternalServerError, "Something went wrong; the log of the server has it.", asks),
	Refusal(http.StatusServiceUnavailable, "The database is not there, or is asked too much: try again.", asks),
}

func anyRoute(Route) bool  { return true }
func hasBody(r Route) bool { return r.Body != nil }

// asks reports whether a route asks the database.
func asks(r Route) bool { return r.ID != describeID }

// describeID is the ID of the route of Describe.
const describeID = "describe"

// OpenAPI describes an API, beside its routes.
type OpenAPI struct {
	Title, Description string
	Server             string   // the beginning of the paths
	Security           []Object // which of the schemes a request must have; {}: none is needed, either
	// Parameters are the schemas of parameters, by name. One of the name ID.name is only for the route of that ID.
	// Required names those that a request must have, as ID.name.
	Parameters map[string]Object
	Required   []string
	Headers    map[string]Object // of answers, by name
	Problems   []ProblemReply
	Naming
}

// Document returns the OpenAPI document of the routes, and the comments that it has used.
//
// Each field of an answer is required unless its JSON may leave it out. A field of a body is required if
// the struct tag "required" names it, at the field or at the embedded struct. With the tag "nullable", all
// fields of an embedded struct may be null.
func (o OpenAPI) Document(routes []Route) (made Object, used map[string]string) {
	o.Prefix = "#/components/schemas/"
	s := &document{o, o.Start()}
	paths := map[string]Object{}
	for _, r := range routes {
		if paths[r.Path] == nil {
			paths[r.Path] = Object{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = s.operation(r)
	}
	responses := Object{}
	for _, p := range o.Problems {
		responses[strconv.Itoa(p.Status)] = content(p.Says, ProblemJSON, s.Of(reflect.TypeFor[Problem](), false))
	}
	return Object{
		"openapi":  "3.1.0",
		"info":     Object{"title": o.Title, "version": "1", "description": o.Description},
		"servers":  []Object{{"url": o.Server}},
		"security": o.Security,
		"paths":    paths,
		"components": Object{
			"schemas":         s.All,
			"responses":       responses,
			"securitySchemes": Object{"token": Object{"type": "http", "scheme": "bearer"}},
		},
	}, s.Used
}

// document is an OpenAPI document that is made.
type document struct {
	OpenAPI
	*Schemas
}

// inPath matches the parameters of a path.
var inPath = regexp.MustCompile(`\{(\w+)\}`)

func (s *document) operation(r Route) Object {
	o := Object{"operationId": r.ID, "summary": r.Summary}
	if r.Description != "" {
		o["description"] = r.Description
	}
	var list []Object
	for _, name := range inPath.FindAllStringSubmatch(r.Path, -1) {
		list = append(list, Object{"name": name[1], "in": "path", "required": true, "schema": Object{"type": "string"}})
	}
	for i, name := range slices.Concat(r.Query, r.Headers) {
		schema, own := s.Parameters[r.ID+"."+name]
		if !own {
			schema = s.Parameters[name]
		}
		p := Object{"name": name, "in": "query", "schema": schema}
		if i >= len(r.Query) {
			p["in"] = "header"
		}
		if slices.Contains(s.Required, r.ID+"."+name) {
			p["required"] = true
		}
		list = append(list, p)
	}
	if list != nil {
		o["parameters"] = list
	}
	if r.Body != nil {
		media, schema := Object{}, s.Of(reflect.TypeOf(r.Body), true)
		for _, name := range append([]string{"application/json"}, r.Media...) {
			media[name] = Object{"schema": schema}
		}
		o["requestBody"] = Object{"required": true, "content": media}
	}
	o["responses"] = s.replies(r)
	return o
}

// replies returns the answers that a route may give, by status.
func (s *document) replies(r Route) Object {
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

func (s *document) oneOf(types []any) Object {
	if len(types) == 1 {
		return s.Of(reflect.TypeOf(types[0]), false)
	}
	return Object{"oneOf": seq.Map(types, func(v any) Object { return s.Of(reflect.TypeOf(v), false) })}
}

func content(says, media string, schema Object) Object {
	if media == "" {
		media = "application/json"
	}
	return Object{"description": says, "content": Object{media: Object{"schema": schema}}}
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
		Method: http.MethodGet, Path: "/openapi.json", ID: describeID, Summary: "This document",
		Replies: OK("This document.", map[string]any{}),
		Handle:  func(http.ResponseWriter, *http.Request) (any, error) { return document(), nil },
	}
}
