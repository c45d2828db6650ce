package kafka_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prescient-go/prescient/jobs/event"
)

// certificate is for 127.0.0.1. TestMain makes it a root of this process, which reads its roots once.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	https := httptest.NewTLSServer(http.NotFoundHandler())
	certificate = https.TLS.Certificates[0]
	https.Close()
	dir, err := os.MkdirTemp("", "kafka")
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

// world is a cluster of one broker with the topic events, of three partitions.
type world struct {
	t       *testing.T
	options []kfake.Opt
	cluster *kfake.Cluster
	address string
}

func setup(t *testing.T, options ...kfake.Opt) *world {
	t.Helper()
	w := &world{t: t, options: append(options, kfake.NumBrokers(1), kfake.DataDir(t.TempDir()), kfake.SeedTopics(3, "events"))}
	w.start(w.options...)
	t.Cleanup(func() { w.cluster.Close() })
	return w
}

func (w *world) start(options ...kfake.Opt) {
	w.t.Helper()
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster, w.address = cluster, cluster.ListenAddrs()[0]
}

// restart starts the cluster where it was, with what it had stored.
func (w *world) restart() {
	w.t.Helper()
	_, text, _ := net.SplitHostPort(w.address)
	port, err := strconv.Atoi(text)
	if err != nil {
		w.t.Fatal(err)
	}
	w.start(append(w.options, kfake.Ports(port))...)
}

// url is the cluster's, with a topic and maybe a query after it.
func (w *world) url(rest string) string { return "kafka://" + w.address + "/" + rest }

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

// stored returns what is in the topic events, in the order of each partition.
func (w *world) stored(options ...kgo.Opt) []*kgo.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(w.address), kgo.ConsumeTopics("events"), kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	var want int64
	for partition := range int32(3) {
		if info := w.cluster.PartitionInfo("events", partition); info != nil {
			want += info.HighWatermark
		}
	}
	var list []*kgo.Record
	for int64(len(list)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.t.Fatal(err)
		}
		list = append(list, fetches.Records()...)
	}
	return list
}

// ids returns the ids of the stored events by their subject, in order.
func (w *world) ids() map[string][]string {
	w.t.Helper()
	ids := map[string][]string{}
	for _, record := range w.stored() {
		var e event.Event
		if err := e.UnmarshalJSON(record.Value); err != nil {
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
