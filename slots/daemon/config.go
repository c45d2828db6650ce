package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a daemon. Runner.DB and Runner.Registry must be set; every other zero field
// means its default.
type Config struct {
	// Runner configures the runner of each slot. Runner.DB needs as many connections as Pool
	// returns. Its Workers, Connections and the concurrency of a job hold for each slot, even when
	// slots run at the same time.
	Runner slots.Config
	// Slots bounds the slots that run at the same time, besides catch-up. More than one run at once
	// when checks take longer than the width. Defaults to 2.
	Slots int
	// Keep is how long history and the ledger are kept. At the start and once a day, the daemon
	// drops what ended before, as `jobs prune` does. Defaults to 0: it keeps everything.
	Keep time.Duration
	// Listen is the address of the HTTP server, as host:port. Defaults to no server.
	Listen string
	// Hosts are further names of the server in requests. It also accepts localhost, addresses, the
	// machine's name and that in Listen. It refuses every other name, because a page of another
	// site could point its name here. Optional.
	Hosts []string
	// MayRead reports whether the sender of a request may see the problems in /healthz, which name
	// jobs and errors. Every sender may see whether there are problems. Defaults to false for all
	// requests.
	MayRead func(r *http.Request) bool
	// Handler serves every path except /healthz, /readyz and /livez. A client has 30 s to send a
	// request and one minute to read the answer. The handler can extend both by
	// http.ResponseController. Defaults to 404.
	Handler http.Handler
	// BeforeRun is called before each run and blocks it. Optional.
	BeforeRun func(ctx context.Context, slot time.Time)
	// AfterRun is called after each run, and for a run that could not begin because the database is
	// unreachable. A slot that other runners work on is run again and again, so it may be called
	// often. Optional.
	AfterRun func(ctx context.Context, result slots.Result, err error)
	// Systemd tells systemd the daemon's state and feeds its watchdog, if NOTIFY_SOCKET and
	// WATCHDOG_USEC are set. Set it only if the process is nothing but this daemon.
	Systemd bool
}

// DefaultSlots is the default of Config.Slots.
const DefaultSlots = 2

// Pool returns how many connections a daemon may need at once: those of a runner for each of Slots,
// and for catch-up. A second catch-up has connections of its own except for checks. A daemon uses all
// of them only if slots overlap and their checks take transactions.
func (c Config) Pool() int {
	return (cmp.Or(c.Slots, DefaultSlots)+1)*(c.connections()+slots.OwnConnections) + slots.OwnConnections
}

// connections returns how many checks with a transaction a run does at once.
func (c Config) connections() int { return cmp.Or(c.Runner.Connections, slots.DefaultConnections) }

func nobody(*http.Request) bool { return false }

// daemon is one call of Run.
type daemon struct {
	cfg      Config
	schema   pgsql.Schema
	log      *slog.Logger
	patience time.Duration // how long one turn of the loop may take

	catchUpConnections chan struct{} // bounds the checks with a transaction of all catch-ups
	state
}

func newDaemon(cfg Config) (*daemon, error) {
	if err := cfg.Runner.Validate(); err != nil {
		return nil, fmt.Errorf("daemon.Config: Runner: %w", err)
	}
	cfg.Slots = cmp.Or(cfg.Slots, DefaultSlots)
	if cfg.Slots < 1 || cfg.Keep < 0 {
		return nil, errors.New("daemon.Config: Slots must be positive, and Keep not negative")
	}
	if problem := spoken.Unitless(cfg.Keep); problem != "" {
		return nil, errors.New("daemon.Config: Keep: " + problem)
	}
	schema, err := pgsql.ParseSchema(cfg.Runner.Schema)
	if err != nil {
		return nil, err
	}
	if cfg.BeforeRun == nil {
		cfg.BeforeRun = func(context.Context, time.Time) {}
	}
	if cfg.AfterRun == nil {
		cfg.AfterRun = func(context.Context, slots.Result, error) {}
	}
	cfg.Runner.Logger = cmp.Or(cfg.Runner.Logger, slog.Default())
	cfg.Runner.Progress = oneByOne(cfg.Runner.Progress)
	d := &daemon{
		cfg: cfg, schema: schema, log: cfg.Runner.Logger, patience: 3 * pg.ReplyTimeout, state: newState(),
		catchUpConnections: make(chan struct{}, max(1, cfg.connections())),
	}
	return d, nil
}

// oneByOne returns a function that calls tell, and never concurrently: each run of a daemon has a runner of its own.
func oneByOne(tell func(slots.Progress)) func(slots.Progress) {
	if tell == nil {
		return nil
	}
	var mu sync.Mutex
	return func(p slots.Progress) {
		mu.Lock()
		defer mu.Unlock()
		tell(p)
	}
}
