package api

import (
	_ "embed"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

//go:embed comments.json
var commentsFile []byte

var comments = sync.OnceValue(func() map[string]string { return web.ParseComments(commentsFile) })

// parameters describe those of queries.
var parameters = merged(scheduleapi.Parameters, map[string]web.Object{
	acted: {
		"type": "integer", "format": "int64", "minimum": 0,
		"description": "The acted of an action: what is answered is not from before it.",
	},
	"days":        {"type": "integer", "minimum": 1, "maximum": 31, "default": 30},
	"job_exec":    {"type": "string"},
	"entity_name": {"type": "string"},
	"entity_key":  {"type": "string"},
	"item_key":    {"type": "string"},
	"outcome":     {"type": "string", "enum": jobs.Outcomes()},
	"from":        {"type": "string", "format": "date-time", "description": "The first slot."},
	"to":          {"type": "string", "format": "date-time", "description": "The slot to stop before."},
	"until":       {"type": "string", "format": "date-time", "description": "Only what ended before."},
	"search":      {"type": "string", "description": "A part of the name, in upper or lower case."},
	"preview": {
		"type": "string", "enum": []string{"true"},
		"description": "Do nothing, and say what would be done.",
	},
	"confirm": {"type": "string", "description": "The confirm of the plan that the preview has answered."},
})

// merged returns the entries of several maps.
func merged[K comparable, V any](all ...map[K]V) map[K]V {
	m := map[K]V{}
	for _, one := range all {
		maps.Copy(m, one)
	}
	return m
}

// problems are the answers that say what is wrong, and which operations may give each.
var problems = append(slices.Clone(web.CommonProblems),
	web.Refusal(http.StatusPreconditionRequired, "Neither preview nor confirm was given.",
		func(r web.Route) bool { return slices.Contains(r.Query, "confirm") }),
	web.Refusal(http.StatusTooManyRequests, "Too many wrong tokens came from this address.",
		func(web.Route) bool { return true }))

// document returns the OpenAPI document for a server whose paths begin with base, and the comments that
// it has used.
func document(base string, comments map[string]string) (web.Object, map[string]string) {
	return web.OpenAPI{
		Title: "prescient serve", Server: base + Prefix, Security: []web.Object{{"token": []string{}}, {}},
		Description: "What prescient serve shows and does. Requests have the header Authorization: Bearer, and a token; " +
			"a server that listens on this machine alone and has no server.read_token lets every user of the machine read. " +
			"An answer says when it was read from the database, as_of, and how long ago that was, age. " +
			"An action is asked for twice with the same body: with preview=true, and with the confirm of that answer. " +
			"Every error is a problem of RFC 9457, also of a path that is not here (404) " +
			"and of a method that a path does not have (405, with the header Allow).",
		Parameters: parameters, Required: scheduleapi.Required, Headers: scheduleapi.Headers, Problems: problems,
		Naming: web.Naming{
			Own: []string{"board", "api", "action"}, Comments: comments, Names: scheduleapi.Names,
			Enums: merged(scheduleapi.Enums, map[reflect.Type]any{
				reflect.TypeFor[slots.Mode]():   []slots.Mode{slots.ModeRun, slots.ModeDefer, slots.ModeExpire},
				reflect.TypeFor[jobs.Outcome](): jobs.Outcomes(),
			}),
		},
	}.Document(slices.Concat(new(api).storeRoutes(), new(api).routes()))
}
