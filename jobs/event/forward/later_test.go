package forward_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/message"
	people "github.com/prescient-go/prescient/internal/receiver"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
)

// setupReceiver is setup for a destination that is a receiver: the events with an even number are sent at an instant.
func setupReceiver(t *testing.T, at time.Time) *world {
	t.Helper()
	w := setup(t, forward.Config{})
	w.cfg.Destinations[0].Keep = true
	w.cfg.Destinations[0].SendAt = func(e event.Event) (send time.Time) {
		if strings.ContainsAny(e.ID, "02468") {
			send = at
		}
		return send
	}
	return w
}

// tell publishes a message about the problem that its letter names. One of the type over tells that it is over.
func (w *world) tell(id, typ string) {
	w.t.Helper()
	w.cfg.Destinations[0].About = func(e event.Event) (string, bool) { return e.Subject, e.Type == "over" }
	problem := id[:1]
	list := []event.Event{{ID: id, Source: "test", Type: typ, Subject: problem, Data: json.RawMessage(`{"about": "` + problem + `"}`)}}
	if err := w.box.Publish(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sent() string {
	w.t.Helper()
	var list []string
	if err := w.db.Select(&list, `select consumer || '/' || subject || '/' || id from prescient.event_sent order by id`); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func TestAMessageWaitsForItsTimeAndHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.publish("a2", "b1", "a3", "b4")
	if sent := w.forward(); sent.Sent != 2 || sent.Refused != 0 {
		t.Errorf("%+v", sent)
	}
	w.want("received", w.receiver.received(), "b1 a3")
	w.want("sent", w.sent(), "shop/a/a3 shop/b/b1")
	w.want("later", w.refused(), "a2:0 b4:0")
	calls := 0
	w.receiver.before = nil
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	calls = w.receiver.tries
	w.send()
	w.want("received together", w.receiver.received(), "a2 b4")
	if calls = w.receiver.tries - calls; calls != 1 {
		t.Errorf("they came in %d calls, want 1", calls)
	}
	w.want("later", w.refused(), "")
	w.want("sent", w.sent(), "shop/a/a2 shop/a/a3 shop/b/b1 shop/b/b4")
}

// A message that was refused at its time is like any other refused event.
func TestAMessageThatIsRefusedAtItsTimeHoldsBackItsSubject(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(-time.Hour))
	w.receiver.refuse("a2")
	w.publish("a2", "b4")
	w.send()
	w.publish("a3", "b3")
	w.forward()
	w.want("received", w.receiver.received(), "b4 b3")
	w.want("refused", w.refused(), "a2:1 a3:0")
	w.receiver.refuse()
	w.retry()
	w.want("received", w.receiver.received(), "a2 a3")
	w.want("sent", w.sent(), "shop/a/a2 shop/a/a3 shop/b/b3 shop/b/b4")
}

func TestADestinationGetsMessagesOnlyIfItsTypesNameThem(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	named := &receiver{}
	w.cfg.Destinations = append(w.cfg.Destinations, forward.Destination{Name: "named", Address: "test:", Types: []string{message.Prefix + "*"}, Publisher: named})
	w.name()
	list := []event.Event{{ID: "1", Source: "test", Type: message.Type("ops")}, {ID: "2", Source: "test", Type: "order.late"}}
	if err := w.box.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	w.forward()
	w.want("received by all types", w.receiver.received(), "2")
	w.want("received by types of messages", named.received(), "1")
}

// Another process does not know which events are settled beyond the position of the consumer.
func TestAMessageThatWasSentAtItsTimeIsNotSentAgainWhileAnEarlierOneIsUnsent(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(-time.Hour))
	w.receiver.downFor("a1")
	w.publish("a1", "b2")
	for range 3 { // processes
		await.True(t, "the events to be read", func() bool { return w.send().Err != nil })
	}
	w.want("sent", w.sent(), "shop/b/b2")
	w.want("later", w.refused(), "")
	w.want("received", w.receiver.received(), "b2")
}

