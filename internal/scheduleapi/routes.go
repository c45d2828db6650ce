package scheduleapi

import (
	"cmp"
	_ "embed"
	"log/slog"
	"net/http"
	"reflect"
	"sync"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// Config configures the routes.
type Config struct {
	Store *schedule.Store
	// DB is the pool for the calls of the Store.
	DB jobs.DB
	// Base is the beginning of the paths as clients request them, for the header Location.
	Base string
	// MaxBody limits each change of POST /schedule-changes, in bytes. Defaults to the constant MaxBody.
	MaxBody int64
	// MaxBulk limits the body of POST /schedule-changes, in bytes. Defaults to 1 GiB.
	MaxBulk int64
	// Logger gets a line for each change of a schedule. Defaults to slog.Default().
	Logger *slog.Logger
}

const (
	// MaxBody limits the body of a request, in bytes.
	MaxBody        = 1 << 20
	defaultMaxBulk = 1 << 30

	defaultLimit, maxLimit       = 50, 200
	defaultInstants, maxInstants = 100, 1000
)

type api struct{ Config }

// The parameters of queries.
var (
	listQuery    = []string{"prefix", "state", "after", "limit"}
	previewQuery = []string{"crontab", "timezone", "anchor", "from", "to", "limit"}
)

// Routes returns all operations on schedules.
func (c Config) Routes() []web.Route {
	c.MaxBody, c.MaxBulk = cmp.Or(c.MaxBody, MaxBody), cmp.Or(c.MaxBulk, defaultMaxBulk)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	a := &api{c}
	const one = "/schedules/{id}"
	of := []string{"If-Match"}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/schedules", ID: "list-schedules", Handle: a.list,
			Summary: "A page of schedules, in the order of their ids, byte by byte",
			Query:   listQuery, Replies: web.OK("A page.", page{}),
		},
		{
			Method: http.MethodPost, Path: "/schedules", ID: "create-schedule", Handle: a.create, MaxBody: c.MaxBody,
			Summary: "Create a schedule", Body: newSchedule{},
			Replies: []web.Reply{{
				Status: http.StatusCreated, Says: "The schedule was created.", Of: []any{View{}},
				Headers: []string{"ETag", "Location"},
			}, web.ProblemOfRoute(http.StatusConflict, "There is a schedule with this id.")},
		},
		{
			Method: http.MethodGet, Path: one, ID: "get-schedule", Handle: a.get,
			Summary: "One schedule, and its next instants",
			Replies: []web.Reply{{
				Status: http.StatusOK, Says: "The schedule.", Of: []any{Detail{}}, Headers: []string{"ETag"},
			}},
		},
		{
			Method: http.MethodPut, Path: one, ID: "replace-schedule", Handle: a.update, MaxBody: c.MaxBody,
			Summary: "Replace a schedule. Without an anchor, the current one stays",
			Headers: of, Body: scheduleReplacement{}, Replies: afterChange,
		},
		{
			Method: http.MethodPatch, Path: one, ID: "patch-schedule", Handle: a.patch, MaxBody: c.MaxBody,
			Summary: "Change the given fields by RFC 7396: null sets a field to its default",
			Headers: of, Body: schedulePatch{}, Media: []string{mergePatch}, Replies: afterChange,
		},
		{
			Method: http.MethodDelete, Path: one, ID: "delete-schedule", Handle: a.delete,
			Summary: "Delete a schedule", Headers: of,
			Replies: []web.Reply{{Status: http.StatusNoContent, Says: "The schedule was deleted."}, otherVersion},
		},
		{
			Method: http.MethodPost, Path: one + "/pause", ID: "pause-schedule",
			Handle:  a.change(pause, (*schedule.Store).Pause),
			Summary: "Stop the events of a schedule until it is resumed", Headers: of, Replies: afterChange,
		},
		{
			Method: http.MethodPost, Path: one + "/resume", ID: "resume-schedule",
			Handle:  a.change(resume, (*schedule.Store).Resume),
			Summary: "End a pause. The next instant is the first one after now", Headers: of, Replies: afterChange,
		},
		{
			Method: http.MethodPost, Path: "/schedule-changes", ID: "change-schedules", Handle: a.changeMany,
			MaxBody: c.MaxBulk, Extends: true,
			Summary: "Create, update and delete many schedules",
			Description: "The server makes changes while it reads, up to 1000 in one transaction, so the list may have up to " +
				"1 GiB. It has at most 10000 changes. The server makes these, and refuses a longer list with 413; send the " +
				"others in further requests. A wrong change fails alone, and the answer lists it. If the server " +
				"cannot read or make the rest of the list, the problem says how many changes were made.",
			Body: bulkRequest{}, Replies: web.OK("Every change was made, or failed.", bulkResult{}),
		},
		{
			Method: http.MethodGet, Path: "/crontab-preview", ID: "preview-crontab", Handle: a.preview,
			Summary: "The instants of a crontab from one instant on, and before another",
			Query:   previewQuery, Replies: web.OK("The instants.", preview{}),
		},
	}
}

// afterChange are the replies of a route that changes a schedule.
var (
	afterChange = []web.Reply{{
		Status: http.StatusOK, Says: "The schedule after the change.", Of: []any{View{}}, Headers: []string{"ETag"},
	}, otherVersion}
	otherVersion = web.ProblemOfRoute(http.StatusPreconditionFailed, "The schedule has another version.")
)

//go:embed comments.json
var commentsFile []byte

// Comments returns the comments of the types of this package, for a document.
var Comments = sync.OnceValue(func() map[string]string { return web.ParseComments(commentsFile) })

var (
	states = []schedule.State{schedule.Active, schedule.Paused, schedule.Ended}
	text   = web.Object{"type": "string"}
)

