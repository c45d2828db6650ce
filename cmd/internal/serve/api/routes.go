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

// read is a route that answers with a value of the board.
func read[T any](
	path, id, summary string, query []string, get func(ctx context.Context, q request) (T, error),
) web.Route {
	query = append(query, acted)
	return web.Route{
		Method: http.MethodGet, Path: path, ID: id, Summary: summary, Query: query, Replies: web.OK(theAnswer, *new(T)),
		Handle: func(_ http.ResponseWriter, r *http.Request) (any, error) {
			q, err := newRequest(r)
			if err != nil {
				return nil, err
			}
			v, err := get(r.Context(), q)
			return v, cmp.Or(q.err, unlogged(err))
		},
	}
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
	r     *http.Request
	acted int64
	err   error
}

func newRequest(r *http.Request) (request, error) {
	q := web.Given(r)
	n, err := q.Number(acted, 0, 0, math.MaxInt64)
	return request{Parameters: q, r: r, acted: n}, err
}

func (q *request) limit() int { return int(q.number("limit", 0, 1, 200)) }

func (q *request) number(name string, fallback, least, most int64) int64 {
	n, err := q.Number(name, fallback, least, most)
	q.err = cmp.Or(q.err, err)
	return n
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

func (q *request) instant(name string) time.Time {
	at, err := q.Instant(name, false)
	q.err = cmp.Or(q.err, err)
	return at
}

func (a *api) routes() []web.Route {
	b := a.Board
	return append(slices.Concat(seq.Map(action.Forms, a.act), a.schedules()),
		read("/overview", "overview", "Is it all right?", nil,
			func(ctx context.Context, q request) (board.Overview, error) {
				return b.Overview(ctx, q.acted)
			}),
		read("/slots/{slot}", "slot", "One slot", nil, func(ctx context.Context, q request) (board.Slot, error) {
			slot, err := web.Instant("the slot", q.r.PathValue("slot"))
			if err != nil {
				return board.Slot{}, err
			}
			return b.Slot(ctx, slot, q.acted)
		}),
		read("/ledger", "ledger", "A heat map of the slots of some days", []string{"days"},
			func(ctx context.Context, q request) (board.Ledger, error) {
				days := q.number("days", 30, 1, 31)
				if q.err != nil {
					return board.Ledger{}, q.err
				}
				return b.Ledger(ctx, int(days), q.acted)
			}),
		read("/jobs", "jobs", "Every job, the worst first, and how its checks of the last day have gone",
			[]string{"search", "after", "limit"},
			func(ctx context.Context, q request) (board.Jobs, error) {
				f := board.JobsFilter{
					Search: q.Get("search"), After: positionOf(&q, board.ParseJobsPosition), Limit: q.limit(),
				}
				if q.err != nil {
					return board.Jobs{}, q.err
				}
				return b.Jobs(ctx, f, q.acted)
			}),
		read("/jobs/{job}", "job", "One job, and its slots of the last day or of another range", []string{"from", "to"},
			func(ctx context.Context, q request) (board.Job, error) {
				in := board.Range{From: q.instant("from"), To: q.instant("to")}
				if q.err != nil {
					return board.Job{}, q.err
				}
				return b.Job(ctx, q.r.PathValue("job"), in, q.acted)
			}),
		read("/jobs/{job}/advice", "advice", "What history advises on when to check the rows of a job", nil,
			func(ctx context.Context, q request) (board.JobAdvice, error) {
				return b.Advice(ctx, q.r.PathValue("job"), q.acted)
			}),
		read("/entity", "entity", "The timeline of the checks of an entity",
			[]string{"entity_name", "entity_key", "job_exec", "item_key"},
			func(ctx context.Context, q request) (board.Entity, error) {
				return b.Entity(ctx, jobs.Key{
					EntityName: q.Get("entity_name"), EntityKey: q.Get("entity_key"),
					JobExec: q.Get("job_exec"), ItemKey: q.Get("item_key"),
				}, q.acted)
			}),
		read("/checks", "checks", "What waits, in the order of the slots",
			[]string{"job_exec", "entity_name", "from", "to", "after", "limit"},
			func(ctx context.Context, q request) (board.Waiting, error) {
				f := board.WaitingFilter{
					JobExec: q.Get("job_exec"), EntityName: q.Get("entity_name"),
					From: q.instant("from"), To: q.instant("to"), After: positionOf(&q, admin.ParsePosition), Limit: q.limit(),
				}
				if q.err != nil {
					return board.Waiting{}, q.err
				}
				return b.Waiting(ctx, f, q.acted)
			}),
		read("/history", "history", "What ended, the latest first",
			[]string{"job_exec", "outcome", "entity_name", "entity_key", "until", "after", "limit"},
			func(ctx context.Context, q request) (board.History, error) {
				f := board.HistoryFilter{
					JobExec: q.Get("job_exec"), Outcome: jobs.Outcome(q.Get("outcome")),
					EntityName: q.Get("entity_name"), EntityKey: q.Get("entity_key"),
					Until: q.instant("until"), After: positionOf(&q, admin.ParsePosition), Limit: q.limit(),
				}
				if q.err != nil {
					return board.History{}, q.err
				}
				return b.History(ctx, f, q.acted)
			}),
		read("/rules", "rules", "Every rule that was applied", nil,
			func(ctx context.Context, q request) (board.Rules, error) {
				return b.Rules(ctx, q.acted)
			}),
		read("/rules/{rule}", "rule", "One rule, what waits for it, and what it has fired", nil,
			func(ctx context.Context, q request) (board.Rule, error) {
				return b.Rule(ctx, q.r.PathValue("rule"), q.acted)
			}),
		read("/events", "events", "The outbox, the newest first, and who reads it", []string{"after", "limit"},
			func(ctx context.Context, q request) (board.Events, error) {
				after, limit := positionOf(&q, outbox.ParsePosition), q.limit()
				if q.err != nil {
					return board.Events{}, q.err
				}
				return b.Events(ctx, after, limit, q.acted)
			}),
		read("/dead-letters", "dead-letters", "The dead letters, in the order in which they are sent again",
			[]string{"after", "limit"},
			func(ctx context.Context, q request) (board.DeadLetters, error) {
				after, limit := positionOf(&q, board.ParseNumber), q.limit()
				if q.err != nil {
					return board.DeadLetters{}, q.err
				}
				return b.DeadLetters(ctx, after, limit, q.acted)
			}),
		read("/alerts", "alerts", "The findings that a person was told of, and those that are silenced", nil,
			func(ctx context.Context, q request) (board.Alerts, error) {
				return b.Alerts(ctx, q.acted)
			}),
		read("/actions", "actions", "What operators have done, the newest first", []string{"after", "limit"},
			func(ctx context.Context, q request) (board.Actions, error) {
				after, limit := positionOf(&q, board.ParseNumber), q.limit()
				if q.err != nil {
					return board.Actions{}, q.err
				}
				return b.Actions(ctx, after, limit, q.acted)
			}),
		a.describe(),
	)
}

// schedules are the routes of schedules. They read what the database has now, within the limit of statements.
func (a *api) schedules() []web.Route {
	routes := scheduleapi.Config{Store: a.Schedules, DB: a.DB, Base: a.Base + Prefix}.Routes()
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