// The publisher makes one message of those to one recipient, so they are in one call of it, however many they are.
func TestTheMessagesToARecipientThatAreDueTogetherAreNotDivided(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.Destinations[0].Types = []string{message.Type("ops")}
	w.name()
	var list []event.Event
	for n := range 600 {
		list = append(list, event.Event{
			ID: fmt.Sprint(2 * n), Source: "test", Type: message.Type("ops"), Subject: fmt.Sprint("s", n),
			Data: json.RawMessage(fmt.Sprintf(`{"text": "x", "to": "c%d"}`, n%250)),
		})
	}
	w.cfg.Destinations[0].SendAt = func(event.Event) time.Time { return time.Now().Add(time.Hour) }
	if err := w.box.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	w.forward()
	calls := map[string]int{} // by recipient
	w.receiver.before = func(_ context.Context, events []event.Event) {
		in := map[string]bool{}
		for _, e := range events {
			in[string(e.Data)] = true
		}
		for to := range in {
			calls[to]++
		}
	}
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp() - interval '1 second'")
	w.send()
	for to, n := range calls {
		if n != 1 {
			t.Errorf("%s: %d calls, want 1", to, n)
		}
	}
	w.want("later", w.refused(), "")
	if len(calls) != 250 {
		t.Errorf("%d recipients", len(calls))
	}
}

func TestADestinationThatGetsNoMoreForNowDoesNotFail(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxRefusals: 1})
	w.receiver.down = event.Partial([]error{event.ErrThrottled})
	w.publish("a1")
	await.True(t, "the event to be tried", func() bool {
		f, err := forward.Start(t.Context(), w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if sent := f.Finish()[0]; sent.Err != nil || sent.Sent != 0 || sent.Refused != 0 {
			t.Fatalf("%+v", sent)
		}
		return w.receiver.tries > 0
	})
	var failing bool
	if err := w.db.Get(&failing, "select failing_since is not null from prescient.event_consumer"); err != nil || failing {
		t.Errorf("it is told as one that fails: %v", err)
	}
	w.receiver.down = nil
	w.send()
	w.want("received", w.receiver.received(), "a1")
	w.want("refused", w.refused(), "")
}

// What the tries of due messages leave of the time of a batch may be too little for the outbox.
func TestADestinationThatIsThrottledForAWholeBatchDoesNotFail(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.Lease = 9 * time.Second
	w.publish("a2")
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp()")
	w.publish("b1")
	w.receiver.down = event.Partial([]error{event.ErrThrottled})
	w.receiver.before = func(ctx context.Context, _ []event.Event) { <-ctx.Done() }
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if sent := f.Finish()[0]; sent.Err != nil || sent.Sent != 0 || sent.Refused != 0 {
		t.Errorf("%+v", sent)
	}
	w.receiver.down, w.receiver.before = nil, nil
	w.send()
	w.want("sent", w.sent(), "shop/a/a2 shop/b/b1")
}

// A run that waits for the minutes of a receiver would hold back the next slots.
func TestFinishLeavesWhatAReceiverGetsOnlyLater(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	sent, calls := w.finishThrottled(100)
	if sent.Err != nil || sent.Sent == 0 || sent.Refused != 0 {
		t.Errorf("%+v", sent)
	}
	if left := len(strings.Fields(w.refused())); calls >= 50 || left != 100-int(sent.Sent) {
		t.Errorf("%d calls, and %d messages are left", calls, left)
	}
}

func TestFinishWaitsForWhatAReceiverGetsLaterIfItTriesAllNow(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.RetryNow = true
	sent, calls := w.finishThrottled(10)
	if sent.Err != nil || sent.Sent != 10 || sent.Refused != 0 || w.refused() != "" {
		t.Errorf("%+v after %d calls, and %q are left", sent, calls, w.refused())
	}
}

// A receiver that takes nothing for longer than Finish waits for an open transaction.
func TestFinishWaitsForAReceiverThatTakesNothingForSomeTime(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.RetryNow = true
	w.publish("a1", "b1")
	var from time.Time
	w.cfg.Destinations[0].Publisher = publish(func(events []event.Event) error {
		if from.IsZero() {
			from = time.Now()
		}
		if time.Since(from) > 4*time.Second {
			return nil
		}
		return event.Partial(slices.Repeat([]error{event.ErrThrottled}, len(events)))
	})
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if sent := f.Finish()[0]; sent.Err != nil || sent.Sent != 2 || sent.Held {
		t.Errorf("%+v", sent)
	}
}

