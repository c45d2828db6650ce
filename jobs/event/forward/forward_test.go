package forward_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/deadletter"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/forward"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// receiver is a destination that refuses the events with some ids.
type receiver struct {
	mu      sync.Mutex
	refuses map[string]bool
	down    error
	got     []string
	tries   int
	before  func(ctx context.Context, events []event.Event) // a call; nil: nothing
}

func (r *receiver) Publish(ctx context.Context, events []event.Event) error {
	if r.before != nil {
		r.before(ctx, events)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if r.down != nil {
		return r.down
	}
	errs := make([]error, len(events))
	for _, chain := range event.BySubject(events) {
		event.InOrder(chain, errs, func(i int) error {
			if r.refuses[events[i].ID] {
				return fmt.Errorf("%w: 422", event.ErrRefused)
			}
			r.got = append(r.got, events[i].ID)
			return nil
		})
	}
	return event.Partial(errs)
}

func (r *receiver) Close() error { return nil }

func (r *receiver) refuse(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = map[string]bool{}
	for _, id := range ids {
		r.refuses[id] = true
	}
}

// downFor lets the receiver be down for calls that begin with an event.
func (r *receiver) downFor(id string) {
	r.before = func(_ context.Context, events []event.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.down = nil
		if events[0].ID == id {
			r.down = errors.New("503")
		}
	}
}

func (r *receiver) received() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := strings.Join(r.got, " ")
	r.got = nil
	return got
}

type world struct {
	t        *testing.T
	db       *sqlx.DB
	box      *outbox.Outbox
	receiver *receiver
	list     *deadletter.List
	cfg      forward.Config
}

func setup(t *testing.T, cfg forward.Config) *world {
	t.Helper()
	return setupOn(t, pgtest.New(t), cfg)
}

func setupOn(t *testing.T, db *sqlx.DB, cfg forward.Config) *world {
	t.Helper()
	w := &world{t: t, db: db, receiver: &receiver{}}
	w.box, w.list = outbox.New(w.db, ""), deadletter.NewList(w.db, "")
	cfg.DB, cfg.Logger = w.db, slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg.Destinations = []forward.Destination{{Name: "shop", Address: "test:", Publisher: w.receiver}}
	w.cfg = cfg
	w.name()
	return w
}

