package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	start    = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
)

// receiver is a server that keeps the ids it has accepted, in order, and the most requests that it
// had at once.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	accepted []string
	requests int
	underWay int
	most     int
}

// serve starts a receiver. answer gets the decoded event and returns the status.
func serve(t *testing.T, answer func(http.ResponseWriter, *http.Request, event.Event) int) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.begin()
		var e event.Event
		if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
			t.Errorf("the body is no event: %v", err)
		}
		status := answer(w, req, e)
		r.end(e.ID, status)
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.underWay++
	r.most = max(r.most, r.underWay)
}

func (r *receiver) end(id string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
	if status < 300 {
		r.accepted = append(r.accepted, id)
	}
}

func accept(http.ResponseWriter, *http.Request, event.Event) int { return http.StatusNoContent }

func open(t *testing.T, to string, cfg event.Config) event.Publisher {
	t.Helper()
	publisher, err := event.Open(t.Context(), to, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := publisher.Close(); err != nil {
			t.Error(err)
		}
	})
	return publisher
}

// eventOf returns the n-th event of a subject.
func eventOf(subject string, n int) event.Event {
	at := start.Add(time.Duration(n) * time.Minute)
	return event.Event{
		ID: fmt.Sprintf("%s-%d", subject, n), Source: "/shop", Type: "com.example.reminder", Subject: subject,
		Time: at, PublishedAt: at.Add(time.Second), Data: json.RawMessage(`{"n":1}`),
	}
}

func TestAnEventArrivesAsASignedCloudEvent(t *testing.T) {
	t.Parallel()
	want := eventOf("com.example.reminder", 1)
	r := serve(t, func(_ http.ResponseWriter, req *http.Request, got event.Event) int {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if req.Method != "POST" || req.RequestURI != "/hook?key=1&key=2" {
			t.Errorf("%s %s", req.Method, req.RequestURI)
		}
		if kind := req.Header.Get("Content-Type"); kind != "application/cloudevents+json" {
			t.Errorf("Content-Type %s", kind)
		}
		if id := req.Header.Get("Webhook-Id"); id != "%2Fshop%23com%2Eexample%2Ereminder-1" {
			t.Errorf("webhook-id %s", id)
		}
		return http.StatusOK
	})
	publisher := open(t, r.URL+"/hook?key=1&key=2", event.Config{Secret: secret, Allow: loopback})
	if err := publisher.Publish(t.Context(), []event.Event{want}); err != nil {
		t.Error(err)
	}
	if len(r.accepted) != 1 {
		t.Errorf("%v arrived", r.accepted)
	}
}

func TestTheSignatureIsOfTheBodyThatTheSDKReads(t *testing.T) {
	t.Parallel()
	signer, err := egress.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	done := false
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		var e sdk.Event
		if err := errors.Join(json.Unmarshal(body, &e), e.Validate()); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		seconds, err := strconv.ParseInt(req.Header.Get("Webhook-Timestamp"), 10, 64)
		if err != nil {
			t.Error(err)
		}
		again := http.Header{}
		signer.Sign(again, egress.EncodeID(e.Source()+"#"+e.ID()), time.Unix(seconds, 0), body)
		done = req.Header.Get("Webhook-Signature") == again.Get("Webhook-Signature")
	}))
	defer server.Close()
	publisher := open(t, server.URL, event.Config{Secret: secret, Allow: loopback})
	if err := publisher.Publish(t.Context(), []event.Event{eventOf("a", 1)}); err != nil || !done {
		t.Errorf("%v, the signature is right: %t", err, done)
	}
}

