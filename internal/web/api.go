package web

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prescient-go/prescient/internal/plain"
)

// API answers authorised requests with JSON, and errors with problems.
type API struct {
	// Who returns the sender of a request, whether it is known, and whether it may change
	// something. Or it returns a problem.
	Who func(r *http.Request) (who Who, known bool, err error)
	// Problem turns an error into one for the client.
	Problem func(err error) *Problem
	// Logger gets the errors that are hidden from clients. Defaults to slog.Default().
	Logger *slog.Logger
	// Elsewhere says to a client that has asked for an unknown path which paths there are.
	Elsewhere string
}

// Handler returns a value to answer as JSON, nil for no body, or an error.
type Handler func(w http.ResponseWriter, r *http.Request) (any, error)

// Answer is a value with another status than 200, or another media type than application/json.
type Answer struct {
	Status int
	Media  string // defaults to application/json
	Value  any
}

// ProblemJSON is the media type of a Problem.
const ProblemJSON = "application/problem+json"

// methods lists the methods of an API, in the order in which answers name them.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Handler returns the handler of routes whose paths begin with prefix. A body has at most limit bytes, unless its
// route says otherwise. It answers each request in time; see Deadline.
func (a API) Handler(prefix string, limit int64, routes []Route) http.Handler {
	mux := http.NewServeMux()
	for path, methods := range byPath(routes) {
		answer := http.Handler(a.serve(limit, methods))
		if !methods[http.MethodPost].Extends {
			answer = Deadline(answer, ProblemJSON, lateProblem)
		}
		mux.Handle(prefix+path, answer)
	}
	mux.Handle("/", Deadline(a.Refuse(func(*http.Request) error {
		return NewProblem(http.StatusNotFound, a.Elsewhere)
	}), ProblemJSON, lateProblem))
	return mux
}

// byPath returns the routes of each path, by method.
func byPath(routes []Route) map[string]map[string]Route {
	paths := map[string]map[string]Route{}
	for _, r := range routes {
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]Route{}
		}
		paths[r.Path][r.Method] = r
	}
	return paths
}

// serve returns a handler that calls the routes of a path by method.
func (a API) serve(limit int64, routes map[string]Route) http.HandlerFunc {
	var list []string
	for _, method := range methods {
		if routes[method].Handle != nil {
			list = append(list, method)
		}
	}
	allow := strings.Join(list, ", ")
	return a.authorised(func(w http.ResponseWriter, r *http.Request, who Who) {
		route, known := routes[r.Method]
		switch {
		case !known:
			w.Header().Set("Allow", allow)
			a.Fail(w, r, NewProblem(http.StatusMethodNotAllowed, "this path has "+allow))
		case !who.MayChange && r.Method != http.MethodGet:
			a.Fail(w, r,
				NewProblem(http.StatusForbidden, "this needs the token of an operator: "+
					"without it one may read, and change nothing"))
		default:
			r = r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
			r.Body = http.MaxBytesReader(w, r.Body, cmp.Or(route.MaxBody, limit))
			a.call(w, r, route)
		}
	})
}

// call answers a request by its route.
func (a API) call(w http.ResponseWriter, r *http.Request, route Route) {
	var answer any
	err := checkQuery(r, route.Query)
	if err == nil {
		answer, err = route.Handle(w, r)
	}
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Answer(w, r, answer)
}

// Refuse returns a handler that answers each authorised request with an error.
func (a API) Refuse(why func(r *http.Request) error) http.HandlerFunc {
	return a.authorised(func(w http.ResponseWriter, r *http.Request, _ Who) { a.Fail(w, r, why(r)) })
}

// authorised returns a handler that passes on the requests of known senders, and refuses the others.
func (a API) authorised(next func(w http.ResponseWriter, r *http.Request, who Who)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		who, known, err := a.Who(r)
		switch {
		case err != nil:
			a.Fail(w, r, err)
		case !known:
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			a.Fail(w, r, NewProblem(http.StatusUnauthorized, unknown(r)))
		default:
			next(w, r, who)
		}
	}
}

// whoKey is the context key of a request's Who.
type whoKey struct{}

// Sender returns the sender of a request that a Handler gets.
func Sender(r *http.Request) Who {
	who, _ := r.Context().Value(whoKey{}).(Who)
	return who
}

// Fail answers with the problem of an error.
func (a API) Fail(w http.ResponseWriter, r *http.Request, err error) {
	p := a.Problem(err)
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	_, told := err.(*Problem) //nolint:errorlint // one that is joined with its cause does not tell that
	// otherwise the client has gone, or gets the whole error
	if p.Status >= http.StatusInternalServerError && !told && r.Context().Err() == nil {
		cmp.Or(a.Logger, slog.Default()).ErrorContext(r.Context(), "request failed", "method", r.Method,
			"path", r.URL.Path, "error", err)
	}
	a.write(w, r, p.Status, ProblemJSON, p)
}

// Answer answers with a value.
func (a API) Answer(w http.ResponseWriter, r *http.Request, v any) {
	switch v := v.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case Answer:
		a.write(w, r, v.Status, cmp.Or(v.Media, "application/json"), v.Value)
	default:
		a.write(w, r, http.StatusOK, "application/json", v)
	}
}

func (a API) write(w http.ResponseWriter, r *http.Request, status int, media string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		cmp.Or(a.Logger, slog.Default()).ErrorContext(r.Context(), "answer cannot be written as JSON",
			"path", r.URL.Path, "error", err)
		status, media = http.StatusInternalServerError, ProblemJSON
		// of texts, so it cannot fail
		text, _ = json.Marshal(NewProblem(status, "something went wrong; the log of the server has it"))
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(plain.JSON(text), '\n')) // an error means that the client has gone
}

// unknown says what to send instead.
func unknown(r *http.Request) string {
	switch token, given := Bearer(r); {
	case given && strings.Contains(token, ":"):
		return "the token is not known: send it without the name and the colon that are before it in the settings"
	case given && token != "":
		return "the token is not known"
	}
	return "send the header Authorization: Bearer, and the token"
}
