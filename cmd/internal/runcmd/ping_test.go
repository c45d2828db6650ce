package runcmd

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/slots"
)

// pings is a service that is told how commands went.
type pings struct {
	mu    sync.Mutex
	paths []string
	last  string // the newest body
}

func (p *pings) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths, p.last = append(p.paths, r.Method+" "+r.URL.Path), string(body)
}

func (p *pings) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.paths...)
}

// In the daemon a slot is tried again and again, its database may be away, and the service may be slow.
func TestADaemonsPingsArriveInOrderAndHoldNothingUp(t *testing.T) {
	t.Parallel()
	service, slow := &pings{}, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			<-slow
		}
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	settings := config.Default()
	settings.Run.PingURL = config.NewEndpoint(server.URL)
	f := factory.New(factory.Config{Name: "shop", Err: io.Discard})
	f.Use(config.Loaded{Config: settings})
	p, err := newPinger(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, slot := t.Context(), time.Date(2026, time.March, 1, 13, 15, 0, 0, time.UTC)
	p.begins(ctx, slot) // does not wait for the service
	p.begins(ctx, slot)
	p.begins(ctx, slot.Add(time.Second)) // left out
	p.ran(ctx, "", slots.Result{Slot: slot, State: slots.StateOpen}, nil)
	p.ran(ctx, "", slots.Result{Slot: slot}, slots.ErrStopped)
	close(slow)
	p.ran(ctx, "", slots.Result{Slot: slot, State: slots.StateDone}, nil)
	p.begins(ctx, slot.Add(2*time.Second))
	p.ran(ctx, "", slots.Result{Slot: slot.Add(2 * time.Second)}, errors.New("the database is away"))
	if !strings.HasSuffix(service.last, "the database is away\n") {
		t.Errorf("%q", service.last)
	}
	p.ran(ctx, "another store", slots.Result{Slot: slot, State: slots.StateDone}, nil) // which would hide the failure
	p.ran(ctx, "", slots.Result{Slot: slot.Add(2 * time.Second), State: slots.StateDone}, nil)
	p.fails("another store")
	p.ran(ctx, "", slots.Result{Slot: slot.Add(3 * time.Second), State: slots.StateDone}, nil) // which would hide that
	if n := len(service.told()); n != 5 {
		t.Errorf("success while a store cannot be used: %q", service.told())
	}
	p.works("another store")
	p.ran(ctx, "another store", slots.Result{Slot: slot.Add(3 * time.Second), State: slots.StateOpen}, nil)
	want := []string{"POST /start", "POST /", "POST /start", "POST /fail", "POST /", "POST /"}
	if diff := cmp.Diff(want, service.told()); diff != "" {
		t.Error(diff)
	}
}
