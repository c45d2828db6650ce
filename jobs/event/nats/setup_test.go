package nats_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/prescient-go/prescient/jobs/event"
)

// certificate is for 127.0.0.1. TestMain makes it a root of this process, which reads its roots once.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	https := httptest.NewTLSServer(http.NotFoundHandler())
	certificate = https.TLS.Certificates[0]
	https.Close()
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		panic(err)
	}
	root := filepath.Join(dir, "root.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
	if err := errors.Join(os.WriteFile(root, text, 0o600), os.Setenv("SSL_CERT_FILE", root)); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// world is a server with the stream EVENTS on events.>, unless it is told otherwise.
type world struct {
	t       *testing.T
	options server.Options
	server  *server.Server
}

func setup(t *testing.T, change ...func(*server.Options)) *world {
	t.Helper()
	w := &world{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}}
	for _, c := range change {
		c(&w.options)
	}
	w.start()
	w.stream(jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>", "events"}})
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs the server: the second time where it was, with what it had stored.
func (w *world) start() {
	w.t.Helper()
	options := w.options
	s, err := server.NewServer(&options)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		w.t.Fatal("the server does not start")
	}
	w.server = s
	w.options.Port = options.Port
}

func (w *world) stop() {
	w.server.Shutdown()
	w.server.WaitForShutdown()
}

// js is a connection of the test's own, inside the process.
func (w *world) js() jetstream.JetStream {
	w.t.Helper()
	conn, err := nats.Connect("", nats.InProcessServer(w.server), nats.UserInfo(w.options.Username, w.options.Password), nats.Token(w.options.Authorization))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		w.t.Fatal(err)
	}
	return js
}

func (w *world) stream(cfg jetstream.StreamConfig) {
	w.t.Helper()
	if _, err := w.js().CreateOrUpdateStream(w.t.Context(), cfg); err != nil {
		w.t.Fatal(err)
	}
}

// url is the server's, with a path and maybe a query after it.
func (w *world) url(rest string) string {
	return fmt.Sprintf("nats://127.0.0.1:%d/%s", w.options.Port, rest)
}

func (w *world) open(url string) event.Publisher {
	w.t.Helper()
	p, err := event.Open(w.t.Context(), url, event.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return p
}

// stored returns what is in the stream EVENTS, in order.
func (w *world) stored() []jetstream.Msg {
	w.t.Helper()
	js := w.js()
	stream, err := js.Stream(w.t.Context(), "EVENTS")
	if err != nil {
		w.t.Fatal(err)
	}
	n := int(stream.CachedInfo().State.Msgs)
	if n == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(w.t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		w.t.Fatal(err)
	}
	var list []jetstream.Msg
	for msg := range batch.Messages() {
		list = append(list, msg)
	}
	if len(list) != n || batch.Error() != nil {
		w.t.Fatalf("read %d of %d messages: %v", len(list), n, batch.Error())
	}
	return list
}

// ids returns the ids of the stored events by their subject, in order.
func (w *world) ids() map[string][]string {
	w.t.Helper()
	ids := map[string][]string{}
	for _, msg := range w.stored() {
		var e event.Event
		if err := e.UnmarshalJSON(msg.Data()); err != nil {
			w.t.Fatal(err)
		}
		ids[e.Subject] = append(ids[e.Subject], e.ID)
	}
	return ids
}

// made is the n-th event of a subject.
func made(subject string, n int) event.Event {
	at := time.Date(2030, time.March, 1, 12, 0, n, 0, time.UTC)
	return event.Event{
		ID: fmt.Sprintf("%s-%d", subject, at.Unix()), Source: "/prescient", Type: "com.example.due", Subject: subject,
		Time: at, GeneratedAt: at.Add(time.Minute), Data: []byte(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

// batch is n events of each of some subjects, and the ids that each subject has then.
func batch(n int, subjects ...string) (events []event.Event, want map[string][]string) {
	want = map[string][]string{}
	for i := range n {
		for _, subject := range subjects {
			e := made(subject, i)
			events = append(events, e)
			want[subject] = append(want[subject], e.ID)
		}
	}
	return events, want
}
