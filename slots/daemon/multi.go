package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
)

// Multi runs the daemons of many stores in one process, with one server. It is safe for concurrent
// use.
type Multi struct {
	cfg      MultiConfig
	notifier notifier
	end      func()

	mu      sync.Mutex
	members map[string]*member
}

// MultiConfig configures a Fleet. Every zero field means its default.
type MultiConfig struct {
	// Listen is as in Config.
	Listen string
	// Hosts and MayRead are as in Config.
	Hosts   []string
	MayRead func(r *http.Request) bool
	// Handler serves every path except /healthz, /readyz, /livez and those below /stores/. Defaults
	// to 404.
	Handler http.Handler
	// Systemd is as in Config.
	Systemd bool
	// Logger gets warnings. Defaults to slog.Default().
	Logger *slog.Logger
}

// member is a store of a fleet.
type member struct {
	daemon  *daemon // nil: it could not be begun
	serving http.Handler
	down    error // why it could not be begun
}

// MultiHealth is the state of the stores of a fleet, which /healthz returns as JSON.
type MultiHealth struct {
	// OK tells that there are no problems. A sender that may not read gets this alone.
	OK bool `json:"ok"`
	// Problems are those of all stores, each after the name of its store.
	Problems []string `json:"problems"`
	// Stores holds the health of the daemons that could be begun, by store.
	Stores map[string]Health `json:"stores"`
}

// fleetEvery is how often systemd is told the state of a fleet.
const fleetEvery = time.Second

// NewMulti starts to serve, until ctx ends and Close is called. Returns an error if it cannot
// listen on the address.
func NewMulti(ctx context.Context, cfg MultiConfig) (*Multi, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MayRead == nil {
		cfg.MayRead = nobody
	}
	f := &Multi{cfg: cfg, notifier: notifier{cfg.Systemd, cfg.Logger}, members: map[string]*member{}, end: func() {}}
	if cfg.Listen != "" {
		var err error
		if _, f.end, err = web.Listen(ctx, cfg.Listen, f.handler(ctx), cfg.Logger); err != nil {
			return nil, fmt.Errorf("serve health: %w", err)
		}
	}
	go f.notifier.feedWatchdog(ctx, f.alive)
	go f.tell(ctx)
	return f, nil
}

// Close stops the server.
func (f *Multi) Close() { f.end() }

// Run is the function Run for a store, without a server and without systemd: the fleet has them.
// The fleet serves Config.Handler below /stores/STORE/.
func (f *Multi) Run(ctx context.Context, store string, cfg Config) error {
	cfg.Listen, cfg.Systemd = "", false
	d, err := newDaemon(cfg)
	if err != nil {
		return err
	}
	ctx, d.stop = context.WithCancel(ctx)
	defer d.stop()
	f.mu.Lock()
	f.members[store] = &member{daemon: d, serving: cfg.Handler}
	f.mu.Unlock()
	return d.runSlots(ctx)
}

// Down marks the store as unreachable with the given error. A nil error removes the store.
func (f *Multi) Down(store string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[store] = &member{down: err}
}

// Gone removes a store.
func (f *Multi) Gone(store string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.members, store)
}

// list returns the stores by name, and the members.
func (f *Multi) list() (names []string, members map[string]*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.members)), maps.Clone(f.members)
}

// health returns the state of all stores. With look it reads the ledgers, otherwise it returns what
// is known.
func (f *Multi) health(ctx context.Context, look bool) MultiHealth {
	h := MultiHealth{Problems: []string{}, Stores: map[string]Health{}}
	names, members := f.list()
	found := make([]Health, len(names))
	var looking sync.WaitGroup
	for i, name := range names {
		if d := members[name].daemon; d != nil {
			looking.Go(func() {
				found[i] = d.health(false)
				if look {
					d.findings(ctx, &found[i])
				}
			})
		}
	}
	looking.Wait()
	for i, name := range names {
		if m := members[name]; m.daemon == nil {
			h.Problems = append(h.Problems, fmt.Sprintf("store %s: %v", name, m.down))
			continue
		}
		h.Stores[name] = found[i]
		for _, problem := range found[i].Problems {
			h.Problems = append(h.Problems, "store "+name+": "+problem)
		}
	}
	return h
}

// ready tells whether slots of any store are run. One unreachable database is no reason to send the
// other stores' traffic away.
func (f *Multi) ready() bool {
	return f.any(func(d *daemon) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.ready && d.down == nil
	})
}

// alive tells whether no daemon hangs.
func (f *Multi) alive() bool {
	return !f.any(func(d *daemon) bool { return !d.alive(d.patience) })
}

func (f *Multi) any(is func(d *daemon) bool) bool {
	_, members := f.list()
	for _, m := range members {
		if m.daemon != nil && is(m.daemon) {
			return true
		}
	}
	return false
}

// tell reports the state of all stores to systemd, until ctx ends.
func (f *Multi) tell(ctx context.Context) {
	if !f.notifier.on {
		return
	}
	ticker := time.NewTicker(fleetEvery)
	defer ticker.Stop()
	for ready := false; ; {
		if !ready && f.ready() {
			ready = true
			f.notifier.ready()
		}
		if h := f.health(ctx, false); len(h.Problems) > 0 {
			f.notifier.status(strings.Join(h.Problems, "; "))
		} else {
			f.notifier.status("well, " + spoken.Count(len(h.Stores), "store", "stores"))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.notifier.stopping()
			return
		}
	}
}

// handler serves /healthz, /readyz, /livez, the handlers of the stores below /stores/STORE/, and
// MultiConfig.Handler.
func (f *Multi) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		h := f.health(r.Context(), true)
		if ctx.Err() != nil {
			h.Problems = append(h.Problems, "the daemon is stopping")
		}
		h.OK = len(h.Problems) == 0
		writeHealth(w, h.OK, h, f.cfg.MayRead(r))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready := f.ready() && ctx.Err() == nil
		web.WriteHealth(w, ready, map[string]bool{"ready": ready})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		alive := ctx.Err() != nil || f.alive()
		web.WriteHealth(w, alive, map[string]bool{"alive": alive})
	})
	mux.HandleFunc("/stores/", f.serveStore)
	if f.cfg.Handler != nil {
		mux.Handle("/", f.cfg.Handler)
	}
	return guard(f.cfg.Hosts, f.cfg.Listen, mux)
}

// serveStore passes a request to the handler of its store. The name of a store may contain a slash.
func (f *Multi) serveStore(w http.ResponseWriter, r *http.Request) {
	_, members := f.list()
	rest := strings.TrimPrefix(r.URL.Path, "/stores/")
	for name, m := range members {
		if m.serving != nil && strings.HasPrefix(rest, name+"/") {
			http.StripPrefix("/stores/"+name, m.serving).ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}