func (w *world) name() {
	w.t.Helper()
	if err := forward.Name(w.t.Context(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
}

// publish writes events such as "a1", whose subjects are their letters.
func (w *world) publish(ids ...string) {
	w.t.Helper()
	var list []event.Event
	for _, id := range ids {
		list = append(list, event.Event{ID: id, Source: "test", Type: "happened." + id, Subject: strings.TrimRight(id, "0123456789")})
	}
	if err := w.box.Publish(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
}

// publishData publishes an event as publish does, with data.
func (w *world) publishData(id, data string) {
	w.t.Helper()
	e := event.Event{
		ID: id, Source: "test", Type: "happened." + id, Subject: strings.TrimRight(id, "0123456789"), Data: json.RawMessage(data),
	}
	if err := w.box.Publish(w.t.Context(), []event.Event{e}); err != nil {
		w.t.Fatal(err)
	}
}

// forward sends what waits, and no refused event again, however long the test takes. Other tests on the server hold
// events back for a moment.
func (w *world) forward() forward.Sent {
	w.t.Helper()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp() + interval '1 hour' where try_at is not null")
	return w.send()
}

func (w *world) send() (total forward.Sent) {
	w.t.Helper()
	await.True(w.t, "the events to be read", func() bool {
		f, err := forward.Start(w.t.Context(), w.cfg)
		if err != nil {
			w.t.Fatal(err)
		}
		sent := f.Finish()[0]
		total.Err, total.Refusal, total.Elsewhere = sent.Err, cmp.Or(sent.Refusal, total.Refusal), sent.Elsewhere
		total.Sent, total.Refused = total.Sent+sent.Sent, total.Refused+sent.Refused
		var left int
		if err := w.db.Get(&left, `select count(*) from prescient.event_consumer c
			join prescient.event_outbox o on (o.mark, o.position) > (c.mark, c.position)`); err != nil {
			w.t.Fatal(err)
		}
		return left == 0 || sent.Err != nil || sent.Elsewhere
	})
	return total
}

// retry makes refused events due, and sends what waits.
func (w *world) retry() forward.Sent {
	w.t.Helper()
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp() where try_at is not null")
	return w.send()
}

// refused lists the refused events with their refusals; those of dead letters in brackets.
func (w *world) refused() string {
	w.t.Helper()
	var list []string
	if err := w.db.Select(&list, `select format(case when dead_at is null then '%s:%s' else '[%s:%s]' end, id, refusals)
		from prescient.event_dead order by number`); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestADestinationGetsTheEventsFromTheMomentAtWhichItIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.publish("a1", "b1", "a2")
	if sent := w.forward(); sent.Sent != 3 || sent.Err != nil {
		t.Errorf("%+v", sent)
	}
	w.want("received", w.receiver.received(), "a1 a2 b1")
	w.forward()
	w.want("received again", w.receiver.received(), "")
	late := &receiver{}
	w.cfg.Destinations = append(w.cfg.Destinations, forward.Destination{Name: "late", Address: "test:", Publisher: late})
	w.name()
	w.publish("a3")
	w.forward()
	w.want("received", w.receiver.received(), "a3")
	w.want("received by the new one", late.received(), "a3")
}

func TestADestinationGetsOnlyItsTypes(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.cfg.Destinations[0].Types = []string{"happened.b*", "*3"}
	w.publish("a1", "b1", "a3")
	w.forward()
	w.want("received", w.receiver.received(), "b1 a3")
	for pattern, want := range map[string]bool{"happened.a1": true, "*": true, "hap*.a*": true, "*pen*1": true, "happened": false, "*2": false, "": false, "x*": false} {
		if forward.Matches(pattern, "happened.a1") != want {
			t.Errorf("%q matches: %t", pattern, !want)
		}
	}
}

func TestARefusedEventHoldsBackItsSubjectAndNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.receiver.refuse("a1")
	w.publish("a1", "b1", "a2")
	w.forward()
	w.publish("a3", "b2")
	w.forward()
	w.want("received", w.receiver.received(), "b1 b2")
	w.want("refused", w.refused(), "a1:1 a2:0 a3:0")
	w.retry()
	w.want("refused", w.refused(), "a1:2 a2:0 a3:0")
	w.receiver.refuse()
	w.publish("a4")
	w.retry()
	w.want("received", w.receiver.received(), "a1 a2 a3 a4")
	w.want("refused", w.refused(), "")
	w.publish("a5")
	w.forward()
	w.want("received", w.receiver.received(), "a5")
}

// The database refuses to take these texts out of JSON, and keeps them within it.
func TestTextsThatTheDatabaseCannotReadHoldBackNoOtherEvent(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"x":"\u0000"}`, `{"x":"\ud800"}`, `{"x":"\udc00"}`, `["\u0000"]`, `"\u0000"`} {
		t.Run(data, func(t *testing.T) {
			t.Parallel()
			w := setup(t, forward.Config{})
			w.receiver.refuse("a1")
			w.publishData("a1", data)
			w.publish("c1")
			w.forward()
			w.publish("b1")
			if sent := w.retry(); sent.Err != nil {
				t.Error(sent.Err)
			}
			w.want("received", w.receiver.received(), "c1 b1")
			if refused := w.refused(); refused == "a1:1" || !strings.HasPrefix(refused, "a1:") || strings.Contains(refused, " ") {
				t.Errorf("refused is %q, want a1 alone, after another try", refused)
			}
		})
	}
}

func TestAForwarderTriesRefusedEventsAtOnceIfToldTo(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.receiver.refuse("a1")
	w.publish("a1", "b1", "a2")
	if sent := w.send(); !errors.Is(sent.Refusal, event.ErrRefused) || sent.Err != nil {
		t.Errorf("%+v", sent)
	}
	w.db.MustExec("update prescient.event_dead set try_at = statement_timestamp() + interval '10 minutes' where try_at is not null")
	if sent := w.send(); sent.Refused != 0 || sent.Refusal != nil {
		t.Errorf("within the pause: %+v", sent)
	}
	w.cfg.RetryNow = true
	if sent := w.send(); sent.Refused == 0 || !errors.Is(sent.Refusal, event.ErrRefused) {
		t.Errorf("%+v", sent)
	}
	w.receiver.refuse()
	w.send()
	w.want("received", w.receiver.received(), "b1 a1 a2")
}

// Another forwarder has locked what it tries itself: there is nothing to wait for.
func TestAForwarderThatTriesAtOnceWaitsForNoOtherOne(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{RetryNow: true})
	w.receiver.refuse("a1")
	w.publish("a1", "b1")
	w.send()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("select from prescient.event_dead for update")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a bound for the failure alone
	defer cancel()
	forwarder, err := forward.Start(ctx, w.cfg)
	if err != nil {
		t.Fatalf("it waits for the lock: %v", err)
	}
	forwarder.Stop()
}

func TestAnEventThatIsRefusedOftenBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		more              bool // continue
		refused, received string
	}{
		"hold":     {false, "[a1:2] [a2:0] [a3:0]", "b1"},
		"continue": {true, "[a1:2]", "b1 a2 a3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, forward.Config{MaxRefusals: 2, Continue: test.more})
			w.receiver.refuse("a1")
			w.publish("a1", "b1", "a2")
			w.forward()
			w.retry()
			w.publish("a3")
			w.forward()
			w.want("refused", w.refused(), test.refused)
			w.want("received", w.receiver.received(), test.received)
			w.receiver.refuse()
			if n, err := deadletter.Retry(t.Context(), w.db, "", deadletter.Filter{Consumer: "shop"}); err != nil || n != int64(len(strings.Fields(test.refused))) {
				t.Errorf("%d, %v", n, err)
			}
			w.send()
			w.want("refused", w.refused(), "")
			w.want("received", w.receiver.received(), strings.NewReplacer("[", "", "]", "", ":2", "", ":0", "").Replace(test.refused))
		})
	}
}

func TestOneRefusalIsEnoughIfTheLimitIsOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		more              bool
		refused, received string
	}{
		"hold":     {false, "[a1:1] [a2:0]", "b1"},
		"continue": {true, "[a1:1]", "b1 a2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, forward.Config{MaxRefusals: 1, Continue: test.more})
			w.receiver.refuse("a1")
			w.publish("a1", "a2", "b1")
			w.forward()
			w.forward()
			w.want("refused", w.refused(), test.refused)
			w.want("received", w.receiver.received(), test.received)
		})
	}
}

func TestEventsBehindADeadLetterAreLoggedOnceForTheirSubject(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxRefusals: 1})
	w.receiver.refuse("a1")
	w.publish("a1")
	w.forward()
	var log bytes.Buffer
	w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.publish("a2", "b1", "a3")
	w.forward()
	w.want("refused", w.refused(), "[a1:1] [a2:0] [a3:0]")
	if got := log.String(); strings.Count(got, "level=WARN") != 1 ||
		!strings.Contains(got, `msg="event is a dead letter" destination=shop id=a2 subject=a error="not tried, because `) {
		t.Error(got)
	}
}

func TestAnEventThatWasRefusedForLongBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxAge: time.Hour})
	w.receiver.refuse("a1")
	w.publish("a1")
	w.forward()
	w.retry()
	w.want("soon after", w.refused(), "a1:2")
	w.db.MustExec("update prescient.event_dead set refused_at = statement_timestamp() - interval '1 hour'")
	w.retry()
	w.want("an hour later", w.refused(), "[a1:3]")
}

// The age of an event that was held back counts from its own first refusal.
func TestAnEventThatWasHeldBackForLongIsTriedAgainAfterItsFirstRefusal(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxAge: time.Hour})
	w.receiver.refuse("a1")
	w.publish("a1", "a2")
	w.forward()
	w.want("refused", w.refused(), "a1:1 a2:0")
	w.db.MustExec("update prescient.event_dead set refused_at = statement_timestamp() - interval '1 hour' where id = 'a2'")
	w.receiver.refuse("a2")
	w.retry()
	w.want("refused", w.refused(), "a2:1")
}

func TestADestinationThatIsDownRefusesNoEvent(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxRefusals: 1})
	w.receiver.down = errors.New("no route to \x00 host")
	w.publish("a1", "b1")
	if sent := w.forward(); !errors.Is(sent.Err, w.receiver.down) || sent.Refused != 0 {
		t.Errorf("%+v", sent)
	}
	w.want("refused", w.refused(), "")
	var since *time.Time
	var text string
	if err := w.db.QueryRow("select failing_since, error from prescient.event_consumer").Scan(&since, &text); err != nil || since == nil || text != "no route to  host" {
		t.Errorf("%v, %q, %v", since, text, err)
	}
	w.receiver.down = nil
	w.forward()
	w.want("received", w.receiver.received(), "a1 b1")
	if err := w.db.QueryRow("select failing_since, coalesce(error, '') from prescient.event_consumer").Scan(&since, &text); err != nil || since != nil || text != "" {
		t.Errorf("%v, %q, %v", since, text, err)
	}
}

