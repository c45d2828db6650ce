package httpapi

import (
	_ "embed"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// The parameters of queries.
var (
	listQuery    = []string{"prefix", "state", "after", "limit"}
	previewQuery = []string{"crontab", "timezone", "anchor", "from", "to", "limit"}
)

// changesPath is the path of bulk requests, whose bodies are large.
const changesPath = "/changes"

// routes are all operations. The OpenAPI document is made from them.
func (a *api) routes() []web.Route {
	const one = "/schedules/{id}"
	of := []string{"If-Match"}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/schedules", ID: "listSchedules", Handle: a.list,
			Summary: "A page of schedules, in the order of their ids, byte by byte",
			Query:   listQuery, Replies: web.OK("A page.", page{}),
		},
		{
			Method: http.MethodPost, Path: "/schedules", ID: "createSchedule", Handle: a.create,
			Summary: "Create a schedule", Body: newSchedule{},
			Replies: []web.Reply{{
				Status: http.StatusCreated, Says: "The schedule was created.", Of: []any{View{}},
				Headers: []string{"ETag", "Location"},
			}},
		},
		{
			Method: http.MethodGet, Path: one, ID: "getSchedule", Handle: a.get,
			Summary: "One schedule", Replies: versioned("The schedule."),
		},
		{
			Method: http.MethodPut, Path: one, ID: "replaceSchedule", Handle: a.update,
			Summary: "Replace a schedule. Without an anchor, the current one stays",
			Headers: of, Body: scheduleReplacement{}, Replies: versioned(afterChange),
		},
		{
			Method: http.MethodPatch, Path: one, ID: "patchSchedule", Handle: a.patch,
			Summary: "Change the given fields by RFC 7396: null sets a field to its default",
			Headers: of, Body: schedulePatch{}, Media: []string{mergePatch}, Replies: versioned(afterChange),
		},
		{
			Method: http.MethodDelete, Path: one, ID: "deleteSchedule", Handle: a.delete,
			Summary: "Delete a schedule", Headers: of,
			Replies: []web.Reply{{Status: http.StatusNoContent, Says: "The schedule was deleted."}},
		},
		{
			Method: http.MethodPost, Path: one + "/pause", ID: "pauseSchedule", Handle: a.change((*schedule.Store).Pause),
			Summary: "Stop the events of a schedule until it is resumed", Headers: of, Replies: versioned(afterChange),
		},
		{
			Method: http.MethodPost, Path: one + "/resume", ID: "resumeSchedule", Handle: a.change((*schedule.Store).Resume),
			Summary: "End a pause. The next instant is the first one after now", Headers: of, Replies: versioned(afterChange),
		},
		{
			Method: http.MethodPost, Path: changesPath, ID: "changeSchedules", Handle: a.changeMany,
			Summary: "Create, update and delete many schedules",
			Description: "The server makes changes while it reads, up to 1000 in one transaction, so the list may have up to " +
				"1 GiB. It has at most 10000 changes. The server makes these, and refuses a longer list with 413; send the " +
				"others in further requests. A wrong change fails alone, and the answer lists it. If the rest of the list " +
				"cannot be read, the problem says how many changes were made.",
			Body: bulkRequest{}, Replies: web.OK("Every change was made, or failed.", bulkResult{}),
		},
		{
			Method: http.MethodGet, Path: "/preview", ID: "previewCrontab", Handle: a.preview,
			Summary: "The instants of a crontab, from one instant up to and including another",
			Query:   previewQuery, Replies: web.OK("The instants.", preview{}),
		},
		web.Describe(func() web.Object {
			doc, _ := document(a.Base, comments())
			return doc
		}),
	}
}

// afterChange describes the answer to a change.
const afterChange = "The schedule after the change."

// versioned are the replies of a route that answers with a schedule.
func versioned(says string) []web.Reply {
	return []web.Reply{{Status: http.StatusOK, Says: says, Of: []any{View{}}, Headers: []string{"ETag"}}}
}

//go:embed comments.json
var commentsFile []byte

var comments = sync.OnceValue(func() map[string]string { return web.ParseComments(commentsFile) })

