// Package httpserver is the HTTP server of serve and daemon: one handler of pages, API, health
// and metrics. It knows no command.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/serve/api"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots/daemon"
	"github.com/prescient-go/prescient/slots/metrics"
)

// Server serves the stores of a command on one address. The paths of a store that the command works
// on alone begin at the root, otherwise at pages.StorePath.
type Server struct {
	// Metrics are served at /metrics.
	Metrics *metrics.Group

	f      *factory.Factory
	listen string
	policy policy
	stores board.Stores
	plans  chan struct{}
	top    *pages.Pages    // the pages of several stores; nil: of one
	list   http.Handler    // the API of several stores; nil: of one
	absent http.Handler    // the API of stores that are down or unknown; nil: of one
	ending context.Context // ends when the process begins to stop
	shut   chan struct{}   // closed when a server of several stores has stopped listening

	mu       sync.Mutex
	stopping bool           // no work begins any more
	working  sync.WaitGroup // stores of several whose work goes on
}

// New returns a Server for an address. It logs what is dangerous in the settings. An empty address
// makes a Server that only works in the stores.
func New(ctx context.Context, f *factory.Factory, listen string) (*Server, error) {
	warn(ctx, f, listen)
	s := &Server{
		f: f, listen: listen, plans: board.NewPlans(), Metrics: metrics.NewGroup(),
		shut: make(chan struct{}),
	}
	var err error
	if s.policy, err = newPolicy(f, listen); err != nil {
		return nil, err
	}
	s.Metrics.CountFailures(s.policy.access.Failed)
	if !f.Many() {
		return s, nil
	}
	answers, shown := s.apiConfig(f), s.pagesConfig()
	answers.Stores, shown.Stores = &s.stores, &s.stores
	s.list = api.NewStores(answers)
	s.absent = http.StripPrefix(pages.StorePath(""), api.NewAbsent(answers))
	s.top = pages.NewStores(shown)
	return s, nil
}

// Closed returns why the server has no pages and no API, or nil if it has them.
func (s *Server) Closed() error { return s.policy.closed }

// Listens reports whether the server has an address.
func (s *Server) Listens() bool { return s.listen != "" }

// MayRead reports whether the sender of a request for the health may read.
func (s *Server) MayRead(r *http.Request) bool { return s.policy.mayRead(s.policy.health, r) }

// Work is the work of a command in its stores.
type Work struct {
	// Run works in a store until ctx ends.
	Run func(ctx context.Context, f *factory.Factory) error
	// Ended is called if the work in a store cannot begin, or has ended early; see database.Keep.
	// Optional.
	Ended func(store string, err error)
	// Health serves daemon.Paths. Default: the health of the stores as the pages show them.
	Health http.Handler
}

// Run works in every store until ctx ends, and serves each store meanwhile. It tries again a store
// of several that cannot be used. It listens at once: a supervisor may ask for the health while the database starts.
//
// When ctx ends, the running actions of the pages stop. The server answers until the work in every
// store has ended. Run then gives requests some seconds to finish.
func (s *Server) Run(ctx context.Context, w Work) error {
	s.ending = ctx
	if w.Ended == nil {
		w.Ended = func(string, error) {}
	}
	for _, store := range database.Awaited(s.f) {
		s.ended(w, store, errors.New("the database has not answered yet"))
	}
	switch {
	case s.listen == "":
		return database.Keep(ctx, s.f, w.Run, w.Ended)
	case s.policy.closed != nil:
		return s.serveHealth(ctx, w)
	case s.top == nil:
		return s.serveOne(ctx, w)
	}
	return s.serveSeveral(ctx, w)
}

// serveHealth works in every store, and serves only health and metrics.
func (s *Server) serveHealth(ctx context.Context, w Work) error {
	stop, err := s.startListening(ctx, w.Health, http.HandlerFunc(noContent))
	if err != nil {
		return err
	}
	defer stop()
	s.f.Log().InfoContext(ctx, "only health and metrics are served", "reason", s.policy.closed)
	return database.Keep(ctx, s.f, w.Run, w.Ended)
}