func TestAForwarderThatFinishesDoesNotTryADestinationAgainBeforeItsPauseIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.receiver.down = errors.New("404 Not Found")
	var tries []time.Time
	w.receiver.before = func(context.Context, []event.Event) { tries = append(tries, time.Now()) }
	w.publish("a1")
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the first try to be recorded", func() bool {
		var failing bool
		err := w.db.Get(&failing, "select failing_since is not null from prescient.event_consumer")
		return err == nil && failing
	})
	if sent := f.Finish()[0]; !errors.Is(sent.Err, w.receiver.down) {
		t.Errorf("%+v", sent)
	}
	for i := range tries[1:] { // on a busy machine
		if pause := tries[i+1].Sub(tries[i]); pause < time.Second {
			t.Errorf("tried again after %s", pause)
		}
	}
}

// A service that gets too many messages asks to wait, and may ban a sender that does not.
func TestADestinationThatAsksToWaitIsTriedAgainAfterThat(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	const wait = 3 * time.Second
	w.receiver.down = fmt.Errorf("post: %w", &egress.StatusError{Status: http.StatusTooManyRequests, RetryAfter: wait})
	tries := make(chan time.Time, 100)
	w.receiver.before = func(context.Context, []event.Event) { tries <- time.Now() }
	w.publish("a1")
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Stop() })
	if first, second := <-tries, <-tries; second.Sub(first) < wait {
		t.Errorf("tried again after %s", second.Sub(first))
	}
}

// Events for other destinations are no progress of one that hangs: a run would wait for it a second time, and its finding
// would come later.
func TestADestinationThatHangsIsTriedOnceBesideEventsForOthers(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{Lease: 3 * time.Second})
	w.cfg.Destinations[0].Types = []string{"happened.a*"}
	w.receiver.down = errors.New("no answer")
	w.receiver.before = func(ctx context.Context, _ []event.Event) { <-ctx.Done() }
	w.publish("a1", "b1", "b2")
	var sent forward.Sent
	await.True(t, "the destination to be tried", func() bool {
		sent = w.forward()
		return w.receiver.tries > 0
	})
	if !errors.Is(sent.Err, w.receiver.down) || w.receiver.tries != 1 {
		t.Errorf("%d tries: %+v", w.receiver.tries, sent)
	}
}

// The next batch would be lost to it, too, and so all others.
func TestARefusedEventWithoutAnAnswerHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{Lease: 3 * time.Second})
	w.receiver.refuse("a1")
	w.publish("a1")
	w.forward()
	w.want("refused", w.refused(), "a1:1")
	w.receiver.before = func(ctx context.Context, events []event.Event) {
		if events[0].ID == "a1" {
			<-ctx.Done()
		}
	}
	w.publish("b1")
	w.retry()
	w.forward()
	w.want("received", w.receiver.received(), "b1")
	w.want("refused", w.refused(), "a1:2")
}

func TestARefusedEventForWhichADestinationSeemsDownHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.receiver.refuse("a1")
	w.publish("a1", "a2")
	w.forward()
	w.want("refused", w.refused(), "a1:1 a2:0")
	w.receiver.downFor("a1")
	if sent := w.retry(); sent.Err == nil {
		t.Errorf("nothing else was sent: %+v", sent)
	}
	w.want("refused", w.refused(), "a1:1 a2:0")
	w.publish("b1")
	await.True(t, "the other event to be sent", func() bool {
		w.retry()
		return w.receiver.received() == "b1"
	})
	w.want("refused", w.refused(), "a1:2 a2:0")
}

