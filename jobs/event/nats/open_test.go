package nats_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/jobs/event"
)

func TestOpenConnectsToNothing(t *testing.T) {
	t.Parallel()
	eventtest.OpensUnconnected(t, "nats://127.0.0.1:1/events", "tls://[::1]:1/events.*?stream=EVENTS", "nats://a:1,b,[::1]:2/events")
}

func TestAURLThatIsWrongIsRefusedAndNeverShowsThePassword(t *testing.T) {
	t.Parallel()
	eventtest.Refused(t, map[string]string{
		"nats://me:secret@host":                            "name a subject",
		"nats://me:secret@host/":                           "name a subject",
		"nats://me:secret@/events":                         "the hosts must be",
		"nats://me:secret@a,,b/events":                     "the hosts must be",
		"nats://me:secret@:4222/events":                    "the hosts must be",
		"nats://me:secret@host/a..b":                       `subject "a..b"`,
		"nats://me:secret@host/a.":                         `subject "a."`,
		"nats://me:secret@host/*":                          `subject "*"`,
		"nats://me:secret@host/.*":                         `subject ".*"`,
		"nats://me:secret@host/a.*.b":                      `subject "a.*.b"`,
		"nats://me:secret@host/a.%3E":                      `subject "a.>"`,
		"nats://me:secret@host/a%20b":                      `subject "a b"`,
		"nats://me:secret@host/a%0Ab":                      `subject "a\nb"`,
		"nats://me:secret@host/events#x":                   "%23",
		"nats://me:secret@host/events?steam=X":             `unknown parameter "steam"`,
		"nats://me:secret@host/events?stream=":             "stream once",
		"nats://me:secret@host/events?stream=A&stream=B":   "stream once",
		"nats://me:secret@host/events?stream=A;B":          "parameters cannot be read",
		"nats://me:secret@host:x,other/events":             "the hosts must be",
		"nats://me:secret@host/events?stream=A&password=X": `unknown parameter "password"`,
	})
}

func TestTheURLSaysWhoTheClientIs(t *testing.T) {
	t.Parallel()
	users := setup(t, func(o *server.Options) { o.Username, o.Password = "me", "s@cret:1" })
	tokens := setup(t, func(o *server.Options) { o.Authorization = "t@ken" })
	for _, test := range []struct {
		w     *world
		user  string
		admit bool
	}{
		{users, "me:s%40cret%3A1@", true},
		{users, "me:wr%40ng@", false},
		{users, "", false},
		{tokens, "t%40ken@", true},
		{tokens, "wr%40ng@", false},
	} {
		p := test.w.open(fmt.Sprintf("nats://%s127.0.0.1:%d/events", test.user, test.w.options.Port))
		err := p.Publish(t.Context(), []event.Event{eventtest.Made("a", 0)})
		switch {
		case test.admit && err != nil:
			t.Errorf("%s: %v", test.user, err)
		case !test.admit && !errors.Is(err, nats.ErrAuthorization):
			t.Errorf("%s: %v", test.user, err)
		case err != nil && (strings.Contains(err.Error(), "wr@ng") || strings.Contains(err.Error(), "wr%40ng")):
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestAPermissionThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.stop()
	w.options.Users = []*server.User{{Username: "me", Password: "pw", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"events"}}}}}
	w.start()
	p := w.open(fmt.Sprintf("nats://me:pw@127.0.0.1:%d/events", w.options.Port))
	for limit := time.Second; ; limit *= 2 { // the server answers when the machine lets it
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := p.Publish(ctx, []event.Event{eventtest.Made("a", 0)})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(err, nats.ErrPermissionViolation) {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) || limit > await.Limit {
			t.Fatal(err)
		}
	}
}

func TestOneServerOfTheListIsEnough(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(fmt.Sprintf("nats://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:2/events", w.options.Port))
	for i := range 5 {
		if err := p.Publish(t.Context(), []event.Event{eventtest.Made("a", i)}); err != nil {
			t.Error(err)
		}
	}
}

func TestTheSchemeTLSInsistsOnACertificateThatIsTrusted(t *testing.T) {
	t.Parallel()
	plain := setup(t)
	secure := setup(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{eventtest.Certificate}}
		o.TLSTimeout, o.AuthTimeout = await.Limit.Seconds(), 2*await.Limit.Seconds()
	})
	events := []event.Event{eventtest.Made("a", 0)}
	tlsURL := func(w *world, host string) string { return fmt.Sprintf("tls://%s:%d/events", host, w.options.Port) }
	if err := secure.open(tlsURL(secure, "127.0.0.1")).Publish(t.Context(), events); err != nil {
		t.Error(err)
	}
	if err := secure.open(secure.url("events")).Publish(t.Context(), events); err != nil {
		t.Errorf("scheme nats, and a server that asks for TLS: %v", err)
	}
	if err := secure.open(tlsURL(secure, "localhost")).Publish(t.Context(), events); !errors.Is(err, nats.ErrTLS) {
		t.Errorf("a certificate for another host: %v", err)
	}
	if err := plain.open(tlsURL(plain, "127.0.0.1")).Publish(t.Context(), events); !errors.Is(err, nats.ErrSecureConnWanted) {
		t.Errorf("a server without TLS: %v", err)
	}
}
