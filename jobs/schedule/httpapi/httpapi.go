package httpapi

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// Config of the handler. Store, DB and a token must be set.
type Config struct {
	Store *schedule.Store
	// DB is the pool that the Store's calls go to.
	DB jobs.DB
	// Tokens are what a client has to know one of, each of at least 16 characters.
	Tokens []string
	// ReadTokens are those of clients that may read, and change nothing.
	ReadTokens []string
	// MaxBody limits the body of a request, and one change of POST /changes, in bytes. Default: 1 MiB.
	MaxBody int64
	// MaxBulk limits the body of POST /changes, in bytes. Default: 1 GiB.
	MaxBulk int64
	// Logger gets the errors that clients are not told. Default: slog.Default().
	Logger *slog.Logger
}

const (
	minToken       = 16
	defaultMaxBody = 1 << 20
	defaultMaxBulk = 1 << 30
	defaultLimit   = 100
	maxLimit       = 1000
)

type api struct {
	Config
	keys []key
}

// key is a token, of which no more is kept than its digest.
type key struct {
	digest    [sha256.Size]byte
	mayChange bool
}

// New returns the handler.
func New(cfg Config) (http.Handler, error) {
	all := slices.Concat(cfg.Tokens, cfg.ReadTokens)
	short := slices.ContainsFunc(all, func(token string) bool { return len(token) < minToken })
	if cfg.Store == nil || cfg.DB == nil || len(all) == 0 || short {
		return nil, fmt.Errorf("httpapi.Config: Store, DB and Tokens or ReadTokens, of at least %d characters each, must be set", minToken)
	}
	cfg.MaxBody, cfg.MaxBulk = cmp.Or(cfg.MaxBody, defaultMaxBody), cmp.Or(cfg.MaxBulk, defaultMaxBulk)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	a := &api{Config: cfg}
	for i, token := range all {
		a.keys = append(a.keys, key{sha256.Sum256([]byte(token)), i < len(cfg.Tokens)})
	}
	a.Tokens, a.ReadTokens = nil, nil
	mux := http.NewServeMux()
	for path, methods := range a.paths() {
		limit := a.MaxBody
		if path == "/changes" {
			limit = a.MaxBulk
		}
		mux.Handle(path, a.serve(limit, methods))
	}
	mux.Handle("/", a.serve(a.MaxBody, nil))
	return mux, nil
}

// paths are all that is served: openapi.json says the same.
func (a *api) paths() map[string]map[string]handler {
	return map[string]map[string]handler{
		"/schedules": {http.MethodGet: a.list, http.MethodPost: a.create},
		"/schedules/{id}": {
			http.MethodGet: a.get, http.MethodPut: a.update, http.MethodPatch: a.patch, http.MethodDelete: a.delete,
		},
		"/schedules/{id}/pause":  {http.MethodPost: a.change((*schedule.Store).Pause)},
		"/schedules/{id}/resume": {http.MethodPost: a.change((*schedule.Store).Resume)},
		"/changes":               {http.MethodPost: a.changeMany},
		"/preview":               {http.MethodGet: a.preview},
		"/openapi.json":          {http.MethodGet: a.describe},
	}
}

//go:embed openapi.json
var description json.RawMessage

func (a *api) describe(http.ResponseWriter, *http.Request) (any, error) { return description, nil }

// handler answers with a value as JSON, nil for none, or an error.
type handler func(w http.ResponseWriter, r *http.Request) (any, error)

// serve lets the handlers of a path answer those who know a token. A path without any is unknown.
func (a *api) serve(limit int64, methods map[string]handler) http.HandlerFunc {
	var list []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if methods[method] != nil {
			list = append(list, method)
		}
	}
	allow := strings.Join(list, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		handle := methods[r.Method]
		known, mayChange := a.authorized(r)
		switch {
		case !known:
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			a.fail(w, r, problem(http.StatusUnauthorized, "send the header Authorization: Bearer, and the token"))
		case methods == nil:
			a.fail(w, r, problem(http.StatusNotFound, "there is no such path"))
		case handle == nil:
			w.Header().Set("Allow", allow)
			a.fail(w, r, problem(http.StatusMethodNotAllowed, "this path has "+allow))
		case !mayChange && r.Method != http.MethodGet:
			a.fail(w, r, problem(http.StatusForbidden, "this token may read, and change nothing"))
		default:
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			answer, err := handle(w, r)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			a.answer(w, r, answer)
		}
	}
}

// authorized compares digests, with every key's, so that the time it takes tells nothing, not even a length.
func (a *api) authorized(r *http.Request) (known, mayChange bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for _, k := range a.keys {
		if subtle.ConstantTimeCompare(got[:], k.digest[:]) == 1 {
			known, mayChange = true, mayChange || k.mayChange
		}
	}
	bearer := strings.EqualFold(scheme, "Bearer")
	return known && bearer, mayChange && bearer
}
