package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// Config of the handler. Store, DB and Token must be set.
type Config struct {
	Store *schedule.Store
	// DB is the pool that the Store's calls go to.
	DB jobs.DB
	// Token is what a client has to know, at least 16 characters.
	Token string
	// MaxBody limits a request, in bytes. Default: 1 MiB.
	MaxBody int64
	// Logger gets the errors that clients are not told. Default: slog.Default().
	Logger *slog.Logger
}

const (
	minToken       = 16
	defaultMaxBody = 1 << 20
	defaultLimit   = 100
	maxLimit       = 1000
)

type api struct {
	Config
	token [sha256.Size]byte
}

// New returns the handler.
func New(cfg Config) (http.Handler, error) {
	if cfg.Store == nil || cfg.DB == nil || len(cfg.Token) < minToken {
		return nil, fmt.Errorf("httpapi.Config: Store, DB and a Token of at least %d characters must be set", minToken)
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	a := &api{cfg, sha256.Sum256([]byte(cfg.Token))}
	mux := http.NewServeMux()
	for path, methods := range map[string]map[string]handler{
		"/schedules":             {http.MethodGet: a.list, http.MethodPost: a.create},
		"/schedules/{id}":        {http.MethodGet: a.get, http.MethodPut: a.update, http.MethodDelete: a.delete},
		"/schedules/{id}/pause":  {http.MethodPost: a.change((*schedule.Store).Pause)},
		"/schedules/{id}/resume": {http.MethodPost: a.change((*schedule.Store).Resume)},
		"/preview":               {http.MethodGet: a.preview},
	} {
		mux.Handle(path, a.serve(methods))
	}
	mux.Handle("/", a.serve(nil))
	return mux, nil
}

// handler answers with a value as JSON, nil for none, or an error.
type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// serve lets the handlers of a path answer those who know the token. A path without any is unknown.
func (a *api) serve(methods map[string]handler) http.HandlerFunc {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if methods[method] != nil {
			allow = append(allow, method)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		handle := methods[r.Method]
		switch {
		case !a.authorized(r):
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			a.fail(w, r, problem(http.StatusUnauthorized, "send the header Authorization: Bearer, and the token"))
		case methods == nil:
			a.fail(w, r, problem(http.StatusNotFound, "there is no such path"))
		case handle == nil:
			w.Header().Set("Allow", strings.Join(allow, ", "))
			a.fail(w, r, problem(http.StatusMethodNotAllowed, "this path has "+strings.Join(allow, ", ")))
		default:
			r.Body = http.MaxBytesReader(w, r.Body, a.MaxBody)
			answer, err := handle(w, r)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			a.answer(w, r, answer)
		}
	}
}

// authorized compares digests, so that the time it takes tells nothing, not even a length.
func (a *api) authorized(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], a.token[:]) == 1
}

func (a *api) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "prefix", "state", "after", "limit")
	if err != nil {
		return nil, err
	}
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	f := schedule.Filter{Prefix: q.Get("prefix"), After: q.Get("after"), State: schedule.State(q.Get("state")), Limit: limit + 1}
	if f.State != "" && f.State != schedule.Active && f.State != schedule.Paused && f.State != schedule.Ended {
		return nil, problem(http.StatusBadRequest, "state: must be active, paused or ended")
	}
	list, err := a.Store.List(r.Context(), a.DB, f)
	if err != nil {
		return nil, err
	}
	var page struct {
		Schedules []View  `json:"schedules"`
		After     *string `json:"after"` // of the next page; null: this is the last
	}
	if len(list) > limit {
		list = list[:limit]
		page.After = &list[limit-1].ID
	}
	page.Schedules = make([]View, len(list))
	for i, s := range list {
		page.Schedules[i] = NewView(s)
	}
	return page, nil
}

func (a *api) create(w http.ResponseWriter, r *http.Request) (any, error) {
	var b body
	if err := decode(r, &b); err != nil {
		return nil, err
	}
	s, err := a.Store.Create(r.Context(), a.DB, b.spec())
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/schedules/"+url.PathEscape(s.ID))
	setVersion(w, s)
	return created{NewView(s)}, nil
}

// created is a View that is answered with 201.
type created struct{ View }