// Such as a connection that is refused, of which a webhook tells for each event.
func TestAnOutageIsNoRefusalOfARefusedEvent(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxRefusals: 2})
	w.receiver.refuse("a1")
	w.publish("a1")
	w.forward()
	w.receiver.down = event.Partial([]error{errors.New("connection refused")})
	for range 3 {
		if sent := w.retry(); sent.Err == nil || sent.Refused != 0 {
			t.Errorf("%+v", sent)
		}
	}
	w.want("refused", w.refused(), "a1:1")
	w.receiver.down = nil
	w.receiver.refuse()
	w.retry()
	w.want("received", w.receiver.received(), "a1")
}

// SQL may write an event that can be no CloudEvent. A destination cannot encode it, which is no fault of the destination.
func TestAnEventThatCanBeNoCloudEventIsRefusedAgainAndHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{MaxRefusals: 3})
	refuses := errors.New("422")
	w.cfg.Destinations[0].Publisher = publish(func(events []event.Event) error {
		errs := make([]error, len(events))
		for i, e := range events {
			if _, errs[i] = json.Marshal(e); errs[i] == nil && e.ID == "b1" && refuses != nil {
				errs[i] = fmt.Errorf("%w: %w", event.ErrRefused, refuses)
			}
		}
		return event.Partial(errs)
	})
	w.db.MustExec("insert into prescient.event_outbox (id, source, type, subject) values ('a1', 'my shop', 'order.late', 'a')")
	w.publish("b1")
	w.forward()
	w.want("refused", w.refused(), "a1:1 b1:1")
	refuses = nil
	if sent := w.retry(); sent.Err != nil || sent.Sent != 1 || sent.Refused != 1 {
		t.Errorf("%+v", sent)
	}
	w.want("refused", w.refused(), "a1:2")
	if sent := w.retry(); sent.Err != nil || sent.Refused != 1 {
		t.Errorf("%+v", sent)
	}
	w.want("refused", w.refused(), "[a1:3]")
}

func TestAnEventThatCanBeNoCloudEventHoldsBackItsSubject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg               forward.Config
		refused, received string
	}{
		"without a limit": {forward.Config{}, "a1:1 a2:0", "b1"},
		"hold":            {forward.Config{MaxRefusals: 1}, "[a1:1] [a2:0]", "b1"},
		"continue":        {forward.Config{MaxRefusals: 1, Continue: true}, "[a1:1]", "a2 b1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, test.cfg)
			w.db.MustExec("insert into prescient.event_outbox (id, source, type, subject) values ('a1', 'my shop', 'order.late', 'a')")
			w.publish("a2", "b1")
			w.forward()
			w.want("refused", w.refused(), test.refused)
			w.want("received", w.receiver.received(), test.received)
		})
	}
}

// Pages without an event for the destination say nothing of it.
func TestARefusedEventHoldsBackNoOtherBehindPagesOfForeignEvents(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.cfg.Destinations[0].Types = []string{"happened.a*", "happened.b*"}
	w.receiver.refuse("a1")
	w.publish("a1")
	w.forward()
	w.receiver.downFor("a1")
	var foreign []string
	for n := range 600 {
		foreign = append(foreign, fmt.Sprint("c", n))
	}
	w.publish(append(foreign, "b1")...)
	var refusals string
	await.True(t, "the other event to be sent", func() bool {
		tries := w.receiver.tries
		w.retry()
		refusals = w.refused()
		return w.receiver.received() == "b1" && w.receiver.tries == tries+2
	})
	w.want("refused", refusals, "a1:2")
}

// An event that other events go past is refused, whatever its error says.
func TestAnEventThatOthersGoPastIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	broken := event.Wrap(w.receiver, func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
		errs := slices.Clone(event.Errors(publish(ctx), len(events)))
		for i := range errs {
			if errs[i] != nil && !errors.Is(errs[i], event.ErrBlocked) {
				errs[i] = errors.New("500")
			}
		}
		return event.Partial(errs)
	})
	w.cfg.Destinations[0].Publisher = broken
	w.receiver.refuse("a1")
	w.publish("a1")
	if sent := w.forward(); sent.Err == nil {
		t.Errorf("%+v", sent)
	}
	w.want("alone", w.refused(), "")
	w.publish("b1", "a2")
	await.True(t, "events to be read beside the refused one", func() bool {
		w.forward()
		return w.refused() != ""
	})
	w.want("beside another one", w.refused(), "a1:1 a2:0")
	w.want("received", w.receiver.received(), "b1")
}

