package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
)

const acted = "acted"

// read is a route that answers with a value of the board. parse reads from the request what get needs.
func read[Of, T any](
	path, id, summary string, query []string, parse func(q *request) Of,
	get func(ctx context.Context, of Of, acted int64) (T, error),
) web.Route {
	return web.Route{
		Method: http.MethodGet, Path: path, ID: id, Summary: summary, Query: append(slices.Clip(query), acted),
		Replies: web.OK(theAnswer, *new(T)),
		Handle: func(_ http.ResponseWriter, r *http.Request) (any, error) {
			q := request{Parameters: web.Given(r), r: r}
			after := q.number(acted, 0, 0, math.MaxInt64)
			of := parse(&q)
			if q.err != nil {
				return nil, q.err
			}
			v, err := get(r.Context(), of, after)
			return v, unlogged(err)
		},
	}
}

// readAll is read for a value that needs nothing from the request.
func readAll[T any](path, id, summary string, get func(ctx context.Context, acted int64) (T, error)) web.Route {
	return read(path, id, summary, nil, func(*request) struct{} { return struct{}{} },
		func(ctx context.Context, _ struct{}, acted int64) (T, error) { return get(ctx, acted) })
}

// unlogged turns ErrBusy, which many clients may get, into a problem that is not logged.
func unlogged(err error) error {
	if errors.Is(err, board.ErrBusy) {
		return web.NewProblem(http.StatusServiceUnavailable, err.Error())
	}
	return err
}

// theAnswer describes an answer.
const theAnswer = "The answer."

// request reads the parameters of a request. It keeps the first error.
type request struct {
	web.Parameters
	r   *http.Request
	err error
}

func (q *request) limit() int { return int(q.number("limit", 0, 1, 200)) }

func (q *request) number(name string, fallback, least, most int64) int64 {
	n, err := q.Number(name, fallback, least, most)
	q.err = cmp.Or(q.err, err)
	return n
}

func (q *request) instant(name string) time.Time {
	at, err := q.Instant(name, false)
	q.err = cmp.Or(q.err, err)
	return at
}

// inPath returns what reads a name from the path.
func inPath(name string) func(q *request) string {
	return func(q *request) string { return q.r.PathValue(name) }
}

// positionOf reads where a page begins. Without one it is the first page.
func positionOf[T any](q *request, parse func(text string) (T, error)) (after T) {
	text := q.Get("after")
	if text == "" {
		return after
	}
	after, err := parse(text)
	if err != nil {
		q.err = cmp.Or[error](q.err, web.NewProblem(http.StatusBadRequest, "after: "+err.Error()))
	}
	return after
}

// pageQuery are the parameters of pageOf.
var pageQuery = []string{"after", "limit"}

// pageOf returns what reads which page of a list is meant.
func pageOf[P any](parse func(text string) (P, error)) func(q *request) board.Page[P] {
	return func(q *request) board.Page[P] { return board.Page[P]{After: positionOf(q, parse), Limit: q.limit()} }
}

func (a *api) routes() []web.Route {
	b := a.Board
	return append(slices.Concat(seq.Map(action.Forms, a.act), a.schedules()),
		readAll("/overview", "overview", "Is it all right?", b.Overview),
		read("/slots/{slot}", "slot", "One slot", nil, func(q *request) time.Time {
			slot, err := web.Instant("the slot", q.r.PathValue("slot"))
			q.err = cmp.Or(q.err, err)
			return slot
		}, b.Slot),
		read("/ledger", "ledger", "A heat map of the slots of some days", []string{"days"},
			func(q *request) int { return int(q.number("days", 30, 1, 31)) }, b.Ledger),
		read("/jobs", "jobs", "Every job, the worst first, and how its checks of the last day have gone",
			[]string{"search", "after", "limit"}, func(q *request) board.JobsFilter {
				return board.JobsFilter{
					Search: q.Get("search"), After: positionOf(q, board.ParseJobsPosition), Limit: q.limit(),
				}
			}, b.Jobs),
		read("/jobs/{job}", "job", "One job, and its slots of the last day or of another range", []string{"from", "to"},
			func(q *request) board.JobIn {
				return board.JobIn{Name: q.r.PathValue("job"), Range: board.Range{From: q.instant("from"), To: q.instant("to")}}
			}, b.Job),
		read("/jobs/{job}/advice", "advice", "What history advises on when to check the rows of a job", nil,
			inPath("job"), b.Advice),
		read("/entity", "entity", "The timeline of the checks of an entity",
			[]string{"entity_name", "entity_key", "job_exec", "item_key"}, func(q *request) jobs.Key {
				return jobs.Key{
					EntityName: q.Get("entity_name"), EntityKey: q.Get("entity_key"),
					JobExec: q.Get("job_exec"), ItemKey: q.Get("item_key"),
				}
			}, b.Entity),
		read("/checks", "checks", "What waits, in the order of the slots",
			[]string{"job_exec", "entity_name", "from", "to", "after", "limit"}, func(q *request) admin.Filter {
				return admin.Filter{
					JobExec: q.Get("job_exec"), EntityName: q.Get("entity_name"),
					From: q.instant("from"), To: q.instant("to"), After: positionOf(q, admin.ParsePosition), Limit: q.limit(),
				}
			}, b.Waiting),
		read("/history", "history", "What ended, the latest first",
			[]string{"job_exec", "outcome", "entity_name", "entity_key", "until", "after", "limit"},
			func(q *request) admin.HistoryFilter {
				return admin.HistoryFilter{
					JobExec: q.Get("job_exec"), Outcome: jobs.Outcome(q.Get("outcome")),
					EntityName: q.Get("entity_name"), EntityKey: q.Get("entity_key"),
					To: q.instant("until"), After: positionOf(q, admin.ParsePosition), Limit: q.limit(),
				}
			}, b.History),
		readAll("/rules", "rules", "Every rule that was applied", b.Rules),
		read("/rules/{rule}", "rule", "One rule, what waits for it, and what it has fired", nil, inPath("rule"), b.Rule),
		read("/events", "events", "The outbox, the newest first, and who reads it", pageQuery,
			pageOf(outbox.ParsePosition), b.Events),
		read("/dead-letters", "dead-letters", "The dead letters, in the order in which they are sent again", pageQuery,
			pageOf(board.ParseNumber), b.DeadLetters),
		readAll("/alerts", "alerts", "The findings that a person was told of, and those that are silenced", b.Alerts),
		read("/actions", "actions", "What operators have done, the newest first", pageQuery,
			pageOf(board.ParseNumber), b.Actions),
		a.describe(),
	)
}