// finishThrottled calls Finish with n messages that are due, for a receiver that takes one in each call, and returns what
// was sent in how many calls.
func (w *world) finishThrottled(n int) (sent forward.Sent, calls int) {
	w.t.Helper()
	var ids []string
	for n := range n {
		ids = append(ids, fmt.Sprint("a", 2*n))
	}
	w.publish(ids...)
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	w.cfg.Destinations[0].Publisher = publish(func(events []event.Event) error {
		calls++
		errs := make([]error, len(events))
		for i := range errs[1:] {
			errs[i+1] = event.ErrThrottled
		}
		return event.Partial(errs)
	})
	f, err := forward.Start(w.t.Context(), w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Finish()[0], calls
}

// The step after one whose due messages took all the time sends from the outbox, also once Finish was called.
func TestFinishSendsFromTheOutboxThoughDueMessagesTakeAllTheTime(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.publish("a0", "a2")
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	w.publish("b1")
	w.cfg.Lease = 3 * time.Second
	slow := &throttling{}
	w.cfg.Destinations[0].Publisher = slow
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.Finish()
	if !slices.Contains(slow.got, "b1") {
		t.Errorf("the destination got %q", slow.got)
	}
}

// throttling is a Publisher that takes what is new, and lets all others wait for as long as it may.
type throttling struct{ got []string }

func (p *throttling) Publish(ctx context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	for i, e := range events {
		if e.ID[0] == 'a' {
			<-ctx.Done()
			errs[i] = event.ErrThrottled
			continue
		}
		p.got = append(p.got, e.ID)
	}
	return event.Partial(errs)
}

func (p *throttling) Close() error { return nil }

// publish is a Publisher.
type publish func(events []event.Event) error

func (p publish) Publish(_ context.Context, events []event.Event) error {
	time.Sleep(20 * time.Millisecond) // it waits for its bound
	return p(events)
}

func (p publish) Close() error { return nil }

// An incident that was resolved before it was opened would stay open.
func TestThatAProblemIsOverIsToldAfterTheProblem(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	usual := w.cfg.Destinations[0].SendAt
	w.cfg.Destinations[0].SendAt = func(e event.Event) time.Time {
		if e.ID == "d4" {
			return time.Now().Add(time.Minute)
		}
		return usual(e)
	}
	w.tell("a2", "late") // waits for its time
	w.forward()
	w.tell("a1", "over")
	w.tell("b1", "late")
	w.tell("b3", "over")
	w.tell("c2", "late") // read together
	w.tell("c1", "over")
	w.tell("d2", "late")
	w.tell("d4", "over") // which has a time of its own
	w.forward()
	w.want("received", w.receiver.received(), "b1 b3")
	w.want("later", w.refused(), "a2:0 a1:0 c2:0 c1:0 d2:0 d4:0")
	var early int
	if err := w.db.Get(&early, `select count(*) from prescient.event_dead e join prescient.event_dead l using (subject)
		where e.type = 'over' and l.type = 'late' and e.send_at < l.send_at`); err != nil || early > 0 {
		t.Errorf("%d ends are sent before their problems, %v", early, err)
	}
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	w.receiver.refuse("a2")
	w.send()
	w.want("received", w.receiver.received(), "c2 c1 d2 d4")
	w.tell("e2", "late")
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp() where id <> 'a2'")
	w.send() // before a2 is tried again
	w.want("received", w.receiver.received(), "e2")
	w.receiver.refuse()
	w.retry()
	w.want("received", w.receiver.received(), "a2 a1")
	w.receiver.down = errors.New("no route to host")
	w.tell("f1", "late")
	w.tell("f2", "over") // which has a time of its own, until which the receiver is down
	w.forward()
	w.receiver.down = nil
	for range 2 {
		w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
		w.send()
	}
	w.want("received", w.receiver.received(), "f1 f2")
}

// A message has the payload of its row, in which a column of type json may have such a text.
func TestAMessageWithATextThatTheDatabaseCannotReadIsSentAtItsTime(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`\u0000`, `\ud800`} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			w := setupReceiver(t, time.Now().Add(time.Hour))
			w.cfg.Destinations[0].About = people.About
			w.publishData("a2", `{"about":"a`+bad+`","to":"x`+bad+`","payload":"`+bad+`"}`)
			w.publishData("b2", `{"about":"b😀","to":"x"}`)
			w.forward()
			w.publishData("a1", `{"about":"a`+bad+`","over":true,"payload":"`+bad+`"}`)
			w.publishData("b1", `{"about":"b\ud83d\ude00","over":true}`)
			w.publishData("c1", `{}`)
			w.forward()
			w.want("received", w.receiver.received(), "c1")
			w.want("later", w.refused(), "a2:0 b2:0 a1:0 b1:0")
			w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
			w.send()
			w.want("received", w.receiver.received(), "a2 a1 b2 b1")
			w.want("later", w.refused(), "")
		})
	}
}