// webhook lets the destination be a webhook, with the status of the answer to each event. got returns the ids of those
// that it has accepted, in their order.
func (w *world) webhook(status func(req *http.Request, id string) int) (got func() []string) {
	w.t.Helper()
	var mu sync.Mutex
	var accepted []string
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil { // then the end of the connection ends the request
			w.t.Error(err)
		}
		_, id, _ := strings.Cut(req.Header.Get("webhook-id"), "%23") // after the source
		answer := status(req, id)
		to.WriteHeader(answer)
		if answer == http.StatusOK {
			mu.Lock()
			defer mu.Unlock()
			accepted = append(accepted, id)
		}
	}))
	w.t.Cleanup(server.Close)
	publisher, err := event.Open(w.t.Context(), server.URL, event.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = publisher.Close() })
	w.cfg.Destinations[0].Publisher = publisher
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(accepted)
	}
}

// As the runs that cron starts, each a process that tries once.
func TestManyEventsThatAWebhookDoesNotAcceptHoldBackNoOther(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]int{"more than a webhook tries": 60, "more than the first page": 300} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, forward.Config{})
			got := w.webhook(func(_ *http.Request, id string) int {
				if strings.HasPrefix(id, "bad") {
					return http.StatusNotFound
				}
				return http.StatusOK
			})
			var ids []string
			for n := range bad {
				ids = append(ids, fmt.Sprintf("bad%d-%d", n, n))
			}
			for n := range 30 {
				ids = append(ids, fmt.Sprintf("good%d-%d", n, n))
			}
			w.publish(ids...)
			await.True(t, "the other events to be accepted", func() bool {
				w.forward()
				ids := got()
				slices.Sort(ids)
				return len(slices.Compact(ids)) == 30
			})
			if !strings.HasPrefix(w.refused(), "bad") {
				t.Errorf("no event is refused: %q", w.refused())
			}
		})
	}
}

// Else each process would send again what follows the event.
func TestAnEventThatOthersGoPastInABatchThatIsCutShortIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{Lease: 3 * time.Second})
	got := w.webhook(func(req *http.Request, id string) int {
		switch id {
		case "a1":
			return http.StatusNotFound
		case "c1":
			time.Sleep(time.Second)
		case "c2": // the batch has less time left than an event gets
			<-req.Context().Done()
		}
		return http.StatusOK
	})
	w.publish("a1", "b1", "c1", "c2")
	await.True(t, "the event to be refused", func() bool {
		w.forward()
		return strings.HasPrefix(w.refused(), "a1:1")
	})
	if ids := got(); ids[0] != "b1" || slices.Contains(ids[1:], "b1") {
		t.Errorf("the webhook has got %v", ids)
	}
}

func TestADaemonSendsAnEventSoonAndTriesADestinationAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	got := make(chan time.Time, 1000)
	w.receiver.before = func(context.Context, []event.Event) { got <- time.Now() }
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Stop() })
	var took []time.Duration
	for n := range 10 {
		began := time.Now()
		f.Wake()
		w.publish(fmt.Sprint("a", n))
		select {
		case at := <-got:
			took = append(took, at.Sub(began))
		case <-time.After(await.Limit):
			t.Fatal("the event is not sent")
		}
	}
	slices.Sort(took)
	t.Logf("from before the record to the destination: %s in the mean, %s at most", took[5], took[9])
}

func TestOneForwarderAtATimeSendsToADestination(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{Lease: 3 * time.Second})
	sending, release := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	w.receiver.before = func(context.Context, []event.Event) {
		if begun.CompareAndSwap(false, true) {
			close(sending)
			<-release
		}
	}
	w.publish("a1")
	first, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-sending
	if sent := w.forward(); !sent.Elsewhere || sent.Sent != 0 {
		t.Errorf("%+v", sent)
	}
	// The first one hangs for longer than its lease: another one takes over, and what the first has sent is not recorded.
	w.db.MustExec("update prescient.event_consumer set allocated_until = statement_timestamp() - interval '1 second'")
	if sent := w.forward(); sent.Sent != 1 {
		t.Errorf("%+v", sent)
	}
	w.publish("a2")
	second, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the second forwarder has sent a2", func() bool {
		w.receiver.mu.Lock()
		defer w.receiver.mu.Unlock()
		return slices.Contains(w.receiver.got, "a2")
	})
	second.Stop()
	w.receiver.refuse("a1")
	close(release)
	first.Stop()
	w.want("refused", w.refused(), "")
	w.want("received", w.receiver.received(), "a1 a2")
}

