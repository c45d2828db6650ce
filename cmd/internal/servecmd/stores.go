package servecmd

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/cmd/internal/advice"
	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/multistore"
	"github.com/prescient-go/prescient/cmd/internal/server"
	"github.com/prescient-go/prescient/cmd/serve/api"
	"github.com/prescient-go/prescient/cmd/serve/board"
	"github.com/prescient-go/prescient/cmd/serve/pages"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/slots"
)

// boards are the served stores.
type boards struct {
	stores board.Stores
	plans  slots.Bound
	api    api.Config
	pages  *pages.Pages // of all

	mu      sync.Mutex
	serving map[string]serving // by store
}

// serving has the handlers of a store.
type serving struct {
	http.Handler
	pages *pages.Pages
}

// serveBoards serves every store, until ctx ends. It retries a store that cannot be read.
func serveBoards(ctx context.Context, f *factory.Factory, door door) (err error) {
	pools := database.NewPools(f)
	defer func() { err = errors.Join(err, pools.Close()) }()
	b := &boards{plans: board.NewPlans(), serving: map[string]serving{}}
	b.api = door.api(f)
	b.api.Stores = &b.stores
	list, err := api.NewStores(b.api)
	if err != nil {
		return err
	}
	cfg := door.pages(f)
	cfg.Stores = &b.stores
	if b.pages, err = pages.NewStores(cfg); err != nil {
		return err
	}
	_, end, err := web.Listen(ctx, f.Config().Serve.Listen, guarded(f, door, b.handler(door, list)), f.Log())
	if err != nil {
		return err
	}
	k := multistore.Keeper{
		Pools: pools, Every: server.FindAgain,
		Run: func(ctx context.Context, s multistore.Store) error { return b.run(ctx, f.Of(s, pools)) },
	}
	k.Failed = func(store string, err error) {
		if err != nil && ctx.Err() == nil {
			err = errors.New(advice.Hint(f, err))
			f.Log().ErrorContext(ctx, "the store cannot be served; trying again", "store", store, "error", err)
		}
		b.stores.SetDown(store, err)
	}
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { k.Keep(going) })
	<-ctx.Done()
	f.Log().InfoContext(ctx, "server is stopping")
	b.close()
	end()
	stop() // no request is left
	work.Wait()
	return nil
}

// close ends the streams of all watchers.
func (b *boards) close() {
	b.pages.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.serving {
		s.pages.Close()
	}
}

// run serves a store until ctx ends.
func (b *boards) run(ctx context.Context, f *factory.Factory) error {
	return checks.With(ctx, f, nil, func(bound *checks.Bound) error {
		read, err := newBoard(ctx, f, bound, b.plans)
		if err != nil {
			return err
		}
		defer read.Close()
		cfg := b.api
		cfg.Board, cfg.Base, cfg.Logger = read, pages.StorePath(f.Scope().Store), f.Log()
		answers, err := api.New(cfg)
		if err != nil {
			return err
		}
		shown, err := b.pages.Of(f.Scope().Store, read)
		if err != nil {
			return err
		}
		defer shown.Close()
		mux := http.NewServeMux()
		mux.Handle("/", shown)
		mux.Handle("/api/", answers)
		b.mu.Lock()
		b.serving[f.Scope().Store] = serving{mux, shown}
		b.mu.Unlock()
		b.stores.SetUp(f.Scope().Store, read)
		<-ctx.Done()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.serving, f.Scope().Store)
		return nil
	})
}

// handler returns the handler of all paths.
func (b *boards) handler(door door, list http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", b.pages)
	mux.Handle("/api/", list)
	mux.HandleFunc("/stores/", b.serveStore)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		problems := []string{}
		for _, s := range b.stores.Look(ctx).Stores {
			if s.Error != "" {
				problems = append(problems, "store "+s.Name+": the database cannot be read")
			}
			for _, f := range s.Findings {
				problems = append(problems, "store "+s.Name+": "+f.Condition)
			}
		}
		writeProblems(w, problems, door.mayRead(r))
	})
	return mux
}

// serveStore gives a request to the handler of its store. The name of a store may have a slash.
func (b *boards) serveStore(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/stores/")
	b.mu.Lock()
	var store string
	for name := range b.serving {
		if path == name || strings.HasPrefix(path, name+"/") {
			store = name
		}
	}
	handler, known := b.serving[store]
	b.mu.Unlock()
	switch {
	case !known:
		b.pages.ServeHTTP(w, r) // which has no such page
	case path == store:
		http.Redirect(w, r, pages.StorePath(store)+"/", http.StatusSeeOther)
	default:
		http.StripPrefix(pages.StorePath(store), handler).ServeHTTP(w, r)
	}
}