func (a *api) get(w http.ResponseWriter, r *http.Request) (any, error) {
	s, err := a.Store.Get(r.Context(), a.DB, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewView(s), nil
}

func (a *api) update(w http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err != nil {
		return nil, err
	}
	var b body
	if err := decode(r, &b); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if b.ID != "" && b.ID != id {
		return nil, problem(http.StatusUnprocessableEntity, "id: a schedule keeps its id: leave it out, or give that of the path")
	}
	b.ID = id
	s, err := a.Store.Update(r.Context(), a.DB, b.spec(), version)
	if err != nil {
		return nil, err
	}
	setVersion(w, s)
	return NewView(s), nil
}

func (a *api) delete(_ http.ResponseWriter, r *http.Request) (any, error) {
	version, err := ifMatch(r)
	if err == nil {
		err = a.Store.Delete(r.Context(), a.DB, r.PathValue("id"), version)
	}
	return nil, err
}

type changeFunc func(s *schedule.Store, ctx context.Context, db jobs.DB, id string, version int) (schedule.Schedule, error)

func (a *api) change(change changeFunc) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		version, err := ifMatch(r)
		if err != nil {
			return nil, err
		}
		s, err := change(a.Store, r.Context(), a.DB, r.PathValue("id"), version)
		if err != nil {
			return nil, err
		}
		setVersion(w, s)
		return NewView(s), nil
	}
}

func (a *api) preview(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "crontab", "timezone", "anchor", "from", "to", "limit")
	if err != nil {
		return nil, err
	}
	limit, err1 := q.limit()
	from, err2 := q.instant("from", true)
	to, err3 := q.instant("to", true)
	anchor, err4 := q.instant("anchor", false)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	g, err := a.Store.Grid(r.Context(), a.DB)
	if err != nil {
		return nil, err
	}
	spec := schedule.Spec{Crontab: q.Get("crontab"), Timezone: q.Get("timezone"), Anchor: cmp.Or(anchor, from)}
	all, err := schedule.Preview(spec, g, from, to)
	if err != nil {
		return nil, err
	}
	type instant struct {
		Instant time.Time `json:"instant"`
		Slot    time.Time `json:"slot"`
		Local   time.Time `json:"local"` // the instant by the clocks of the schedule's time zone
	}
	zone, err := crontab.Zone(spec.Crontab, spec.Timezone)
	if err != nil {
		return nil, err
	}
	page := struct {
		Instants []instant `json:"instants"`
		More     bool      `json:"more"`
	}{Instants: []instant{}}
	for at, slot := range all {
		if page.More = len(page.Instants) == limit; page.More {
			break
		}
		page.Instants = append(page.Instants, instant{at, slot, at.In(zone)})
	}
	return page, nil
}

// parameters are those of a request's query.
type parameters struct{ url.Values }

// query returns the parameters of a request, each of which must be known, and given once.
func query(r *http.Request, known ...string) (parameters, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return parameters{}, problem(http.StatusBadRequest, "the query cannot be read")
	}
	for name, values := range q {
		if len(values) > 1 || !slices.Contains(known, name) {
			return parameters{}, problem(http.StatusBadRequest, fmt.Sprintf("%s: want the parameters %s, each once", name, strings.Join(known, ", ")))
		}
	}
	return parameters{q}, nil
}

func (q parameters) limit() (int, error) {
	text := q.Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, problem(http.StatusBadRequest, fmt.Sprintf("limit: must be a number from 1 to %d", maxLimit))
	}
	return n, nil
}

func (q parameters) instant(name string, required bool) (time.Time, error) {
	if q.Get(name) == "" && !required {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, q.Get(name))
	if err != nil {
		return at, problem(http.StatusBadRequest, name+": want an instant such as 2006-01-02T15:04:05Z")
	}
	return at.UTC(), nil
}

// ifMatch returns the version that a request is for.
func ifMatch(r *http.Request) (int, error) {
	text := r.Header.Get("If-Match")
	if text == "" || text == "*" {
		return schedule.AnyVersion, nil
	}
	inner, ok := strings.CutPrefix(text, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	version, err := strconv.ParseUint(inner, 10, 31)
	if !ok || !ok2 || err != nil || version == 0 {
		return 0, problem(http.StatusPreconditionFailed, `If-Match: want the ETag of the schedule, such as "3"`)
	}
	return int(version), nil
}

func setVersion(w http.ResponseWriter, s schedule.Schedule) {
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(s.Version)))
}
