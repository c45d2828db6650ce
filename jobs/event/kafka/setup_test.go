package kafka_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/jobs/event"
)

func TestMain(m *testing.M) { os.Exit(eventtest.Main(m)) }

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
	return eventtest.Open(w.t, url)
}

// stored returns what is in the topic events, in the order of each partition.
func (w *world) stored(options ...kgo.Opt) []*kgo.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), await.Limit)
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
	var bodies [][]byte
	for _, record := range w.stored() {
		bodies = append(bodies, record.Value)
	}
	return eventtest.IDs(w.t, bodies)
}
