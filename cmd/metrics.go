package cmd

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/metrics"
)

// measured is withChecks for a command that cron starts. If metrics.file is set, it writes the
// metrics there when the command ends, also after a failure.
func (a *App) measured(ctx context.Context, kind slots.Kind, fn func(db *sqlx.DB, registry *jobs.Registry) error) error {
	path := a.Config().Metrics.File
	if path == "" {
		return stoppedBy(ctx, a.withChecks(ctx, fn))
	}
	a.metrics = metrics.NewStore(a.scope.Store)
	defer func() { a.metrics = nil }()
	err := stoppedBy(ctx, a.withChecks(ctx, func(db *sqlx.DB, registry *jobs.Registry) error {
		a.watch(db, registry)
		defer a.metrics.Read(context.WithoutCancel(ctx))
		return fn(db, registry)
	}))
	var found error
	if codeOf(err) == Found {
		err, found = nil, err // it did what it could
	}
	a.metrics.Ended(kind, err)
	return cmp.Or(errors.Join(err, a.scope.Pools.Write(func() error { return a.metrics.WriteFile(path) })), found)
}

// watch makes the metrics read from a database.
func (a *App) watch(db *sqlx.DB, registry *jobs.Registry) {
	a.metrics.Watch(metrics.Source{DB: db, Schema: a.Config().Database.Schema, Registry: registry, Logger: a.log})
}

// readersOnly refuses requests without the right to read.
func readersOnly(mayRead func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mayRead(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="prescient"`)
			http.Error(w, "send the header Authorization: Bearer, and a token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withMetrics returns a handler that serves /metrics with metrics, and every other path with next,
// which may be nil.
func withMetrics(metrics, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	if next != nil {
		mux.Handle("/", next)
	}
	return mux
}
