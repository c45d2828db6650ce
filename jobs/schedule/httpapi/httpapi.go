package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prescient-go/prescient/internal/scheduleapi"
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
	// characters. A name and a colon may precede a token: ops:0123456789abcdef. The log has each
	// change with the name, by default "operator", and the address of the client. [jobs.SetActor]
	// records them with the waiting row, if the change touches it.
	Tokens []string
	// ReadTokens are the tokens of clients that may only read.
	ReadTokens []string
	// Base is the beginning of the paths as clients request them, if a prefix is stripped from them.
	// Only the header Location and the description use it. Optional.
	Base string
	// MaxBody limits the body of a request, and each change of POST /schedule-changes, in bytes. Defaults to
	// 1 MiB.
	MaxBody int64
	// MaxBulk limits the body of POST /schedule-changes, in bytes. Defaults to 1 GiB.
	MaxBulk int64
	// Logger gets the errors that clients do not see, and a line for each change. Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns the handler of the API.
func New(cfg Config) (http.Handler, error) {
	keys, err := web.NewNamedKeys(cfg.Tokens, cfg.ReadTokens)
	if cfg.Store == nil || cfg.DB == nil || len(keys) == 0 || err != nil {
		return nil, fmt.Errorf("httpapi.Config: "+
			"Store, DB and Tokens or ReadTokens, of at least %d characters each, must be set", web.MinToken)
	}
	api := web.API{
		Who: web.NewAccess(keys, nil, cfg.Logger).Who, Problem: scheduleapi.ProblemOf, Logger: cfg.Logger,
		Elsewhere: web.PathsAt(cfg.Base + "/openapi.json"),
	}
	routes := scheduleapi.Config{
		Store: cfg.Store, DB: cfg.DB, Base: cfg.Base, MaxBody: cfg.MaxBody, MaxBulk: cfg.MaxBulk,
		Logger: cfg.Logger,
	}.Routes()
	return api.Handler("", cmp.Or(cfg.MaxBody, scheduleapi.MaxBody), append(routes, web.Describe(func() web.Object {
		doc, _ := scheduleapi.Document(cfg.Base, scheduleapi.Comments())
		return doc
	}))), nil
}
