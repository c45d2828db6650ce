package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/jobs/event"
)

func TestWhatArrivesIsTheEventThatWasSent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	sent := eventtest.Made("billing.daily/ö", 7)
	if err := w.open(w.url("events")).Publish(t.Context(), []event.Event{sent}); err != nil {
		t.Fatal(err)
	}
	records := w.stored()
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	record := records[0]
	if string(record.Key) != sent.Subject || len(record.Headers) != 1 || record.Headers[0].Key != "content-type" ||
		string(record.Headers[0].Value) != "application/cloudevents+json" {
		t.Errorf("key %q, headers %v", record.Key, record.Headers)
	}
	eventtest.Arrived(t, sent, record.Value)
}

func TestEventsOfASubjectKeepTheirOrderInOnePartition(t *testing.T) {
	t.Parallel()
	w := setup(t)
	eventtest.OrderKept(t, w.open(w.url("events")), w.ids, "")
	partitions := map[string]int32{}
	for _, record := range w.stored() {
		if before, known := partitions[string(record.Key)]; known && before != record.Partition {
			t.Errorf("subject %q is in partitions %d and %d", record.Key, before, record.Partition)
		}
		partitions[string(record.Key)] = record.Partition
	}
}

func TestMoreCallsThanClientsAreServed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	var subjects []string
	for i := range 60 {
		subjects = append(subjects, fmt.Sprint(i))
	}
	events, want := eventtest.Batch(1, subjects...)
	result := make(chan error)
	for i := range events {
		go func() { result <- p.Publish(t.Context(), events[i:i+1]) }()
	}
	for range events {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func TestAMissingTopicIsAnErrorThatSaysHowToCreateIt(t *testing.T) {
	t.Parallel()
	w := setup(t, kfake.AllowAutoTopicCreation())
	err := w.open(w.url("nowhere")).Publish(t.Context(), []event.Event{eventtest.Made("a", 0), eventtest.Made("a", 1), eventtest.Made("b", 0)})
	errs := event.Errors(err, 3)
	if !errors.Is(errs[0], kerr.UnknownTopicOrPartition) || !errors.Is(errs[1], event.ErrBlocked) ||
		!strings.Contains(fmt.Sprint(errs[2]), "kafka-topics.sh --bootstrap-server "+w.address+" --create --topic nowhere") {
		t.Error(errs)
	}
	if w.cluster.TopicInfo("nowhere") != nil {
		t.Error("the topic was created")
	}
}

func TestAnEventThatIsTooLargeFailsAloneAndHoldsBackItsSubject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		w    *world
		size int
	}{
		"for the client": {setup(t), 2_000_000},
		"for the broker": {setup(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "2000"})), 30_000},
	} {
		events, want := eventtest.Batch(3, "a", "b", "c", "d", "e", "f")
		large := eventtest.Made("large", 0)
		large.Data = noise(test.size)
		events = slices.Insert(events, 2, large)
		events = append(events, eventtest.Made("large", 1))
		errs := event.Errors(test.w.open(test.w.url("events")).Publish(t.Context(), events), len(events))
		for i, err := range errs {
			if (err != nil) != (events[i].Subject == "large") {
				t.Errorf("%s: event %d of subject %s: %v", name, i, events[i].Subject, err)
			}
		}
		if !errors.Is(errs[2], kerr.MessageTooLarge) || !errors.Is(errs[len(errs)-1], event.ErrBlocked) {
			t.Errorf("%s: %v", name, errs)
		}
		if diff := cmp.Diff(want, repeated(test.w.ids())); diff != "" {
			t.Error(name, diff)
		}
	}
}

// noise is a JSON string that no codec makes much smaller.
func noise(size int) []byte {
	var text bytes.Buffer
	text.WriteByte('"')
	for state := uint64(1); text.Len() < size; {
		state = state*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&text, "%016x", state)
	}
	text.WriteByte('"')
	return text.Bytes()
}

// repeated takes repeats that follow at once out of each list.
func repeated(ids map[string][]string) map[string][]string {
	for subject, list := range ids {
		ids[subject] = slices.Compact(list)
	}
	return ids
}

func TestAnEventThatCannotBeSentFailsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	invalid := eventtest.Made("a", 0)
	invalid.Type = ""
	events := []event.Event{invalid, eventtest.Made("a", 1), eventtest.Made("b", 0)}
	errs := event.Errors(w.open(w.url("events")).Publish(t.Context(), events), len(events))
	if errs[0] == nil || !errors.Is(errs[1], event.ErrBlocked) || errs[2] != nil {
		t.Error(errs)
	}
	if diff := cmp.Diff(map[string][]string{"b": {events[2].ID}}, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func TestABrokerThatIsDownIsAnErrorUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var log lockedBuffer
	p, err := event.Open(t.Context(), w.url("events"), event.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	before, want := eventtest.Batch(2, "a", "b")
	after := []event.Event{eventtest.Made("a", 2), eventtest.Made("b", 2)}
	for _, e := range after {
		want[e.Subject] = append(want[e.Subject], e.ID)
	}
	if err := p.Publish(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	w.cluster.Close()
	for range 3 {
		publishFor(t, 300*time.Millisecond, p, after)
	}
	w.restart()
	if err := p.Publish(t.Context(), after); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, repeated(w.ids())); diff != "" {
		t.Error(diff)
	}
	if err := p.Close(); err != nil || !strings.Contains(log.String(), "connection refused") {
		t.Errorf("%v; the log has not told why: %s", err, &log)
	}
}

// lockedBuffer may be read while a client still writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// publishFor fails unless Publish ends in errors when its context does.
func publishFor(t *testing.T, limit time.Duration, p event.Publisher, events []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	start := time.Now()
	for i, err := range event.Errors(p.Publish(ctx, events), len(events)) {
		if err == nil {
			t.Errorf("event %d is reported as published", i)
		}
	}
	if took := time.Since(start); took > limit+await.Limit {
		t.Errorf("Publish took %s under a context of %s", took, limit)
	}
}

func TestABrokerThatIsRestartedDuringABatchIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	events, want := eventtest.Batch(2000, "a", "b", "c")
	result := make(chan error)
	go func() { result <- p.Publish(t.Context(), events) }()
	w.waitForSome()
	w.cluster.Close()
	w.restart()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, repeated(w.ids())); diff != "" {
		t.Error(diff)
	}
}

// waitForSome returns when something was stored.
func (w *world) waitForSome() {
	for stored := int64(0); stored < 50; {
		stored = 0
		for _, partition := range w.cluster.PartitionInfos("events") {
			stored += partition.HighWatermark
		}
	}
}

func TestABrokerThatGoesDownDuringABatchLosesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	events, want := eventtest.Batch(2000, "a", "b", "c")
	result := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { result <- p.Publish(ctx, events) }()
	w.waitForSome()
	w.cluster.Close()
	cancel()
	failed := map[string]bool{}
	var again []event.Event
	for i, err := range event.Errors(<-result, len(events)) {
		if subject := events[i].Subject; failed[subject] != errors.Is(err, event.ErrBlocked) {
			t.Fatalf("event %d of %s: %v", i, subject, err)
		}
		if err != nil {
			failed[events[i].Subject] = true
			again = append(again, events[i])
		}
	}
	if len(again) == 0 {
		t.Fatal("the batch was published before the broker went down")
	}
	w.restart()
	if err := p.Publish(t.Context(), again); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, repeated(w.ids())); diff != "" {
		t.Error(diff)
	}
}

func TestTheEndOfTheContextEndsAPublishThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	var mute atomic.Bool
	mute.Store(true)
	w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		return nil, nil, mute.Load()
	})
	events, want := eventtest.Batch(2, "a", "b")
	publishFor(t, 300*time.Millisecond, p, events)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	publishFor(t, 0, p, events)
	if err := p.Publish(gone, events); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mute.Store(false)
	if err := p.Publish(t.Context(), events); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func TestCloseLosesNothingAndEndsThePublisher(t *testing.T) {
	t.Parallel()
	w := setup(t)
	eventtest.Closes(t, w.open(w.url("events")), w.ids)
}

func TestPublishingNothingNeedsNoBroker(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.cluster.Close()
	if err := w.open(w.url("events")).Publish(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestApplicationsWithoutKafkaDoNotLinkItsClient(t *testing.T) {
	t.Parallel()
	eventtest.NotLinked(t, "github.com/twmb/")
}
