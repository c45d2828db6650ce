package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// pings is a service that is told how commands went.
type pings struct {
	mu    sync.Mutex
	paths []string
	last  string // the newest body
	fails int    // answers with 503 that many times first
}

func (p *pings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.paths, p.last = append(p.paths, r.Method+" "+r.URL.Path), string(body)
}

func (p *pings) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.paths...)
}

func TestASilentCronIsNoticedByWhoIsToldOfEachRun(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	service := &pings{fails: 1}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	registry := jobs.NewRegistry()
	registry.Register("broken", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("boom") }))
	run := func(args ...string) Code {
		var out, log bytes.Buffer
		app := New(registry)
		app.Name, app.Out, app.Err = "orders", &out, &log
		return app.Run(t.Context(), args)
	}
	t.Setenv("PRESCIENT_RUN_PING_URL", server.URL+"/ping/uuid")
	if code := run("run", "--catch-up"); code != Done {
		t.Fatal(code)
	}
	if code := run("run", "--slot", "2020-01-01T00:00:01Z"); code != Usage {
		t.Fatal(code)
	}
	// It runs nothing, so the service must not take it for a run.
	if code := run("catch-up", "--dry-run"); code != Done {
		t.Fatal(code)
	}
	want := []string{"POST /ping/uuid/start", "POST /ping/uuid", "POST /ping/uuid/start", "POST /ping/uuid/fail"}
	if diff := cmp.Diff(want, service.told()); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{"msg=connected database=", "is not a slot"} {
		if !strings.Contains(service.last, part) {
			t.Errorf("%q is not in %q", part, service.last)
		}
	}
	// A service that is away is a warning, and no failure.
	server.Close()
	if code := run("catch-up"); code != Done {
		t.Error(code)
	}
}

func TestADaemonTellsOfEachSlotThatBeginsAndIsDone(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	service := &pings{}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	t.Setenv("PRESCIENT_RUN_PING_URL", server.URL)
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, io.Discard
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan Code)
	go func() { ended <- app.Run(ctx, []string{"daemon"}) }()
	for until := time.Now().Add(await.Limit); len(service.told()) < 2 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if code := <-ended; code != Done {
		t.Error(code)
	}
	if diff := cmp.Diff([]string{"POST /start", "POST /"}, service.told()); diff != "" {
		t.Error(diff)
	}
}