func TestEventsOfASubjectArriveInOrderAndThoseOfOthersMeanwhile(t *testing.T) {
	t.Parallel()
	both := make(chan struct{})
	var meet sync.WaitGroup
	meet.Add(2)
	go func() { meet.Wait(); close(both) }()
	r := serve(t, func(_ http.ResponseWriter, req *http.Request, e event.Event) int {
		if e.ID == "a-0" || e.ID == "b-0" { // each is answered when the other has come
			meet.Done()
			select {
			case <-both:
			case <-req.Context().Done():
			}
		}
		return http.StatusOK
	})
	var batch []event.Event
	for n := range 50 {
		batch = append(batch, eventOf("a", n), eventOf("b", n))
	}
	publisher := open(t, r.URL, event.Config{Allow: loopback})
	if err := publisher.Publish(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a", "b"} {
		var want []string
		for n := range 50 {
			want = append(want, eventOf(subject, n).ID)
		}
		got := slices.DeleteFunc(slices.Clone(r.accepted), func(id string) bool { return !strings.HasPrefix(id, subject) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", subject, diff)
		}
	}
}

func TestSixteenEventsAreUnderWayAtOnceAndNoMore(t *testing.T) {
	t.Parallel()
	full := make(chan struct{}) // closed when 16 have come
	var here sync.WaitGroup
	here.Add(16)
	go func() { here.Wait(); close(full) }()
	var mu sync.Mutex
	arrived := 0
	r := serve(t, func(_ http.ResponseWriter, req *http.Request, _ event.Event) int {
		mu.Lock()
		if arrived++; arrived <= 16 {
			here.Done()
		}
		mu.Unlock()
		select {
		case <-full:
		case <-req.Context().Done():
		}
		return http.StatusOK
	})
	publisher := open(t, r.URL, event.Config{Allow: loopback})
	var calls sync.WaitGroup
	for call := range 2 { // of one publisher, which bounds them together
		calls.Go(func() {
			var batch []event.Event
			for n := range 100 {
				e := eventOf(fmt.Sprintf("%d-%d", call, n), 1)
				if n%2 == 0 {
					e.Subject = ""
				}
				batch = append(batch, e)
			}
			if err := publisher.Publish(t.Context(), batch); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if r.most != 16 || len(r.accepted) != 200 {
		t.Errorf("%d at once, %d arrived", r.most, len(r.accepted))
	}
}

func TestAfterAFailureTheLaterEventsOfTheSubjectStayBehind(t *testing.T) {
	t.Parallel()
	r := serve(t, func(_ http.ResponseWriter, _ *http.Request, e event.Event) int {
		if e.ID == "a-1" || e.ID == "-0" {
			return http.StatusConflict
		}
		return http.StatusOK
	})
	invalid := eventOf("b", 0)
	invalid.Type = ""
	batch := []event.Event{eventOf("a", 0), eventOf("a", 1), invalid, eventOf("a", 2), eventOf("c", 0), eventOf("b", 1), eventOf("a", 3), eventOf("", 0), eventOf("", 1)}
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), batch)
	partial, ok := errors.AsType[*event.PartialError](err)
	if !ok {
		t.Fatal(err)
	}
	behind := event.ErrBlocked.Error()
	for i, want := range []string{"", `publish event "a-1": post to http://127.0.0.1`, `encode event "b-0"`, behind, "", behind, behind, `publish event "-0"`, ""} {
		got := partial.Errs[i]
		if (got == nil) != (want == "") || got != nil && !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%s: %v, want %s", batch[i].ID, got, want)
		}
	}
	slices.Sort(r.accepted)
	if diff := cmp.Diff([]string{"-1", "a-0", "c-0"}, r.accepted); diff != "" {
		t.Error(diff)
	}
}

func TestRetryAfterIsWaitedForAndTheEventArrivesOnce(t *testing.T) {
	t.Parallel()
	var asked time.Time
	r := serve(t, func(w http.ResponseWriter, _ *http.Request, _ event.Event) int {
		if asked.IsZero() {
			asked = time.Now()
			w.Header().Set("Retry-After", "1")
			return http.StatusTooManyRequests
		}
		if waited := time.Since(asked); waited < time.Second {
			t.Errorf("it came again after %s", waited)
		}
		return http.StatusOK
	})
	if err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), []event.Event{eventOf("a", 0)}); err != nil {
		t.Error(err)
	}
	if len(r.accepted) != 1 || r.requests != 2 {
		t.Errorf("%v, %d requests", r.accepted, r.requests)
	}
}

func TestAReceiverThatIsDownIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := serve(t, func(http.ResponseWriter, *http.Request, event.Event) int { return http.StatusForbidden })
	var batch []event.Event
	for n := range 1000 {
		batch = append(batch, eventOf(fmt.Sprint(n), 0))
	}
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), batch)
	errs := event.Errors(err, len(batch))
	if slices.Contains(errs, nil) {
		t.Fatal("an event is told to be published")
	}
	left := 0
	for _, err := range errs {
		if strings.Contains(err.Error(), "not sent: the 16 events before it failed") {
			left++
		}
	}
	if left != 1000-r.requests || r.requests < 32 || r.requests > 62 { // the second half of them are any events
		t.Errorf("%d requests, and %d events were left: %v", r.requests, left, err)
	}
	if status, ok := errors.AsType[*egress.StatusError](err); !ok || status.Status != http.StatusForbidden {
		t.Errorf("the reason is not told: %v", err)
	}
}

// answersTheBadWith serves a receiver that takes all events but those whose ids begin with bad.
func answersTheBadWith(t *testing.T, status int) *receiver {
	t.Helper()
	return serve(t, func(_ http.ResponseWriter, _ *http.Request, e event.Event) int {
		if strings.HasPrefix(e.ID, "bad") {
			return status
		}
		return http.StatusOK
	})
}

func TestFailuresAmongSuccessesStopNothing(t *testing.T) {
	t.Parallel()
	r := answersTheBadWith(t, http.StatusForbidden) // which counts
	var batch []event.Event
	for n := range 100 {
		batch = append(batch, eventOf(fmt.Sprintf("bad-%d", n), 0), eventOf(fmt.Sprintf("good-%d", n), 0), eventOf(fmt.Sprintf("well-%d", n), 0))
	}
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), batch)
	if partial, ok := errors.AsType[*event.PartialError](err); !ok || len(partial.Unwrap()) != 100 || len(r.accepted) != 200 {
		t.Errorf("%d arrived, %v", len(r.accepted), err)
	}
}

