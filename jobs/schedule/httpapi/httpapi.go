package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// Config configures the handler. Store, DB and a token must be set.
type Config struct {
	Store *schedule.Store
	// DB is the pool for the calls of the Store.
	DB jobs.DB
	// Tokens are the bearer tokens of clients that may change schedules, each of at least 16
	// characters. A name and a colon may precede a token: ops:0123456789abcdef. [jobs.SetActor]
	// records a change with the name, by default "operator", and the address of the client.
	Tokens []string
	// ReadTokens are the tokens of clients that may only read.
	ReadTokens []string
	// Access replaces both kinds of tokens. Handlers of one server share it. Optional.
	Access *web.Access
	// Base is the beginning of the paths as clients request them, if a prefix is stripped from them.
	// Only the header Location and the description use it. Optional.
	Base string
	// MaxBody limits the body of a request, and each change of POST /changes, in bytes. Defaults to
	// 1 MiB.
	MaxBody int64
	// MaxBulk limits the body of POST /changes, in bytes. Defaults to 1 GiB.
	MaxBulk int64
	// Logger gets the errors that clients do not see. Defaults to slog.Default().
	Logger *slog.Logger
}

const (
	defaultMaxBody = 1 << 20
	defaultMaxBulk = 1 << 30
	defaultLimit   = 100
	maxLimit       = 1000
)

type api struct {
	Config
	web.API
}

// New returns the handler of the API.
func New(cfg Config) (http.Handler, error) {
	keys, err := web.NewNamedKeys(cfg.Tokens, cfg.ReadTokens)
	if cfg.Store == nil || cfg.DB == nil || len(keys) == 0 && cfg.Access == nil || err != nil {
		return nil, fmt.Errorf("httpapi.Config: "+
			"Store, DB and Tokens or ReadTokens, of at least %d characters each, must be set", web.MinToken)
	}
	cfg.MaxBody, cfg.MaxBulk = cmp.Or(cfg.MaxBody, defaultMaxBody), cmp.Or(cfg.MaxBulk, defaultMaxBulk)
	cfg.Tokens, cfg.ReadTokens = nil, nil
	if cfg.Access == nil {
		cfg.Access = web.NewAccess(keys, nil, cfg.Logger)
	}
	a := &api{Config: cfg}
	a.API = web.API{Who: cfg.Access.Who, Problem: problemOf, Logger: cfg.Logger}
	mux := http.NewServeMux()
	for path, methods := range web.ByPath(a.routes()) {
		limit := a.MaxBody
		if path == changesPath {
			limit = a.MaxBulk
		}
		answer := http.Handler(a.Serve(limit, methods))
		if path != changesPath { // which extends its deadline with each change
			answer = web.Deadline(answer, web.ProblemJSON, web.LateProblem)
		}
		mux.Handle(path, answer)
	}
	mux.Handle("/", a.Serve(a.MaxBody, nil))
	return mux, nil
}

// changed is changing for a function that returns the changed schedule.
func (a *api) changed(
	r *http.Request, fn func(tx jobs.DB) (schedule.Schedule, error),
) (s schedule.Schedule, err error) {
	err = a.changing(r, func(tx jobs.DB) error {
		s, err = fn(tx)
		return err
	})
	return s, err
}

// changing calls fn with a transaction whose actor is the sender of a request.
func (a *api) changing(r *http.Request, fn func(tx jobs.DB) error) error {
	actor := web.Sender(r).Name + " from " + a.Access.Address(r).String()
	return tx.In(r.Context(), a.DB, func(tx tx.DB) error {
		if err := jobs.SetActor(r.Context(), tx.(jobs.Tx), actor); err != nil {
			return err
		}
		return fn(tx)
	})
}

// statuses are the HTTP statuses of the errors of the Store.
var statuses = map[error]int{
	schedule.ErrNotFound: http.StatusNotFound, schedule.ErrExists: http.StatusConflict,
	schedule.ErrVersion: http.StatusPreconditionFailed,
}

func problemOf(err error) *web.Problem { return web.ProblemOf(err, statuses) }
