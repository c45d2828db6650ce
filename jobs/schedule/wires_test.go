package schedule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file"
	"github.com/prescient-go/prescient/jobs/event/forward"
	_ "github.com/prescient-go/prescient/jobs/event/kafka"
	_ "github.com/prescient-go/prescient/jobs/event/nats"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// wires are where a forwarder can send the events of schedules: each begins something real, and returns the URL
// that stands for it, and what reads one event from there, as it came. The outbox itself has no URL.
var wires = map[string]func(w *world) (url string, read func() []byte){
	"outbox":  outboxWire,
	"file":    fileWire,
	"stdout":  stdoutWire,
	"webhook": webhookWire,
	"nats":    natsWire,
	"kafka":   kafkaWire,
}

func outboxWire(w *world) (url string, read func() []byte) {
	return "", func() []byte {
		text, err := json.Marshal(w.published()[0])
		w.must(err)
		return text
	}
}

func fileWire(w *world) (url string, read func() []byte) {
	path := w.t.TempDir() + "/events.jsonl"
	return "file://" + path, func() []byte {
		text, err := os.ReadFile(path)
		w.must(err)
		return text
	}
}

// stdoutWire lets a file be the standard output, for as long as it takes to open the publisher.
func stdoutWire(w *world) (url string, read func() []byte) {
	path := w.t.TempDir() + "/stdout"
	file, err := os.Create(path)
	w.must(err)
	was := os.Stdout
	os.Stdout = file
	w.t.Cleanup(func() { os.Stdout = was; _ = file.Close() })
	return "stdout:", func() []byte {
		text, err := os.ReadFile(path)
		w.must(err)
		return text
	}
}

func webhookWire(w *world) (url string, read func() []byte) {
	bodies := make(chan []byte, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	}))
	w.t.Cleanup(hook.Close)
	return hook.URL, func() []byte { return <-bodies }
}

func natsWire(w *world) (url string, read func() []byte) {
	url, stream := jetStream(w)
	return url, func() []byte {
		msg, err := stream.GetLastMsgForSubject(w.t.Context(), "events")
		w.must(err)
		return msg.Data
	}
}

// jetStream begins a broker with a stream.
func jetStream(w *world) (url string, stream jetstream.Stream) {
	broker, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: w.t.TempDir(), NoLog: true, NoSigs: true,
	})
	w.must(err)
	broker.Start()
	w.t.Cleanup(broker.Shutdown)
	if !broker.ReadyForConnections(20 * time.Second) {
		w.t.Fatal("the broker does not start")
	}
	conn, err := nats.Connect(broker.ClientURL())
	w.must(err)
	w.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	w.must(err)
	stream, err = js.CreateStream(w.t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}})
	w.must(err)
	return broker.ClientURL() + "/events", stream
}

func kafkaWire(w *world) (url string, read func() []byte) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(w.t.TempDir()), kfake.SeedTopics(1, "events"))
	w.must(err)
	w.t.Cleanup(cluster.Close)
	broker := cluster.ListenAddrs()[0]
	return "kafka://" + broker + "/events", func() []byte {
		client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("events"), kgo.DisableClientMetrics(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		w.must(err)
		defer client.Close()
		fetches := client.PollFetches(w.t.Context())
		w.must(fetches.Err())
		record := fetches.Records()[0]
		if string(record.Key) != "schedule1" {
			w.t.Errorf("the key is %q", record.Key)
		}
		return record.Value
	}
}

// forward begins to forward to a URL, and returns what waits for the event to arrive there.
func (w *world) forward(url string) (forwarded func()) {
	w.t.Helper()
	if url == "" {
		return func() {}
	}
	publisher, err := event.Open(w.t.Context(), url, event.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	w.must(err)
	w.t.Cleanup(func() { w.must(publisher.Close()) })
	sent := make(chan struct{}, 1)
	counted := event.Wrap(publisher, func(ctx context.Context, _ []event.Event, publish func(context.Context) error) error {
		defer func() { sent <- struct{}{} }()
		return publish(ctx)
	})
	f, err := forward.Start(w.t.Context(), forward.Config{DB: w.db, Destinations: []forward.Destination{{Name: "wire", Address: url, Publisher: counted}}})
	w.must(err)
	w.t.Cleanup(func() { f.Stop() })
	return func() { await.Receive(w.t, "the event to be sent", sent) }
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Not in parallel: the standard output is that of the whole process.
func TestAnEventHasItsFourFieldsOnEveryWire(t *testing.T) {
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			url, read := wire(w)
			forwarded := w.forward(url)
			// As the sources have it: a payload that is a text.
			const payload = `"{\"user\": 1234, \"type\": \"renewal_reminder\"}"`
			w.create(schedule.Spec{ID: "schedule1", Crontab: "@every 1h", Payload: json.RawMessage(payload)})
			due := noon.Add(time.Hour)
			w.run(due)
			forwarded()

			body := bytes.TrimSpace(read())
			var e cloudevents.Event
			w.must(e.UnmarshalJSON(body))
			w.must(e.Validate())
			id := fmt.Sprintf("schedule1-%d", due.Unix())
			if e.ID() != id || e.Subject() != "schedule1" || !e.Time().Equal(due) || e.DataContentType() != "application/json" {
				t.Errorf("the CloudEvent: %s", body)
			}
			var got any
			w.must(json.Unmarshal(e.Data(), &got))
			want := map[string]any{
				"id": id, "generated_at": float64(due.Unix()), "schedule_id": "schedule1",
				"payload": `{"user": 1234, "type": "renewal_reminder"}`,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTwoDatabasesThatPublishIntoOneStreamLoseNoEvent(t *testing.T) {
	t.Parallel()
	one, other := setup(t), setup(t)
	url, stream := jetStream(one)
	sources := map[string]string{}
	for _, w := range []*world{one, other} {
		forwarded := w.forward(url)
		w.create(schedule.Spec{ID: "daily", Crontab: "@every 1h"})
		w.run(noon.Add(time.Hour))
		forwarded()
		e := w.published()[0]
		if id := w.text(`select store from prescient.setting`); e.Source != "prescient:/"+id {
			t.Errorf("the source is %q, and the store %s", e.Source, id)
		}
		sources[e.Source] = e.ID
	}
	info, err := stream.Info(t.Context())
	one.must(err)
	if info.State.Msgs != 2 || len(sources) != 2 {
		t.Errorf("%d of 2 events are stored, of the sources %v", info.State.Msgs, sources)
	}
}

// text is the only value of a query.
func (w *world) text(query string) (value string) {
	w.t.Helper()
	w.must(w.db.GetContext(w.t.Context(), &value, query))
	return value
}
