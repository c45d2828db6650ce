package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/web"
)

// FindAgain is how often serve and daemon look for stores that are new, or that they could not use.
// A test shortens it.
var FindAgain = 30 * time.Second

// Keys returns the tokens of server.token and server.read_token.
func Keys(f *factory.Factory) (web.Keys, error) {
	cfg := f.Config().Server
	keys, err := web.NewNamedKeys(strings.Fields(cfg.Token.Reveal()), strings.Fields(cfg.ReadToken.Reveal()))
	if err != nil {
		return nil, exit.Usagef("server.token, server.read_token: %w", err)
	}
	return keys, nil
}

// ReadersOnly refuses requests without the right to read.
func ReadersOnly(mayRead func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayRead(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			http.Error(w, "send the header Authorization: Bearer, and a token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WithMetrics returns a handler that serves /metrics with metrics, and every other path with next,
// which may be nil.
func WithMetrics(metrics, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	if next != nil {
		mux.Handle("/", next)
	}
	return mux
}