// serveOne works in the only store, and serves it meanwhile.
func (s *Server) serveOne(ctx context.Context, w Work) error {
	stop, err := s.startListening(ctx, w.Health, http.HandlerFunc(s.single))
	if err != nil {
		return err
	}
	stop = sync.OnceFunc(stop)
	defer stop()
	return database.AfterStart(ctx, s.f, func() error {
		return s.serveStore(ctx, s.f, func() error {
			err := w.Run(ctx, s.f)
			if ctx.Err() != nil {
				stop() // while the store can still answer the last requests
			}
			return err
		})
	})
}

// serveSeveral works in every store of several, and serves each meanwhile.
func (s *Server) serveSeveral(ctx context.Context, w Work) error {
	stop, err := s.startListening(ctx, w.Health, s.several())
	if err != nil {
		return err
	}
	kept := make(chan error, 1)
	go func() {
		kept <- database.Keep(ctx, s.f, func(own context.Context, f *factory.Factory) error {
			return s.serveStore(own, f, func() error { return s.work(own, f, w) })
		}, func(store string, err error) { s.ended(w, store, err) })
	}()
	<-ctx.Done()
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.working.Wait()
	stop()
	close(s.shut)
	return <-kept
}

// work works in a store of several. When the process stops, it returns after the last request, so
// that the pages of every store show how the work ends.
func (s *Server) work(ctx context.Context, f *factory.Factory, w Work) error {
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil
	}
	s.working.Add(1)
	s.mu.Unlock()
	err := w.Run(ctx, f)
	s.working.Done()
	if s.ending.Err() != nil {
		<-s.shut
	}
	return err
}

// ended is told why the work in a store cannot begin, or has ended early.
func (s *Server) ended(w Work, store string, err error) {
	w.Ended(store, err)
	if err != nil {
		err = errors.New(database.Hint(s.f, err))
	}
	s.stores.SetDown(store, err)
}

// startListening starts the HTTP server. content serves pages and API. stop gives requests some
// seconds to finish.
func (s *Server) startListening(ctx context.Context, health, content http.Handler) (stop func(), err error) {
	if health == nil {
		health = s.health()
	}
	measured := s.Metrics.Handler()
	if s.policy.tokens || s.policy.closed == nil {
		measured = s.policy.readers(measured)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", measured)
	for _, path := range daemon.Paths() {
		mux.Handle(path, health)
	}
	mux.Handle("/", content)
	_, shutdown, err := web.Listen(ctx, s.listen, web.Guard(hosts(s.f, s.listen), "server.hosts", mux), s.f.Log())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("serve HTTP: %w: another process listens there, perhaps another serve or daemon. End it, or "+
			"choose another address with --listen or server.listen", err)
	}
	if err != nil {
		return nil, fmt.Errorf("serve HTTP: %w", err)
	}
	return shutdown, nil
}

// noContent answers requests for pages and API if there are none.
func noContent(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this server has no pages and no API without server.token or server.read_token", http.StatusNotFound)
}

// single gives a request to the handler of the only store.
func (s *Server) single(w http.ResponseWriter, r *http.Request) {
	_, store, _ := s.stores.Of("")
	if store == nil { // the error is for the log: anybody may ask here
		http.Error(w, "there are no pages and no API before the database answers: see the log of this process",
			http.StatusServiceUnavailable)
		return
	}
	store.ServeHTTP(w, r)
}

// several returns the handler of pages and API of several stores.
func (s *Server) several() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.top)
	mux.Handle("/api", s.list)
	mux.Handle("/api/", s.list)
	mux.HandleFunc(pages.StorePath(""), s.ofStore)
	return mux
}

// ofStore gives a request to the handler of its store. Without the right to read, the answer does
// not depend on whether there is such a store.
func (s *Server) ofStore(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, pages.StorePath(""))
	name, store, _ := s.stores.Of(path)
	isAPI := strings.Contains(path+"/", api.Prefix+"/")
	switch {
	case isAPI && store == nil:
		s.absent.ServeHTTP(w, r)
	case !isAPI && (store == nil || !s.top.MayRead(r)):
		s.top.ServeHTTP(w, r)
	case path == name:
		http.Redirect(w, r, pages.StorePath(name)+"/", http.StatusSeeOther)
	default:
		http.StripPrefix(pages.StorePath(name), store).ServeHTTP(w, r)
	}
}