func TestEventsThatAreRefusedForWhatIsInThemHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	r := answersTheBadWith(t, http.StatusRequestEntityTooLarge)
	var batch []event.Event
	for n := range 60 { // in the order in which their schedules were created, so the same in each slot
		batch = append(batch, eventOf(fmt.Sprintf("bad-%d", n), 0))
	}
	batch = append(batch, eventOf("good", 0))
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), batch)
	if partial, ok := errors.AsType[*event.PartialError](err); !ok || len(partial.Unwrap()) != 60 || len(r.accepted) != 1 {
		t.Errorf("%d arrived, %v", len(r.accepted), err)
	}
}

func TestTheEndOfTheContextEndsABatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	errStopped := errors.New("stopped by a test")
	r := serve(t, func(_ http.ResponseWriter, req *http.Request, e event.Event) int {
		if e.ID == "a-0" {
			return http.StatusOK
		}
		cancel(errStopped)
		<-req.Context().Done()
		return http.StatusOK
	})
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(ctx, []event.Event{eventOf("a", 0), eventOf("a", 1), eventOf("a", 2)})
	errs := event.Errors(err, 3)
	if errs[0] != nil || !errors.Is(errs[1], errStopped) || !errors.Is(errs[2], event.ErrBlocked) {
		t.Errorf("%v", errs)
	}
}

// So the forwarder can tell it from those for which no time was left.
func TestAnEventWithoutAnAnswerFailsBeforeItsBatch(t *testing.T) {
	t.Parallel()
	r := serve(t, func(_ http.ResponseWriter, in *http.Request, e event.Event) int {
		if e.Subject == "hangs" {
			<-in.Context().Done()
		}
		return http.StatusOK
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(ctx, []event.Event{eventOf("hangs", 0), eventOf("good", 0)})
	errs := event.Errors(err, 2)
	if ctx.Err() != nil || errs[0] == nil || errors.Is(errs[0], event.ErrNotSent) || errs[1] != nil {
		t.Errorf("%v; the time of the batch: %v", errs, ctx.Err())
	}
	cancel()
	err = open(t, r.URL, event.Config{Allow: loopback}).Publish(ctx, []event.Event{eventOf("later", 0)})
	if !errors.Is(event.Errors(err, 1)[0], event.ErrNotSent) {
		t.Errorf("an event for which no time was left: %v", err)
	}
}

func TestAReceiverThatIsGoneIsToldSo(t *testing.T) {
	t.Parallel()
	r := serve(t, func(http.ResponseWriter, *http.Request, event.Event) int { return http.StatusGone })
	err := open(t, r.URL, event.Config{Allow: loopback}).Publish(t.Context(), []event.Event{eventOf("a", 0)})
	want := "status 410 Gone, so the receiver wants no more: take its URL out of the configuration"
	if err == nil || !strings.Contains(err.Error(), want) || r.requests != 1 {
		t.Errorf("%d requests, %v", r.requests, err)
	}
}

func TestNoEventGoesToAnAddressThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	target := serve(t, accept)
	toMetadata := serve(t, func(w http.ResponseWriter, req *http.Request, _ event.Event) int {
		w.Header().Set("Location", "http://169.254.169.254/latest")
		return http.StatusPermanentRedirect
	})
	for name, test := range map[string]struct {
		url   string
		allow []netip.Prefix
	}{
		"loopback":                              {target.URL, nil},
		"a name of loopback":                    {strings.Replace(target.URL, "127.0.0.1", "localhost", 1), nil},
		"a redirect from an allowed one to one": {toMetadata.URL, loopback},
	} {
		err := open(t, test.url, event.Config{Allow: test.allow}).Publish(t.Context(), []event.Event{eventOf("a", 0)})
		if !errors.Is(err, egress.ErrAddress) || !errors.Is(err, event.ErrNotSent) { // the receiver has not refused it
			t.Errorf("%s: %v", name, err)
		}
	}
	if target.requests != 0 {
		t.Errorf("%d requests arrived", target.requests)
	}
}

func TestABadURLOrSecretIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"https:///hook":             "no http or https URL with one host",
		"https://a,b/hook":          "no http or https URL with one host",
		"https://a:443,b:443/hook":  "no http or https URL with one host",
		"https://example.com/hook/": "webhook secret 1",
	} {
		_, err := event.Open(t.Context(), to, event.Config{Secret: "hunter2"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
}

func TestAnEmptyBatchIsPublished(t *testing.T) {
	t.Parallel()
	if err := open(t, "https://example.com", event.Config{}).Publish(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