// What a document needs to describe the routes.
var (
	Parameters = map[string]web.Object{
		"prefix": {"type": "string", "description": "The beginning of the ids."},
		"state":  {"type": "string", "enum": states},
		"after":  {"type": "string", "description": "The field after of the page before."},
		"limit":  {"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit},
		"preview-crontab.limit": {
			"type": "integer", "minimum": 1, "maximum": maxInstants, "default": defaultInstants,
		},
		"preview-crontab.from": {
			"type": "string", "format": "date-time", "description": "The first possible instant.",
		},
		"preview-crontab.to": {
			"type": "string", "format": "date-time", "description": "All instants are before it. It must not be before from.",
		},
		"anchor": {
			"type": "string", "format": "date-time", "description": "The first instant of @every. Defaults to from.",
		},
		"crontab": text, "timezone": text,
		"If-Match": {
			"type": "string", "description": "The ETag of the version to change. Without it, or with *: any version.",
		},
	}
	Required = []string{"preview-crontab.crontab", "preview-crontab.from", "preview-crontab.to"}
	Headers  = map[string]web.Object{
		"ETag":     {"description": "The version, in quotes.", "required": true, "schema": text},
		"Location": {"description": "The path of the schedule.", "required": true, "schema": text},
	}
	Names = map[reflect.Type]string{
		reflect.TypeFor[View](): "Schedule", reflect.TypeFor[Detail](): "ScheduleDetail",
		reflect.TypeFor[page](): "SchedulePage", reflect.TypeFor[preview](): "CrontabPreview",
		reflect.TypeFor[previewed](): "PreviewedInstant", reflect.TypeFor[Instant](): "Instant",
		reflect.TypeFor[bulkRequest](): "Changes", reflect.TypeFor[bulkChange](): "Change",
		reflect.TypeFor[changedSchedule](): "ChangedSchedule",
		reflect.TypeFor[bulkResult]():      "ChangesResult", reflect.TypeFor[bulkFailure](): "ChangeError",
		reflect.TypeFor[newSchedule](): "NewSchedule", reflect.TypeFor[scheduleReplacement](): "ScheduleReplacement",
		reflect.TypeFor[schedulePatch](): "SchedulePatch",
	}
	Enums = map[reflect.Type]any{
		reflect.TypeFor[schedule.State]():        states,
		reflect.TypeFor[schedule.Misfire]():      []schedule.Misfire{schedule.All, schedule.Latest, schedule.Skip},
		reflect.TypeFor[schedule.DeadlineFrom](): []schedule.DeadlineFrom{schedule.FromInstant, schedule.FromSlot},
		reflect.TypeFor[schedule.Action]():       []schedule.Action{schedule.Create, schedule.Update, schedule.Delete},
	}
)

// Document returns the OpenAPI document of these routes alone, for a handler whose paths begin with base, and
// the comments that it has used.
func Document(base string, comments map[string]string) (web.Object, map[string]string) {
	return web.OpenAPI{
		Title: "prescient schedules", Server: base + "/", Security: []web.Object{{"token": []string{}}},
		Description: "Recurring schedules: events at the instants of a crontab. Every request needs the header " +
			"Authorization: Bearer with a token. A token that may only read gets 403 for a change. " +
			"Every error is a problem of RFC 9457, also for an unknown path (404) and for a method that a path lacks " +
			"(405, with the header Allow).",
		Parameters: Parameters, Required: Required, Headers: Headers,
		Problems: web.CommonProblems,
		Naming:   web.Naming{Comments: comments, Names: Names, Enums: Enums},
	}.Document(append(Config{}.Routes(), web.Describe(nil)))
}

// changed is changing for a function that returns the changed schedule. It logs the change.
func (a *api) changed(
	r *http.Request, action schedule.Action, fn func(tx jobs.DB) (schedule.Schedule, error),
) (s schedule.Schedule, err error) {
	err = a.changing(r, func(tx jobs.DB) error {
		s, err = fn(tx)
		return err
	})
	if err == nil {
		a.logChange(r, action, s.ID, s.Version)
	}
	return s, err
}

// The changes that package schedule has no Action for.
const (
	pause  schedule.Action = "pause"
	resume schedule.Action = "resume"
)

// logChange logs who has changed a schedule. A change of its content or of a paused schedule leaves no other trace of
// the sender: no waiting row has it. version is the new one, or the one that was deleted; 0: unknown.
func (a *api) logChange(r *http.Request, action schedule.Action, id string, version int) {
	line := []any{"schedule", id, "change", string(action), "actor", web.Sender(r).String()}
	if version > 0 {
		line = append(line, "version", version)
	}
	a.Logger.InfoContext(r.Context(), "schedule changed", line...)
}

// changing calls fn with a transaction whose actor is the sender of a request. It repeats the transaction after a
// deadlock, so fn must be repeatable.
func (a *api) changing(r *http.Request, fn func(tx jobs.DB) error) error {
	once := func() error {
		return tx.In(r.Context(), a.DB, func(tx tx.DB) error {
			if err := jobs.SetActor(r.Context(), tx.(jobs.Tx), web.Sender(r).String()); err != nil {
				return err
			}
			return fn(tx)
		})
	}
	if tx.Is(a.DB) { // only its owner can repeat it
		return once()
	}
	return pg.Retry(once)
}

// Statuses are the HTTP statuses of the errors of the Store.
var Statuses = map[error]int{
	schedule.ErrNotFound: http.StatusNotFound, schedule.ErrExists: http.StatusConflict,
	schedule.ErrVersion: http.StatusPreconditionFailed,
}

// ProblemOf turns an error of the routes into a problem.
func ProblemOf(err error) *web.Problem { return web.ProblemOf(err, Statuses) }
