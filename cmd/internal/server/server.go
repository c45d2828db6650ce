// Package server is the HTTP server of serve and daemon: one handler of pages, API, schedules, health
// and metrics. It knows no command.
package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/cmd/internal/advice"
	"github.com/prescient-go/prescient/cmd/internal/each"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/serve/api"
	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/serve/pages"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots"
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
	door   door
	stores board.Stores
	plans  slots.Bound
	top    *pages.Pages    // the pages of several stores; nil: of one
	list   http.Handler    // the API of several stores; nil: of one
	up     chan struct{}   // closed when a single store is served
	ending context.Context // ends when the process begins to stop

	mu      sync.Mutex
	serving map[string]serving // by store
}

// serving has the handler of a store.
type serving struct {
	http.Handler
	pages *pages.Pages
}

// New returns a Server for an address. It logs what is dangerous in the settings.
func New(ctx context.Context, f *factory.Factory, listen string) (*Server, error) {
	warn(ctx, f, listen)
	s := &Server{
		f: f, listen: listen, plans: board.NewPlans(), serving: map[string]serving{}, Metrics: metrics.NewGroup(),
		up: make(chan struct{}),
	}
	var err error
	if s.door, err = newDoor(f, listen); err != nil {
		return nil, err
	}
	s.Metrics.CountFailures(s.door.access.Failed)
	if f.One() == nil {
		return s, nil
	}
	answers, shown := s.api(f), s.pages()
	answers.Stores, shown.Stores = &s.stores, &s.stores
	if s.list, err = api.NewStores(answers); err != nil {
		return nil, err
	}
	s.top, err = pages.NewStores(shown)
	return s, err
}

// Closed returns why the server has no pages and no API, or nil if it has them.
func (s *Server) Closed() error { return s.door.closed }

// MayRead reports whether the sender of a request may read.
func (s *Server) MayRead(r *http.Request) bool { return s.door.mayRead(r) }

// Begin serves pages and API of every store. It returns when it listens, which is after it has
// connected to a single store. It tries again a store of several that cannot be read. health serves
// daemon.Paths; nil: the health of the stores as the pages show them. When ctx ends, running actions
// stop, and no other begins that would go on after its request. The server answers until stop is
// called. stop ends the streams of watchers, and gives requests some seconds to finish.
func (s *Server) Begin(ctx context.Context, health http.Handler) (stop func() error, err error) {
	s.ending = ctx
	if s.door.closed != nil {
		end, err := s.begin(ctx, health)
		return func() error { end(); return nil }, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	starting := context.AfterFunc(ctx, cancel)
	ended := make(chan error, 1)
	go func() { ended <- s.serve(serving) }()
	if s.top == nil {
		select {
		case <-s.up:
		case err := <-ended:
			cancel()
			return nil, err
		}
	}
	starting()
	end, err := s.begin(ctx, health)
	stop = func() error {
		s.closePages()
		end()
		cancel() // no request is left
		return <-ended
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// serve serves every store until ctx ends.
func (s *Server) serve(ctx context.Context) error {
	return each.Keep(ctx, s.f, s.serveStore, func(store string, err error) {
		if err != nil {
			err = errors.New(advice.Hint(s.f, err))
		}
		s.stores.SetDown(store, err)
	})
}

// begin begins to listen. end may be called after an error, too.
func (s *Server) begin(ctx context.Context, health http.Handler) (end func(), err error) {
	if health == nil {
		health = s.health()
	}
	measured := s.Metrics.Handler()
	if s.door.tokens || s.door.closed == nil {
		measured = s.door.readers(measured)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", measured)
	for _, path := range daemon.Paths {
		mux.Handle(path, health)
	}
	mux.Handle("/", s.content())
	_, end, err = web.Listen(ctx, s.listen, web.Guard(hosts(s.f, s.listen), "server.hosts", mux), s.f.Log())
	if err != nil {
		return func() {}, fmt.Errorf("serve HTTP: %w", err)
	}
	return end, nil
}

// closePages ends the streams of all watchers.
func (s *Server) closePages() {
	if s.top != nil {
		s.top.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, store := range s.serving {
		store.pages.Close()
	}
}

// content returns the handler of pages and API.
func (s *Server) content() http.Handler {
	if s.door.closed != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this server has no pages and no API without server.token or server.read_token", http.StatusNotFound)
		})
	}
	if s.top == nil {
		return http.HandlerFunc(s.single)
	}
	mux := http.NewServeMux()
	mux.Handle("/", s.top)
	mux.Handle("/api/", s.list)
	mux.HandleFunc("/stores/", s.one)
	return mux
}

// single gives a request to the handler of the only store.
func (s *Server) single(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	store, known := s.serving[""]
	s.mu.Unlock()
	if !known {
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	store.ServeHTTP(w, r)
}

// one gives a request to the handler of its store. The name of a store may have a slash.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/stores/")
	s.mu.Lock()
	var name string
	for store := range s.serving {
		if path == store || strings.HasPrefix(path, store+"/") {
			name = store
		}
	}
	store, known := s.serving[name]
	s.mu.Unlock()
	switch {
	case !known:
		s.top.ServeHTTP(w, r) // which has no such page
	case path == name:
		http.Redirect(w, r, pages.StorePath(name)+"/", http.StatusSeeOther)
	default:
		http.StripPrefix(pages.StorePath(name), store).ServeHTTP(w, r)
	}
}
