package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/web"
)

// Multi runs the daemons of several stores in one process, and tells their health. A store without a
// name is the only one. It is safe for concurrent use.
type Multi struct {
	ctx      context.Context
	cfg      MultiConfig
	notifier notifier
	work     sync.WaitGroup

	mu      sync.Mutex
	members map[string]member
}

// MultiConfig configures a Multi. Every zero field means its default.
type MultiConfig struct {
	// MayRead and Systemd are as in Config.
	MayRead func(r *http.Request) bool
	Systemd bool
	// Logger gets warnings. Defaults to slog.Default().
	Logger *slog.Logger
}

// member is a store of a Multi.
type member struct {
	daemon *daemon // nil: it could not be begun
	down   error   // why it could not be begun
}

// MultiHealth is the state of several stores, which /healthz returns as JSON.
type MultiHealth struct {
	// OK tells that there are no problems. A sender that may not read gets this alone.
	OK bool `json:"ok"`
	// Problems are those of all stores, each after the name of its store.
	Problems []string `json:"problems"`
	// Stores holds the health of the daemons that could be begun, by store.
	Stores map[string]Health `json:"stores"`
}

// multiEvery is how often the daemon tells systemd its state.
const multiEvery = time.Second

// Paths returns the paths that Multi.Handler serves.
func Paths() []string { return []string{"/healthz", "/readyz", "/livez"} }

// NewMulti returns a Multi without stores. It tells systemd the state until ctx ends.
func NewMulti(_ reserved.Caller, ctx context.Context, cfg MultiConfig) *Multi {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.MayRead == nil {
		cfg.MayRead = nobody
	}
	m := &Multi{ctx: ctx, cfg: cfg, notifier: notifier{cfg.Systemd, cfg.Logger}, members: map[string]member{}}
	m.work.Go(func() { m.notifier.feedWatchdog(ctx, m.alive) })
	m.work.Go(m.tell)
	return m
}

// Close waits until systemd was told that the process stops. Call it when the context of NewMulti
// has ended.
func (m *Multi) Close() { m.work.Wait() }

// Run is the function Run for a store, without a server and without systemd.
func (m *Multi) Run(ctx context.Context, store string, cfg Config) error {
	d, err := newDaemon(cfg)
	if err != nil {
		return err
	}
	m.add(store, d)
	return d.runSlots(ctx)
}

func (m *Multi) add(store string, d *daemon) { m.set(store, member{daemon: d}) }

// Down marks the store as unreachable with the given error.
func (m *Multi) Down(store string, err error) { m.set(store, member{down: err}) }

func (m *Multi) set(store string, is member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[store] = is
}

// Gone removes a store.
func (m *Multi) Gone(store string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, store)
}

// list returns the stores by name, and the members.
func (m *Multi) list() (names []string, members map[string]member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.members)), maps.Clone(m.members)
}

// health returns the state of all stores. With look it reads the ledgers, otherwise it returns what
// is known.
func (m *Multi) health(ctx context.Context, look bool) MultiHealth {
	h := MultiHealth{Problems: []string{}, Stores: map[string]Health{}}
	names, members := m.list()
	found := make([]Health, len(names))
	var looking sync.WaitGroup
	for i, name := range names {
		if d := members[name].daemon; d != nil {
			looking.Go(func() {
				found[i] = d.health()
				if look {
					d.findings(ctx, &found[i])
				}
			})
		}
	}
	looking.Wait()
	for i, name := range names {
		of := "store " + name + ": "
		if name == "" {
			of = ""
		}
		if is := members[name]; is.daemon == nil {
			h.Problems = append(h.Problems, fmt.Sprint(of, is.down))
			continue
		}
		found[i].OK = len(found[i].Problems) == 0
		h.Stores[name] = found[i]
		for _, problem := range found[i].Problems {
			h.Problems = append(h.Problems, of+problem)
		}
	}
	if m.ctx.Err() != nil && !slices.Contains(h.Problems, stoppingText) {
		h.Problems = append(h.Problems, stoppingText)
	}
	h.OK = len(h.Problems) == 0
	return h
}

// ready reports whether slots of any store are run. One unreachable database is no reason to send the
// other stores' traffic away.
func (m *Multi) ready() bool { return m.ctx.Err() == nil && m.any((*daemon).isReady) }

// alive reports whether no daemon hangs. A stop takes as long as the grace period of checks.
func (m *Multi) alive() bool {
	return m.ctx.Err() != nil || !m.any(func(d *daemon) bool { return !d.isAlive() })
}

func (m *Multi) any(is func(d *daemon) bool) bool {
	_, members := m.list()
	for _, m := range members {
		if m.daemon != nil && is(m.daemon) {
			return true
		}
	}
	return false
}

// tell reports the state of all stores to systemd.
func (m *Multi) tell() {
	if !m.notifier.on {
		return
	}
	ticker := time.NewTicker(multiEvery)
	defer ticker.Stop()
	for ready := false; ; {
		if !ready && m.ready() {
			ready = true
			m.notifier.ready()
		}
		m.notifier.status(m.health(m.ctx, false).status())
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			m.notifier.stopping()
			return
		}
	}
}

// status describes the state to the readers of `systemctl status`.
func (h MultiHealth) status() string {
	if one, single := h.Stores[""]; single {
		return one.status()
	}
	if len(h.Problems) > 0 {
		return strings.Join(h.Problems, "; ")
	}
	return "well, " + spoken.Count(len(h.Stores), "store", "stores")
}

// Handler serves Paths. Of a store without a name, /healthz returns a Health, otherwise it returns a
// MultiHealth.
func (m *Multi) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		h := m.health(r.Context(), true)
		var all any = h
		if one, single := h.Stores[""]; single {
			one.OK, one.Problems = h.OK, h.Problems
			all = one
		}
		if !m.cfg.MayRead(r) {
			all = map[string]bool{"ok": h.OK}
		}
		web.WriteHealth(w, h.OK, all)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready := m.ready()
		web.WriteHealth(w, ready, map[string]bool{"ready": ready})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		alive := m.alive()
		web.WriteHealth(w, alive, map[string]bool{"alive": alive})
	})
	return mux
}
