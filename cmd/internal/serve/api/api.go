package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
)

// Prefix is the beginning of every path.
const Prefix = "/api/v1"

// maxBody bounds a body, in bytes.
const maxBody = 64 << 10

// Config configures the handler. Access must be set, and Board, Schedules and DB for New, Stores for
// NewStores and NewAbsent.
type Config struct {
	Board *board.Board
	// Schedules changes schedules, through the pool DB.
	Schedules *schedule.Store
	DB        jobs.DB
	// Base is the beginning of the paths as clients request them, if they are below another path.
	// Only the description and the header Location use it.
	Base string
	// Stores are the stores that NewStores lists, and of which NewAbsent says why they are down.
	Stores *board.Stores
	// Access finds the owner of a token. Handlers of one server share it.
	Access *web.Access
	// OpenReading allows reading without a token, for a server that only this machine reaches.
	OpenReading bool
	// Logger gets the errors that clients do not see, and a line for each change of a schedule. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

type api struct {
	Config
	web web.API
}

// New returns the handler of everything below Prefix, except the list of stores.
func New(cfg Config) http.Handler {
	a := newAPI(cfg)
	a.web.Elsewhere = web.PathsAt(cfg.Base + Prefix + "/openapi.json")
	return a.web.Handler(Prefix, maxBody, a.routes())
}

// NewStores returns the handler of the list of several stores. Each of them has a handler of New.
func NewStores(cfg Config) http.Handler {
	a := newAPI(cfg)
	a.web.Elsewhere = "there is no such path: " + Prefix + "/stores lists the stores, and the API of each is below " +
		"/stores/NAME" + Prefix + ", whose openapi.json describes its paths"
	return a.web.Handler(Prefix, maxBody, a.storeRoutes())
}

// NewAbsent returns the handler of the API of stores without a handler of New. It answers 503 for a
// store that is down, and otherwise 404. The paths of its requests begin with the name of a store.
func NewAbsent(cfg Config) http.Handler {
	return newAPI(cfg).web.Refuse(func(r *http.Request) error {
		if store, _, why := cfg.Stores.Of(r.URL.Path); why != nil {
			return web.NewProblem(http.StatusServiceUnavailable,
				fmt.Sprintf("store %s cannot be read: %s", store, spoken.Error(why.Error())))
		}
		return web.NewProblem(http.StatusNotFound, "there is no store of this name: "+Prefix+"/stores lists the stores")
	})
}

func newAPI(cfg Config) *api {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	a := &api{Config: cfg}
	a.web = web.API{Who: a.who, Problem: problemOf, Logger: cfg.Logger}
	return a
}

// who returns the sender of a request.
func (a *api) who(r *http.Request) (web.Who, bool, error) {
	if _, given := web.Bearer(r); !given {
		return web.Who{Name: web.Anybody, Address: a.Access.Address(r).String()},
			a.OpenReading && r.Header.Get("Authorization") == "", nil
	}
	return a.Access.Who(r)
}

// statuses are the HTTP statuses of errors that clients may see.
var statuses = merged(scheduleapi.Statuses, map[error]int{
	board.ErrNotFound: http.StatusNotFound, rulestore.ErrNotFound: http.StatusNotFound,
	board.ErrReader:     http.StatusForbidden,
	board.ErrCatchingUp: http.StatusConflict, board.ErrLocked: http.StatusConflict,
	slots.ErrStopped: http.StatusServiceUnavailable,
})

func problemOf(err error) *web.Problem {
	if refused, ok := errors.AsType[*action.RefusedError](err); ok {
		return web.NewProblem(http.StatusUnprocessableEntity, refused.Reason)
	}
	return web.ProblemOf(err, statuses)
}