func TestAKilledForwarderSendsAgainWhatItHasNotRecorded(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.publish("a1", "b1", "a2")
	w.db.MustExec("update prescient.event_consumer set token = 1, allocated_until = statement_timestamp() - interval '1 second'")
	w.forward()
	w.want("received", w.receiver.received(), "a1 a2 b1")
	w.db.MustExec("update prescient.event_consumer set token = 1, allocated_until = statement_timestamp() + interval '1 minute'")
	w.publish("a3")
	if sent := w.forward(); !sent.Elsewhere {
		t.Errorf("%+v", sent)
	}
	w.want("received", w.receiver.received(), "")
}

func TestManyEventsArriveOnceInTheOrderOfTheirSubjects(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	var ids []string
	want := map[string][]string{}
	for n := range 3000 {
		subject := string(rune('a' + n%26))
		id := fmt.Sprint(subject, n)
		ids, want[subject] = append(ids, id), append(want[subject], id)
	}
	w.receiver.refuse("c2", "d3")
	w.publish(ids...)
	w.forward()
	w.receiver.refuse()
	w.retry()
	got := map[string][]string{}
	for _, id := range strings.Fields(w.receiver.received()) {
		got[id[:1]] = append(got[id[:1]], id)
	}
	for subject, list := range want {
		if !slices.Equal(got[subject], list) {
			t.Errorf("%s: %d events %.100v, want %d", subject, len(got[subject]), got[subject], len(list))
		}
	}
	w.want("refused", w.refused(), "")
}

// Each transaction that records is a commit to disk.
func TestABatchCostsATransactionThatReadsAndOneThatRecords(t *testing.T) {
	t.Parallel()
	faults := pgtest.OpenFaults(t, pgtest.URL(t), pgtest.Unprepared)
	w := setupOn(t, faults.DB, forward.Config{})
	var ids []string
	for n := range 3000 {
		ids = append(ids, fmt.Sprint("a", n))
	}
	w.publish(ids...)
	await.True(t, "the events to be readable", func() bool {
		list, err := w.box.Newest(t.Context(), 1)
		return err == nil && len(list) == 1 && list[0].ID == ids[len(ids)-1]
	})
	faults.Set(pgtest.Fault{})
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if sent := f.Finish(); sent[0].Sent != 3000 || w.receiver.tries != 4 {
		t.Fatalf("%+v in %d batches", sent, w.receiver.tries)
	}
	commits := 0
	for _, text := range faults.Trips() {
		if text == "commit" {
			commits++
		}
	}
	const around = 5 // name, look, take the lease, look again at the end, and give the lease back
	if want := around + 2*w.receiver.tries; commits != want {
		t.Errorf("%d transactions, want %d:\n%s", commits, want, strings.Join(faults.Trips(), "\n"))
	}
}

func TestTheRecordOfABatchRenewsTheLeaseForTheNext(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	renewed := 0
	w.receiver.before = func(ctx context.Context, _ []event.Event) {
		var holds bool
		err := w.db.GetContext(ctx, &holds, "select allocated_until > clock_timestamp() + interval '30 seconds' from prescient.event_consumer")
		if err == nil && holds {
			renewed++
		}
		w.db.MustExecContext(ctx, "update prescient.event_consumer set allocated_until = statement_timestamp()")
	}
	var ids []string
	for n := range 600 {
		ids = append(ids, fmt.Sprint("a", n))
	}
	w.publish(ids...)
	if sent := w.send(); sent.Sent != 600 || renewed != w.receiver.tries || renewed < 2 {
		t.Errorf("%+v: the lease was renewed before %d of %d batches", sent, renewed, w.receiver.tries)
	}
}

