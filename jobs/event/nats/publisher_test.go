package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	messages := w.stored()
	if len(messages) != 1 {
		t.Fatalf("%d messages", len(messages))
	}
	msg := messages[0]
	if got := msg.Headers().Get("Content-Type"); msg.Subject() != "events" || got != "application/cloudevents+json" {
		t.Errorf("subject %q, content type %q", msg.Subject(), got)
	}
	eventtest.Arrived(t, sent, msg.Data())
}

func TestEventsOfASubjectKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	eventtest.OrderKept(t, w.open(w.url("events")), w.ids)
}

func TestARepeatIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	events, want := eventtest.Batch(3, "a", "b")
	for range 2 {
		p := w.open(w.url("events"))
		for range 2 {
			if err := p.Publish(t.Context(), events); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameIDOfAnotherSourceIsNoRepeat(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mine, other := eventtest.Made("a", 0), eventtest.Made("a", 0)
	other.Source = "/elsewhere"
	if err := w.open(w.url("events")).Publish(t.Context(), []event.Event{mine, other}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.stored()); n != 2 {
		t.Errorf("%d of 2 events are stored", n)
	}
}

func TestASubjectOfTheURLThatEndsInAStarTakesTheEventsSubject(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events.*"))
	for subject, want := range map[string]string{
		"daily":       "events.daily",
		"Order_4-2":   "events.Order_4-2",
		"eu.billing":  "events.eu%2Ebilling",
		"a b>c*d%e/ö": "events.a%20b%3Ec%2Ad%25e%2F%C3%B6",
		"":            "events._",
	} {
		if err := p.Publish(t.Context(), []event.Event{eventtest.Made(subject, 0)}); err != nil {
			t.Errorf("subject %q: %v", subject, err)
			continue
		}
		messages := w.stored()
		if got := messages[len(messages)-1].Subject(); got != want {
			t.Errorf("subject %q went to %q, want %q", subject, got, want)
		}
	}
}

func TestAMissingStreamIsAnErrorThatSaysHowToCreateIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for url, command := range map[string]string{
		"nowhere":            "nats stream add NAME --subjects 'nowhere' --defaults",
		"no.*?stream=ORDERS": "nats stream add ORDERS --subjects 'no.*' --defaults",
	} {
		err := w.open(w.url(url)).Publish(t.Context(), []event.Event{eventtest.Made("a", 0), eventtest.Made("a", 1), eventtest.Made("b", 0)})
		errs := event.Errors(err, 3)
		if !errors.Is(errs[0], jetstream.ErrNoStreamResponse) || !errors.Is(errs[1], event.ErrBlocked) || !strings.Contains(fmt.Sprint(errs[2]), command) {
			t.Errorf("%s: %v", url, errs)
		}
	}
	if _, err := w.js().Stream(t.Context(), "ORDERS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream was created: %v", err)
	}
}

func TestTheStreamOfTheURLMustBeTheOneThatListens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := w.open(w.url("events?stream=EVENTS")).Publish(t.Context(), []event.Event{eventtest.Made("a", 0)}); err != nil {
		t.Error(err)
	}
	err := w.open(w.url("events?stream=ORDERS")).Publish(t.Context(), []event.Event{eventtest.Made("a", 1)})
	if err == nil || !strings.Contains(err.Error(), "expected stream does not match") {
		t.Error(err)
	}
	if n := len(w.stored()); n != 1 {
		t.Errorf("%d events are stored", n)
	}
}

