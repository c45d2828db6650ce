// Package eventtest has events for the tests of brokers, and the tests that every package that
// publishes to a broker must pass.
package eventtest

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/event"
)

// Made is the n-th event of a subject.
func Made(subject string, n int) event.Event {
	at := time.Date(2030, time.March, 1, 12, 0, n, 0, time.UTC)
	return event.Event{
		ID: fmt.Sprintf("%s-%d", subject, at.Unix()), Source: "/prescient", Type: "com.example.due", Subject: subject,
		Time: at, PublishedAt: at.Add(time.Minute), Data: []byte(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

// Batch is n events of each of some subjects, and the ids that each subject has then.
func Batch(n int, subjects ...string) (events []event.Event, want map[string][]string) {
	want = map[string][]string{}
	for i := range n {
		for _, subject := range subjects {
			e := Made(subject, i)
			events = append(events, e)
			want[subject] = append(want[subject], e.ID)
		}
	}
	return events, want
}

// IDs returns the ids of events as they were stored, by their subject, in order.
func IDs(t testing.TB, bodies [][]byte) map[string][]string {
	t.Helper()
	ids := map[string][]string{}
	for _, body := range bodies {
		var e event.Event
		if err := e.UnmarshalJSON(body); err != nil {
			t.Fatal(err)
		}
		ids[e.Subject] = append(ids[e.Subject], e.ID)
	}
	return ids
}

// Open opens a publisher, and closes it at the end of the test.
func Open(t testing.TB, url string) event.Publisher {
	t.Helper()
	p, err := event.Open(t.Context(), url, event.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Arrived fails unless body, as it was stored, is the event that was sent, to this module and to
// the official SDK.
func Arrived(t testing.TB, sent event.Event, body []byte) {
	t.Helper()
	var got event.Event
	if err := got.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
	var official cloudevents.Event
	if err := official.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	if err := official.Validate(); err != nil || official.ID() != sent.ID || official.Subject() != sent.Subject ||
		!official.Time().Equal(sent.Time) {
		t.Error(err, official)
	}
}

// OrderKept fails unless events of many subjects, and a long batch of one beside them, are stored
// in their order.
func OrderKept(t testing.TB, p event.Publisher, stored func() map[string][]string, subjects ...string) {
	t.Helper()
	for i := range 500 {
		subjects = append(subjects, fmt.Sprint("schedule ", i))
	}
	many, want := Batch(10, subjects...)
	one, wantOne := Batch(2000, "alone")
	want["alone"] = wantOne["alone"]
	failed := make(chan error)
	go func() { failed <- p.Publish(t.Context(), many) }()
	if err := errors.Join(p.Publish(t.Context(), one), <-failed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stored()); diff != "" {
		t.Error(diff)
	}
}

// Closes fails unless Close, which may be called again, loses nothing and ends the publisher.
func Closes(t testing.TB, p event.Publisher, stored func() map[string][]string) {
	t.Helper()
	events, want := Batch(20, "a", "b", "c")
	if err := errors.Join(p.Publish(t.Context(), events), p.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stored()); diff != "" {
		t.Error(diff)
	}
	if err := p.Publish(t.Context(), events); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}

// OpensUnconnected fails unless each URL can be opened and closed without a server.
func OpensUnconnected(t testing.TB, urls ...string) {
	t.Helper()
	for _, url := range urls {
		p, err := event.Open(t.Context(), url, event.Config{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Refused fails unless each URL, whose password is secret, is refused with an error that has a
// text, and not the password.
func Refused(t testing.TB, urls map[string]string) {
	t.Helper()
	for url, want := range urls {
		p, err := event.Open(t.Context(), url, event.Config{})
		if err == nil || p != nil {
			t.Errorf("%s was opened", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %s", url, err, want)
		}
	}
}

// NotLinked fails if jobs or jobs/event need a package whose path begins with prefix.
func NotLinked(t testing.TB, prefix string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/prescient-go/prescient/jobs",
		"github.com/prescient-go/prescient/jobs/event").Output()
	if err != nil || len(out) == 0 {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, prefix) {
			t.Errorf("linked: %s", name)
		}
	}
}
