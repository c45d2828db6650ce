package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a daemon. Runner.DB and Runner.Registry must be set; every other zero field means its default.
type Config struct {
	// Runner is what runs a slot; one is made of it for each. Runner.DB needs what Pool says. Its Workers and
	// Connections, and the limit of a job's concurrency, hold for each slot that is run at the same time.
	Runner slots.Config
	// Slots is how many slots are run at once, besides catch-up: more than one when checks take longer than the width.
	// Default 2.
	Slots int
	// Keep is how long history and the ledger are kept: once a day, and at the start, what ended before is dropped, as
	// `jobs prune` does. Default 0: everything is kept.
	Keep time.Duration
	// Listen is the address of the HTTP server, as host:port. Default: none.
	Listen string
	// Hosts are the names that clients ask the server by, besides localhost, addresses, the name of the machine and that in
	// Listen. A request by another name is refused: a page of another site could have its name lead here. Default: none.
	Hosts []string
	// MayRead tells whether who sends a request may see what is wrong, which /healthz tells in Problems: it has names of
	// jobs and errors. Default: nobody may, and all are told whether something is.
	MayRead func(r *http.Request) bool
	// Handler serves every path but /healthz, /readyz and /livez. A request must come within 30 s, and its answer be
	// taken within a minute, unless the handler extends that by http.ResponseController. Default: 404.
	Handler http.Handler
	// Begins is told of each run before it begins, which it holds up. Default: nobody is.
	Begins func(ctx context.Context, slot time.Time)
	// Ran is told of each run that has ended, and of one that could not begin since the database cannot be used: how often
	// depends on how often one was begun, while others are at the slot. Default: nobody is.
	Ran func(ctx context.Context, result slots.Result, err error)
	// Systemd tells systemd of the daemon's state and keeps its watchdog off, where NOTIFY_SOCKET and WATCHDOG_USEC are
	// set; it is for a process that is nothing but this daemon.
	Systemd bool
}

// DefaultSlots is how many slots are run at once where Config sets none.
const DefaultSlots = 2

// Pool is how many connections a daemon may need at once: those of a runner for each of Slots, and for catch-up. All
// of them are used only when slots overlap and their checks take transactions.
func (c Config) Pool() int {
	connections := cmp.Or(c.Runner.Connections, slots.DefaultConnections)
	return (cmp.Or(c.Slots, DefaultSlots) + 1) * (connections + slots.OwnConnections)
}

func nobody(*http.Request) bool { return false }

// daemon is one call of Run.
type daemon struct {
	cfg      Config
	schema   pgsql.Schema
	log      *slog.Logger
	patience time.Duration // how long the loop may take to come round
	unit     unit
	state
}

func newDaemon(cfg Config) (*daemon, error) {
	if pgsql.Sqlx(cfg.Runner.DB) == nil || cfg.Runner.Registry == nil {
		return nil, errors.New("daemon.Config: Runner.DB and Runner.Registry must be set")
	}
	cfg.Slots = cmp.Or(cfg.Slots, DefaultSlots)
	if cfg.Slots < 1 || cfg.Keep < 0 {
		return nil, errors.New("daemon.Config: Slots must be positive, and Keep not negative")
	}
	schema, err := pgsql.ParseSchema(cfg.Runner.Schema)
	if err != nil {
		return nil, err
	}
	if cfg.MayRead == nil {
		cfg.MayRead = nobody
	}
	if cfg.Begins == nil {
		cfg.Begins = func(context.Context, time.Time) {}
	}
	if cfg.Ran == nil {
		cfg.Ran = func(context.Context, slots.Result, error) {}
	}
	cfg.Runner.Logger = cmp.Or(cfg.Runner.Logger, slog.Default())
	d := &daemon{cfg: cfg, schema: schema, log: cfg.Runner.Logger, patience: 3 * pgsql.ReplyTimeout, unit: unit{cfg.Systemd, cfg.Runner.Logger}}
	d.state = newState()
	return d, nil
}