// A message that alone gets no answer, while the service takes others.
func TestAMessageThatIsDueAndFailsHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.publish("a2", "b4")
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	w.receiver.downFor("a2")
	w.publish("c1")
	got := map[string]bool{}
	await.True(t, "the other messages to be sent", func() bool {
		w.send()
		for _, id := range strings.Fields(w.receiver.received()) {
			got[id] = true
		}
		return got["b4"] && got["c1"]
	})
	if got["a2"] || !strings.HasPrefix(w.refused(), "a2:") || w.refused() == "a2:0" {
		t.Errorf("got %v, and refused are %s", got, w.refused())
	}
}

// A receiver that answers nothing but errors has one error for all messages of a call, also for those it was not sent.
func TestAServiceThatAnswersWithAnErrorRefusesNoMessageThatIsDue(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			w := setupReceiver(t, time.Now().Add(time.Hour))
			w.cfg.MaxRefusals = 1
			w.publish("a2", "b4")
			w.forward()
			w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
			w.receiver.down = fmt.Errorf("post: %w", &egress.StatusError{Status: status})
			if sent := w.send(); !errors.Is(sent.Err, w.receiver.down) || sent.Refused != 0 {
				t.Errorf("%+v", sent)
			}
			w.want("refused", w.refused(), "a2:0 b4:0")
			w.receiver.down = nil
			w.send()
			w.want("received", w.receiver.received(), "a2 b4")
		})
	}
}

// The answer counts for what was refused before. It says nothing of the others, which are tried without that.
func TestAServiceThatAnswersWithAnErrorRefusesAgainOnlyWhatItHadRefused(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.receiver.refuse("a1")
	w.publish("a1", "b2")
	w.forward()
	w.want("refused", w.refused(), "a1:1 b2:0")
	w.db.MustExec("update prescient.event_dead set send_at = statement_timestamp() where send_at is not null")
	w.receiver.down = fmt.Errorf("post: %w", &egress.StatusError{Status: http.StatusServiceUnavailable})
	if sent := w.retry(); !errors.Is(sent.Err, w.receiver.down) || sent.Refused != 1 {
		t.Errorf("%+v", sent)
	}
	w.want("refused", w.refused(), "a1:2 b2:0")
	w.receiver.down = nil
	w.receiver.refuse()
	w.retry()
	w.want("received", w.receiver.received(), "a1 b2")
}

// The end waits for the time of its problem, and for the problem itself once that is a dead letter.
func TestAnEndWaitsForAProblemThatIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.MaxRefusals = 1
	w.tell("a2", "late")
	w.forward()
	w.tell("a1", "over")
	w.forward()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp(), send_at = statement_timestamp()")
	w.receiver.refuse("a2")
	w.send()
	w.send()
	w.want("received", w.receiver.received(), "")
	w.want("refused", w.refused(), "[a2:1] a1:0")
	w.receiver.refuse()
	if _, err := deadletter.Retry(t.Context(), w.db, "", deadletter.Filter{Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	w.retry()
	w.want("received", w.receiver.received(), "a2 a1")
}

func TestADeadLetterThatIsSentAgainWaitsForNoMessageOfALaterTime(t *testing.T) {
	t.Parallel()
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.cfg.MaxRefusals = 1
	w.receiver.refuse("a3")
	w.publish("a2")
	w.forward()
	w.publish("a3")
	w.forward()
	w.want("refused", w.refused(), "a2:0 [a3:1]")
	w.receiver.refuse()
	if _, err := deadletter.Retry(t.Context(), w.db, "", deadletter.Filter{Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	w.send()
	w.want("received", w.receiver.received(), "a3")
}
