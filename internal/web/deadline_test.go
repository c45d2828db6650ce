package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEachRequestIsAnsweredByItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := make(chan struct{})
		defer close(dead)
		causes := make(chan error, 1)
		h := deadlines(10*time.Second, 30*time.Second, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			causes <- context.Cause(r.Context())
			if r.URL.Path == "/stuck" {
				<-dead
			}
			w.Header().Set("Content-Type", "text/plain")
			http.Error(w, "its own", http.StatusServiceUnavailable)
		}), ProblemJSON, lateProblem)
		for _, test := range []struct {
			method, path string
			after        time.Duration
			media, text  string
		}{
			{http.MethodGet, "/", 10 * time.Second, "text/plain; charset=utf-8", "its own\n"},
			{http.MethodPost, "/", 30 * time.Second, "text/plain; charset=utf-8", "its own\n"},
			{http.MethodGet, "/stuck", 11 * time.Second, ProblemJSON, lateProblem},
			{http.MethodPost, "/stuck", 31 * time.Second, ProblemJSON, lateProblem},
		} {
			w, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader("")))
			if took := time.Since(began); took != test.after || w.Code != http.StatusServiceUnavailable ||
				w.Header().Get("Content-Type") != test.media || w.Body.String() != test.text {
				t.Errorf("%s %s: %d after %s, %s %s", test.method, test.path, w.Code, took, w.Header(), w.Body)
			}
			if test.path == "/stuck" && (w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("a late answer has the headers %s", w.Header())
			}
			if cause := <-causes; !errors.Is(cause, ErrLate) {
				t.Errorf("the cause is %v", cause)
			}
		}
	})
}
