package httpserver

import (
	"context"
	"net/http"

	"github.com/prescient-go/prescient/cmd/internal/checks"
	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/serve/api"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// apiConfig returns the configuration of an API without its data.
func (s *Server) apiConfig(f *factory.Factory) api.Config {
	return api.Config{Access: s.policy.api, OpenReading: s.policy.open, Logger: f.Log()}
}

// pagesConfig returns the configuration of pages without their data.
func (s *Server) pagesConfig() pages.Config {
	return pages.Config{
		Command: s.f.Command(), Access: s.policy.access, OpenReading: s.policy.open,
		Secure: s.f.Config().Server.Proxy == "https",
		Logger: s.f.Log(),
	}
}

// serveStore serves a store while work goes on. ctx only bounds the time until work begins.
func (s *Server) serveStore(ctx context.Context, f *factory.Factory, work func() error) error {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach, begun := context.AfterFunc(ctx, cancel), false
	err := checks.Bind(lasting, f, nil, func(bound *checks.Bound) error {
		b, err := s.newBoard(lasting, f, bound)
		if err != nil {
			return err
		}
		defer b.Close()
		// a catch-up of the pages and the slots of a daemon share one grace period
		defer context.AfterFunc(s.ending, b.Stop)()
		handler, err := s.newHandler(lasting, f, bound, b)
		if err != nil {
			return err
		}
		name := f.Store().Own()
		s.stores.SetUp(name, b, handler)
		defer s.stores.SetDown(name, board.ErrOpening)
		detach()
		begun = true
		return work()
	})
	if !begun && ctx.Err() != nil {
		return nil // stopped while it connected
	}
	return err
}

// newBoard returns the board of a store.
func (s *Server) newBoard(ctx context.Context, f *factory.Factory, b *checks.Bound) (*board.Board, error) {
	view, err := database.NewView(f, b.Setting)
	if err != nil {
		return nil, err
	}
	return board.New(ctx, board.Config{
		DB: b.DB, Schema: f.Config().Database.Schema, Runner: b.Runner(f, nil), Self: f.Self(),
		Private: view.Private,
		Horizon: f.Config().Jobs.Horizon, MaxPayload: f.Config().Jobs.MaxPayload, Plans: s.plans, Logger: f.Log(),
		Publishing: &schedule.PublishConfig{Publisher: b.Publisher, Source: f.Config().Events.Source, Schema: f.Schema()},
	})
}

// newHandler returns the handler of a store's pages and API.
func (s *Server) newHandler(
	ctx context.Context, f *factory.Factory, bound *checks.Bound, b *board.Board,
) (http.Handler, error) {
	name, base := f.Store().Own(), ""
	if name != "" {
		base = pages.StorePath(name)
	}
	store, err := database.Schedules(ctx, f, bound.DB, bound.Setting)
	if err != nil {
		return nil, err
	}
	cfg := s.apiConfig(f)
	cfg.Board, cfg.Schedules, cfg.DB, cfg.Base = b, store, bound.DB, base
	answers := api.New(cfg)
	mux := http.NewServeMux()
	mux.Handle("/api", answers)
	mux.Handle("/api/", answers)
	mux.Handle("/", s.newPages(name, b))
	return mux, nil
}

// newPages returns the pages of a store.
func (s *Server) newPages(name string, b *board.Board) *pages.Pages {
	if s.top != nil {
		return s.top.Of(name, b)
	}
	cfg := s.pagesConfig()
	cfg.Board = b
	return pages.New(cfg)
}
