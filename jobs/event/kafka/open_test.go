package kafka_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/jobs/event"
)

func TestOpenConnectsToNothing(t *testing.T) {
	t.Parallel()
	eventtest.OpensUnconnected(t, "kafka://127.0.0.1:1/events", "kafka://a:1,b,[::1]:2/events?tls=false",
		"kafka://me:pw@host/events?sasl=scram-sha-512&tls=true")
}

func TestAURLThatIsWrongIsRefusedAndNeverShowsThePassword(t *testing.T) {
	t.Parallel()
	eventtest.Refused(t, map[string]string{
		"kafka://me:secret@host":                              "name one topic",
		"kafka://me:secret@host/":                             "name one topic",
		"kafka://me:secret@host/a/b":                          "name one topic",
		"kafka://me:secret@/events":                           "the hosts must be",
		"kafka://me:secret@a,,b/events":                       "the hosts must be",
		"kafka://me:secret@:9092/events":                      "the hosts must be",
		"kafka://me:secret@a:x,b/events":                      "the hosts must be",
		"kafka://me:secret@host/events#x":                     "%23",
		"kafka://me:secret@host/events?acks=1":                `unknown parameter "acks"`,
		"kafka://me:secret@host/events?tls=true&Sasl=plain":   `unknown parameter "Sasl"`,
		"kafka://me:secret@host/events?tls=":                  "tls once",
		"kafka://me:secret@host/events?tls=true&tls=true":     "tls once",
		"kafka://me:secret@host/events?tls=maybe":             "tls must be",
		"kafka://me:secret@host/events?sasl=gssapi":           "sasl must be",
		"kafka://me:secret@host/events?tls=true;sasl=plain":   "parameters cannot be read",
		"kafka://secret@host/events":                          "a user and a password",
		"kafka://:secret@host/events?sasl=plain":              "a user and a password",
		"kafka://host/events?sasl=scram-sha-256":              "a user and a password",
		"kafka://me:secret@host:port/events?sasl=scram-sha-1": "not a URL",
	})
}

func TestTheURLSaysWhoTheClientIs(t *testing.T) {
	t.Parallel()
	w := setup(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", "s@cret:1"), kfake.Superuser("SCRAM-SHA-256", "me", "s@cret:2"),
		kfake.Superuser("SCRAM-SHA-512", "me", "s@cret:5"))
	for query, password := range map[string]string{"": "1", "?sasl=plain": "1", "?sasl=scram-sha-256": "2", "?sasl=scram-sha-512": "5"} {
		p := w.open("kafka://me:s%40cret%3A" + password + "@" + w.address + "/events" + query)
		if err := p.Publish(t.Context(), []event.Event{eventtest.Made("a", 0)}); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		p = w.open("kafka://me:wr%40ng@" + w.address + "/events" + query)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := p.Publish(ctx, []event.Event{eventtest.Made("a", 1)}); err == nil || strings.Contains(err.Error(), "wr@ng") {
			t.Errorf("%s, with a wrong password: %v", query, err)
		}
		cancel()
	}
	if n := len(w.stored(kgo.SASL(plain.Auth{User: "me", Pass: "s@cret:1"}.AsMechanism()))); n != 4 {
		t.Errorf("%d events are stored", n)
	}
}

func TestAPasswordThatTheBrokerRefusesIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", "right"))
	w.cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		refused := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		refused.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return refused, nil, true
	})
	err := w.open("kafka://me:wr%40ng@"+w.address+"/events").Publish(t.Context(), []event.Event{eventtest.Made("a", 0)})
	if err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") || strings.Contains(err.Error(), "wr@ng") {
		t.Error(err)
	}
}

func TestOneBrokerOfTheListIsEnough(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := w.open("kafka://127.0.0.1:1,"+w.address+",127.0.0.1:2/events").Publish(t.Context(), []event.Event{eventtest.Made("a", 0)}); err != nil {
		t.Error(err)
	}
}

func TestTheParameterTLSInsistsOnACertificateThatIsTrusted(t *testing.T) {
	t.Parallel()
	secure := setup(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{eventtest.Certificate}}))
	p := secure.open(secure.url("events?tls=true"))
	if err := p.Publish(t.Context(), []event.Event{eventtest.Made("a", 0)}); err != nil {
		t.Error(err)
	}
	plain := setup(t)
	publishFor(t, 300*time.Millisecond, plain.open(plain.url("events?tls=true")), []event.Event{eventtest.Made("a", 0)})
	publishFor(t, 300*time.Millisecond, secure.open(secure.url("events")), []event.Event{eventtest.Made("a", 0)})
	elsewhere := strings.Replace(secure.url("events?tls=true"), "127.0.0.1", "localhost", 1)
	publishFor(t, 300*time.Millisecond, secure.open(elsewhere), []event.Event{eventtest.Made("a", 0)})
}
