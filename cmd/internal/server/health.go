package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prescient-go/prescient/internal/web"
)

// healthTimeout bounds the wait of a request for the health.
const healthTimeout = 5 * time.Second

// health serves daemon.Paths for a server that runs no slots.
func (s *Server) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		problems, _ := s.look(r.Context())
		ok := len(problems) == 0
		health := map[string]any{"ok": ok}
		if s.door.mayRead(r) {
			health["problems"] = problems
		}
		web.WriteHealth(w, ok, health)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		_, ready := s.look(r.Context())
		web.WriteHealth(w, ready, map[string]bool{"ready": ready})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		web.WriteHealth(w, true, map[string]bool{"alive": true})
	})
	return mux
}

// look returns the problems of all stores, and whether any of them can be read.
func (s *Server) look(ctx context.Context) (problems []string, readable bool) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	problems = []string{}
	for _, store := range s.stores.Look(ctx).Stores {
		of := "store " + store.Name + ": "
		if store.Name == "" {
			of = ""
		}
		if store.Error != "" {
			problems = append(problems, of+"the database cannot be read")
		} else {
			readable = true
		}
		for _, f := range store.Findings {
			problems = append(problems, of+f.Condition)
		}
	}
	return problems, readable
}