// schedules are the routes of schedules. They read what the database has now, within the limit of statements.
func (a *api) schedules() []web.Route {
	routes := scheduleapi.Config{Store: a.Schedules, DB: a.DB, Base: a.Base + Prefix, Logger: a.Logger}.Routes()
	for i, route := range routes {
		if route.Method != http.MethodGet {
			continue
		}
		routes[i].Query = append(slices.Clone(route.Query), acted)
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) (any, error) {
			if err := a.Board.Admit(r.Context()); err != nil {
				return nil, unlogged(err)
			}
			return route.Handle(w, r)
		}
	}
	return routes
}

// storeRoutes are the routes for all stores, if there are several.
func (a *api) storeRoutes() []web.Route {
	return []web.Route{{
		Method: http.MethodGet, Path: "/stores", ID: "stores",
		Summary: "The state of each store, the worst first: only at the root of a server of several stores",
		Replies: web.OK(theAnswer, board.StoreList{}),
		Handle: func(_ http.ResponseWriter, r *http.Request) (any, error) {
			ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
			defer cancel()
			return a.Stores.Read(ctx), nil
		},
	}, a.describe()}
}

// describe is the route of the document, whose paths are those that clients ask for.
func (a *api) describe() web.Route {
	return web.Describe(func() web.Object {
		doc, _ := document(a.Base, comments())
		return doc
	})
}

// lookTimeout bounds the wait for a store that does not answer.
const lookTimeout = 5 * time.Second

// act is a route that previews or does an action.
func (a *api) act(form *action.Form) web.Route {
	query := []string{"preview", "confirm"}
	return web.Route{
		Method: http.MethodPost, Path: "/actions/" + form.Path, ID: "do-" + form.Path, Summary: form.Summary, Query: query,
		Body: form.Empty, Names: true,
		Replies: []web.Reply{
			{
				Status: http.StatusOK, Says: "With preview the plan, with confirm what was done.",
				Of: []any{board.Plan{}, board.Done{}},
			},
			{Status: http.StatusAccepted, Says: "It goes on; the actions tell how it ends.", Of: []any{board.Done{}}},
			{
				Status: http.StatusConflict, Media: web.ProblemJSON, Of: []any{changed{}},
				Says: "It would do something else by now, and nothing is done; a catch-up goes on already; " +
					"or another transaction holds a lock on what it changes.",
			},
		},
		Handle: func(_ http.ResponseWriter, r *http.Request) (any, error) {
			q := web.Given(r)
			preview, confirm := q.Get("preview"), q.Get("confirm")
			if preview != "" && preview != "true" || (preview == "") == (confirm == "") {
				return nil, web.NewProblem(http.StatusPreconditionRequired,
					"give either preview=true, or confirm and the confirm of the preview")
			}
			action, err := form.Decode(func(v any) error { return web.Decode(r, v) })
			if err != nil {
				return nil, err
			}
			if preview != "" {
				return a.Board.Preview(r.Context(), web.Sender(r), action)
			}
			done, err := a.Board.Do(r.Context(), web.Sender(r), action, confirm)
			if now, is := errors.AsType[*board.ChangedError](err); is {
				return web.Answer{
					Status: http.StatusConflict, Media: web.ProblemJSON,
					Value: changed{web.NewProblem(http.StatusConflict, now.Error()), &now.Plan},
				}, nil
			}
			if err == nil && done.Outcome == board.Running {
				return web.Answer{Status: http.StatusAccepted, Value: done}, nil
			}
			return done, err
		},
	}
}

// changed is the problem of an action that would now do something else. Another conflict has no
// plan.
type changed struct {
	*web.Problem
	Plan *board.Plan `json:"plan,omitempty"`
}
