package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/web"
)

const (
	// healthTimeout bounds the wait of a request for the health. After it, the answer is what was last
	// known.
	healthTimeout = 800 * time.Millisecond
	// silentFor is how long a read of the state may wait for a database that then counts as unreadable.
	silentFor = 10 * time.Second
	// freshFor is the age from which on the answer has its age.
	freshFor = 10 * time.Second
)

// state is what is known about the health of all stores.
type state struct {
	problems []string
	readable bool          // a store can be read
	age      time.Duration // of the oldest part of it
}

// health serves daemon.Paths for a server that runs no slots.
func (s *Server) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		v := s.look(r.Context())
		ok := len(v.problems) == 0
		health := map[string]any{"ok": ok}
		if s.policy.mayRead(s.policy.health, r) {
			health["problems"] = v.problems
		}
		web.WriteHealth(w, ok, v.aged(health))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		v := s.look(r.Context())
		web.WriteHealth(w, v.readable, v.aged(map[string]any{"ready": v.readable}))
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		web.WriteHealth(w, true, map[string]bool{"alive": true})
	})
	return mux
}

// aged adds the age of a state that is not fresh.
func (v state) aged(answer map[string]any) map[string]any {
	if v.age >= freshFor {
		answer["age"] = duration.Text(v.age.Round(time.Second))
	}
	return answer
}

// look returns what is known about all stores. It waits at most healthTimeout for their databases.
func (s *Server) look(ctx context.Context) state {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	v := state{problems: []string{}}
	for _, g := range s.stores.Glance(ctx) {
		of := "store " + g.Name + ": "
		if g.Name == "" {
			of = ""
		}
		switch {
		case g.Error != "":
			v.problems = append(v.problems, of+"the database cannot be read")
		case g.Silent >= silentFor:
			v.problems = append(v.problems, of+fmt.Sprintf("the database has not answered for %s",
				duration.Text(g.Silent.Truncate(time.Second))))
		default:
			v.readable = true
		}
		v.age = max(v.age, g.Age)
		for _, f := range g.Findings {
			v.problems = append(v.problems, of+f.Condition)
		}
	}
	return v
}