func TestAnEventThatIsTooLargeFailsAloneAndHoldsBackItsSubject(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{
		"for the server": setup(t, func(o *server.Options) { o.MaxPayload = 2000 }),
		"for the stream": setup(t),
	} {
		w.stream(jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>", "events"}, MaxMsgSize: 2000})
		events, _ := eventtest.Batch(3, "a", "b")
		events[2].Data = []byte(`"` + strings.Repeat("x", 3000) + `"`)
		errs := event.Errors(w.open(w.url("events")).Publish(t.Context(), events), len(events))
		for i, want := range []bool{true, true, false, true, false, true} {
			if (errs[i] == nil) != want {
				t.Errorf("%s: event %d of subject %s: %v", name, i, events[i].Subject, errs[i])
			}
		}
		if !errors.Is(errs[4], event.ErrBlocked) || errors.Is(errs[2], event.ErrBlocked) {
			t.Errorf("%s: %v", name, errs)
		}
		want := map[string][]string{"a": {events[0].ID}, "b": {events[1].ID, events[3].ID, events[5].ID}}
		if diff := cmp.Diff(want, w.ids()); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestAnEventThatCannotBeSentFailsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	invalid, long := eventtest.Made("a", 0), eventtest.Made(strings.Repeat(".", 1000), 0)
	invalid.Type = ""
	events := []event.Event{invalid, eventtest.Made("a", 1), long, eventtest.Made("b", 0)}
	errs := event.Errors(w.open(w.url("events.*")).Publish(t.Context(), events), len(events))
	if errs[0] == nil || !errors.Is(errs[1], event.ErrBlocked) || errs[2] == nil || errs[3] != nil {
		t.Error(errs)
	}
	if diff := cmp.Diff(map[string][]string{"b": {events[3].ID}}, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func TestAServerThatIsDownIsAnErrorUntilItIsBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.stop()
	p := w.open(w.url("events"))
	events, want := eventtest.Batch(1, "a", "b")
	for range 2 {
		err := p.Publish(t.Context(), events)
		if !errors.Is(err, nats.ErrNoServers) || !strings.Contains(err.Error(), fmt.Sprint(w.options.Port)) {
			t.Fatal(err)
		}
	}
	w.start()
	untilPublished(t, p, events)
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

// untilPublished publishes what failed again and again, as runs do.
func untilPublished(t *testing.T, p event.Publisher, events []event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for len(events) > 0 {
		err := p.Publish(ctx, events)
		if ctx.Err() != nil {
			t.Fatalf("%d events are still not published: %v", len(events), err)
		}
		var failed []event.Event
		for i, err := range event.Errors(err, len(events)) {
			if err != nil {
				failed = append(failed, events[i])
			}
		}
		events = failed
	}
}

func TestAServerThatGoesDownDuringABatchLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	events, want := eventtest.Batch(1500, "a", "b", "c")
	result := make(chan error)
	go func() { result <- p.Publish(t.Context(), events) }()
	w.waitForSome()
	w.stop()
	errs := event.Errors(<-result, len(events))
	failed := map[string]error{}
	var again []event.Event
	for i, err := range errs {
		before, behind := failed[events[i].Subject]
		if behind && !errors.Is(err, event.ErrBlocked) || err != nil && !behind && errors.Is(err, event.ErrBlocked) {
			t.Fatalf("event %d of %s: %v, after %v", i, events[i].Subject, err, before)
		}
		if err != nil {
			failed[events[i].Subject] = err
			again = append(again, events[i])
		}
	}
	if len(again) == 0 {
		t.Fatal("the batch was published before the server went down")
	}
	w.start()
	untilPublished(t, p, again)
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

// waitForSome returns when something was stored.
func (w *world) waitForSome() {
	w.t.Helper()
	js := w.js()
	for {
		stream, err := js.Stream(w.t.Context(), "EVENTS")
		if err != nil {
			w.t.Fatal(err)
		}
		if stream.CachedInfo().State.Msgs > 50 {
			return
		}
	}
}

func TestAConnectionThatBreaksIsReplacedWithinTheBatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	p := w.open(w.url("events"))
	events, want := eventtest.Batch(1500, "a", "b")
	result := make(chan error)
	go func() { result <- p.Publish(t.Context(), events) }()
	w.waitForSome()
	broken := 0
	for _, c := range connections(t, w.server) {
		if c.Name == "prescient" && w.server.DisconnectClientByID(c.Cid) == nil {
			broken++
		}
	}
	if err := <-result; err != nil || broken != 1 {
		t.Errorf("%d connections broken: %v", broken, err)
	}
	if diff := cmp.Diff(want, w.ids()); diff != "" {
		t.Error(diff)
	}
}

func connections(t *testing.T, s *server.Server) []*server.ConnInfo {
	t.Helper()
	z, err := s.Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.Conns
}

func TestTheEndOfTheContextEndsAPublishThatNobodyAcknowledges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := w.js().Conn().Subscribe("mute", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	p := w.open(w.url("mute"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	errs := event.Errors(p.Publish(ctx, []event.Event{eventtest.Made("a", 0), eventtest.Made("a", 1)}), 2)
	if !errors.Is(errs[0], context.DeadlineExceeded) || !errors.Is(errs[1], event.ErrBlocked) {
		t.Error(errs)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	events, _ := eventtest.Batch(2, "a", "b")
	for i, err := range event.Errors(w.open(w.url("events")).Publish(gone, events), len(events)) {
		if err == nil {
			t.Errorf("event %d was published after the context had ended", i)
		}
	}
	if n := len(w.stored()); n != 0 {
		t.Errorf("%d events are stored", n)
	}
}

func TestCloseLosesNothingAndEndsThePublisher(t *testing.T) {
	t.Parallel()
	w := setup(t)
	eventtest.Closes(t, w.open(w.url("events")), w.ids)
	if err := w.open(w.url("events")).Close(); err != nil {
		t.Errorf("close what never connected: %v", err)
	}
}

func TestPublishingNothingNeedsNoServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.stop()
	if err := w.open(w.url("events")).Publish(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestApplicationsWithoutNATSDoNotLinkItsClient(t *testing.T) {
	t.Parallel()
	eventtest.NotLinked(t, "github.com/nats-io/")
}