// document returns the OpenAPI document for a handler whose paths begin with base, and the comments that
// it has used.
func document(base string, comments map[string]string) (web.Object, map[string]string) {
	text, instant := web.Object{"type": "string"}, web.Object{"type": "string", "format": "date-time"}
	states := []schedule.State{schedule.Active, schedule.Paused, schedule.Ended}
	return web.OpenAPI{
		Title: "prescient schedules", Server: base + "/", Security: []web.Object{{"token": []string{}}},
		Description: "Recurring schedules: events at the instants of a crontab. Every request needs the header " +
			"Authorization: Bearer with a token. A token that may only read gets 403 for a change. " +
			"Every error is a problem of RFC 9457, also for an unknown path (404) and for a method that a path lacks " +
			"(405, with the header Allow).",
		Parameters: map[string]web.Object{
			"prefix": {"type": "string", "description": "The beginning of the ids."},
			"state":  {"type": "string", "enum": states},
			"after":  {"type": "string", "description": "The field after of the previous page."},
			"limit":  {"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit},
			"anchor": {
				"type": "string", "format": "date-time", "description": "The first instant of @every. Defaults to from.",
			},
			"crontab": text, "timezone": text, "from": instant, "to": instant,
			"If-Match": {
				"type": "string", "description": "The ETag of the version to change. Without it, or with *: any version.",
			},
		},
		Required: []string{"crontab", "from", "to"},
		Headers: map[string]web.Object{
			"ETag":     {"description": "The version, in quotes.", "required": true, "schema": text},
			"Location": {"description": "The path of the schedule.", "required": true, "schema": text},
		},
		Problems: problems,
		Naming: web.Naming{
			Own: []string{"httpapi"}, Comments: comments,
			Names: map[reflect.Type]string{
				reflect.TypeFor[View](): "Schedule", reflect.TypeFor[page](): "SchedulePage",
				reflect.TypeFor[bulkRequest](): "Changes", reflect.TypeFor[bulkChange](): "Change",
				reflect.TypeFor[bulkResult](): "ChangesResult", reflect.TypeFor[bulkFailure](): "ChangeError",
			},
			Enums: map[reflect.Type]any{
				reflect.TypeFor[schedule.State]():        states,
				reflect.TypeFor[schedule.Misfire]():      []schedule.Misfire{schedule.All, schedule.Latest, schedule.Skip},
				reflect.TypeFor[schedule.DeadlineFrom](): []schedule.DeadlineFrom{schedule.FromInstant, schedule.FromSlot},
				reflect.TypeFor[schedule.Action]():       []schedule.Action{schedule.Create, schedule.Update, schedule.Delete},
			},
		},
	}.Document(new(api).routes())
}

// problems are the answers that say what is wrong, and which operations may give each.
var problems = []web.ProblemReply{
	web.Refusal(http.StatusBadRequest, "The request cannot be read: its JSON, an unknown field, a parameter.",
		func(r web.Route) bool { return r.Query != nil || r.Body != nil }),
	web.Refusal(http.StatusUnauthorized, "The token is missing or wrong.", func(web.Route) bool { return true }),
	web.Refusal(http.StatusForbidden, "The token may only read.",
		func(r web.Route) bool { return r.Method != http.MethodGet }),
	web.Refusal(http.StatusNotFound, "There is no such schedule.",
		func(r web.Route) bool { return strings.Contains(r.Path, "{id}") }),
	web.Refusal(http.StatusRequestTimeout, "The body did not arrive in time.", hasBody),
	web.Refusal(http.StatusConflict, "There is a schedule with this id.",
		func(r web.Route) bool { return r.ID == "createSchedule" }),
	web.Refusal(http.StatusPreconditionFailed, "The schedule has another version.",
		func(r web.Route) bool { return r.Headers != nil }),
	web.Refusal(http.StatusRequestEntityTooLarge, "The body is too large.", hasBody),
	web.Refusal(http.StatusUnsupportedMediaType, "The body is not application/json.", hasBody),
	web.Refusal(http.StatusUnprocessableEntity, "A field is wrong; errors lists each with its rule.",
		func(r web.Route) bool { return isServed(r) && r.Path != changesPath }),
	web.Refusal(http.StatusInternalServerError, "Any other error; it is in the log of the server.", isServed),
	web.Refusal(http.StatusServiceUnavailable, "The database does not answer. Try again.", isServed),
}

func hasBody(r web.Route) bool { return r.Body != nil }

// isServed reports whether a route asks the database.
func isServed(r web.Route) bool { return r.ID != "describe" }
