package nats_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/jobs/event"
)

func TestMain(m *testing.M) { os.Exit(eventtest.Main(m)) }

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
	if !s.ReadyForConnections(await.Limit) {
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
	return eventtest.Open(w.t, url)
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
	var bodies [][]byte
	for _, msg := range w.stored() {
		bodies = append(bodies, msg.Data())
	}
	return eventtest.IDs(w.t, bodies)
}
