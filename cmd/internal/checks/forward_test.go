package checks

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/message"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots/metrics"
)

// While a receiver hangs, it holds up its own messages: the checks of a slot run and are recorded.
func TestAReceiverThatHangsHoldsUpNoCheck(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	hung, release := make(chan struct{}, 10), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hung <- struct{}{}
		<-release
	}))
	t.Cleanup(service.Close)
	b.loaded.Config.Events.AllowedNetworks = config.Prefixes{netip.MustParsePrefix("127.0.0.0/8")}
	b.loaded.Config.Receivers = []config.Receiver{{
		Name: "ops", URL: config.NewAddress("slack+http" + strings.TrimPrefix(service.URL, "http")), PerMinute: 30,
	}}
	b.query("good", always)
	b.bindAll()
	err := b.bound.Forward(t.Context(), b.Factory, false, func() error {
		box := outbox.New(b.db, "")
		list := []event.Event{{ID: "1", Source: "test", Type: message.Type("ops"), Data: []byte(`{"text": "late"}`)}}
		if err := box.Publish(t.Context(), list); err != nil {
			return err
		}
		await.Receive(t, "the message", hung)
		if states := b.run("good"); states["good"] != "done" {
			t.Errorf("while the receiver hangs: %v", states)
		}
		close(release)
		await.True(t, "the message to be recorded", func() bool {
			var sent int
			err := b.db.Get(&sent, "select count(*) from prescient.event_sent")
			return err == nil && sent == 1
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Prometheus learns of a receiver that takes no messages.
func TestMessagesThatAReceiverDoesNotTakeAreCounted(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(service.Close)
	b.loaded.Config.Events.AllowedNetworks = config.Prefixes{netip.MustParsePrefix("127.0.0.0/8")}
	b.loaded.Config.Receivers = []config.Receiver{{
		Name: "ops", URL: config.NewAddress("slack+http" + strings.TrimPrefix(service.URL, "http")), PerMinute: 30,
	}}
	b.Use(b.loaded)
	m := metrics.New()
	cfg, release, err := Forwarding(t.Context(), b.Factory, b.db, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	list := []event.Event{{ID: "1", Source: "test", Type: message.Type("ops"), Data: []byte(`{"text": "late"}`)}}
	if err := cfg.Destinations[0].Publisher.Publish(t.Context(), list); err == nil {
		t.Error("the receiver took it")
	}
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if !strings.Contains(page.Body.String(), "\nprescient_events_failed_total 1\n") {
		t.Error(page.Body)
	}
}

// After a kill, another process sends when the lease is over, as it takes the claims of the dead one.
func TestADestinationIsTakenForTheLeaseOfARun(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.loaded.Config.Run.Lease = 7 * time.Second
	b.Use(b.loaded)
	cfg, release, err := Forwarding(t.Context(), b.Factory, b.db, nil)
	if err := errors.Join(err, release()); err != nil || cfg.Lease != 7*time.Second {
		t.Errorf("%s, %v", cfg.Lease, err)
	}
}

func TestAlertsNeedAReceiverOfTheSettings(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.loaded.Config.Alerts.Receiver = "ops"
	b.bindAll()
	err := b.bound.Forward(t.Context(), b.Factory, true, func() error {
		t.Error("it runs")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `there is no receiver "ops"`) {
		t.Errorf("%v", err)
	}
}