// The record of a batch may take so long that the lease that it renews is over before the next batch begins.
func TestADestinationGetsABatchOnlyWhileTheLeaseLasts(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	faults, other := pgtest.OpenFaults(t, url, pgtest.Unprepared), pgtest.OpenFaults(t, url, pgtest.Unprepared).DB
	w := setupOn(t, faults.DB, forward.Config{Lease: 3 * time.Second})
	var ids []string
	for n := range 300 { // two batches
		ids = append(ids, fmt.Sprint("a", n))
	}
	w.publish(ids...)
	const over = "select allocated_until < clock_timestamp() from prescient.event_consumer"
	w.receiver.before = func(ctx context.Context, _ []event.Event) {
		var late bool
		if err := other.Get(&late, over); err != nil {
			t.Error(err)
		}
		if late && ctx.Err() == nil {
			t.Error("another forwarder may send at the same time")
		}
	}
	recorded := false
	faults.Set(pgtest.Fault{At: 1, Kind: pgtest.SomebodyFirst, Of: func(text string) bool {
		was := recorded
		recorded = recorded || strings.Contains(text, "failing_since")
		return was && text == "commit"
	}, First: func() { other.MustExec("select pg_sleep(3)") }})
	w.send()
	w.send() // what was not sent in time
	if _, text := faults.Hit(); text != "commit" {
		t.Errorf("the record was not late: %q", text)
	}
	w.want("received", w.receiver.received(), strings.Join(ids, " "))
}

func TestAForgottenDestinationLosesItsRefusedEvents(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.receiver.refuse("a1")
	w.publish("a1", "b1")
	w.forward()
	if err := w.box.Forget(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	w.want("refused", w.refused(), "")
}

// The first batch leaves a1 unsent, so the position stays before it. What becomes of the events after it cannot be
// recorded. The same forwarder then has to record that in the next batch.
func TestAnEventWhoseRefusalOrTimeWasNotRecordedIsDecidedAgain(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setupReceiver(t, time.Now().Add(time.Hour))
	w.db.MustExec(`create function fail() returns trigger language plpgsql as $$ begin raise 'the disk is full'; end $$;
		create trigger fail before insert on prescient.event_dead for each row execute function fail()`)
	var calls atomic.Int32
	w.cfg.Destinations[0].Publisher = event.Wrap(w.receiver,
		func(ctx context.Context, events []event.Event, publish func(context.Context) error) error {
			if calls.Add(1) > 1 {
				w.db.MustExec("drop trigger if exists fail on prescient.event_dead")
				return publish(ctx)
			}
			errs := slices.Clone(event.Errors(publish(ctx), len(events)))
			errs[0] = event.ErrNotSent
			return event.Partial(errs)
		})
	w.receiver.refuse("b1")
	w.publish("a1", "b1", "b3", "c2")
	f, err := forward.Start(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the outbox to be read to its end", func() bool {
		var left int
		if err := w.db.Get(&left, `select count(*) from prescient.event_consumer c
			join prescient.event_outbox o on (o.mark, o.position) > (c.mark, c.position)`); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	f.Stop()
	var list []string
	if err := w.db.Select(&list, "select id from prescient.event_dead order by id"); err != nil {
		t.Fatal(err)
	}
	w.want("refused, and later", strings.Join(list, " "), "b1 b3 c2")
}

// Refused events of a subject are sent together, however large they are.
func TestRefusedEventsAreTriedInBatchesOfBoundedBytes(t *testing.T) {
	t.Parallel()
	w := setup(t, forward.Config{})
	w.db.MustExec(`
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, try_at, data)
		select 'shop', 'a' || n, 'test', 'happened', 'a', 1, case when n = 1 then clock_timestamp() end, to_json(repeat('x', 7 << 20))
		from generate_series(1, 5) as n`)
	var mu sync.Mutex
	w.receiver.before = func(_ context.Context, events []event.Event) {
		mu.Lock()
		defer mu.Unlock()
		bytes := 0
		for _, e := range events {
			bytes += len(e.Data)
		}
		if bytes > 16<<20 {
			t.Errorf("%d events of %d bytes at once", len(events), bytes)
		}
	}
	w.retry()
	w.want("received", w.receiver.received(), "a1 a2 a3 a4 a5")
	w.want("left", w.refused(), "")
}
