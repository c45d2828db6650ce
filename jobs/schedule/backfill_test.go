package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func (w *world) publishing() *schedule.PublishConfig { return &schedule.PublishConfig{Publisher: w.to} }

func (w *world) backfill(id string, from, until time.Time) schedule.BackfillResult {
	w.t.Helper()
	done, err := w.store.Backfill(w.t.Context(), w.db, w.publishing(), id, from, until)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// onceEach checks that a schedule has an event at each interval from one instant up to and
// including another, and no more.
func (w *world) onceEach(id string, from, to time.Time, interval time.Duration) {
	w.t.Helper()
	want := int(to.Sub(from)/interval) + 1
	query := `select count(*) from prescient.event_outbox where subject = $1 and time between $2 and $3 and id = $1 || '-' || extract(epoch from time)::bigint`
	for what, query := range map[string]string{
		"events": query, "different ones": strings.Replace(query, "count(*)", "count(distinct id)", 1),
		"of the schedule": `select count(*) from prescient.event_outbox where subject = $1 and $2 <= $3::timestamptz`,
	} {
		if n := w.count(query, id, from, to); n != want {
			w.t.Errorf("%s: %d %s, want %d", id, n, what, want)
		}
	}
}

func TestABackfillPublishesWhatRunsHaveNot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("a")
	spec.Misfire, spec.Payload = schedule.Skip, json.RawMessage(`"p"`)
	w.create(spec)
	w.run(slot(1))
	w.catchUp(slot(4).Add(time.Minute)) // two slots are missed
	if got := times(w.published()); got != "12:05 12:10 12:15 12:50 12:55 13:00" {
		t.Fatalf("published %s", got)
	}
	// It ends at the instant that the schedule waits for, even if that is in the past; from is
	// taken in, until is not.
	w.clock.Set(slot(6))
	for range 2 {
		done := w.backfill("a", noon, slot(8))
		if !done.Until.Equal(slot(4).Add(5*time.Minute)) || done.Published+done.Present != 13 {
			t.Errorf("%+v", done)
		}
	}
	if done := w.backfill("a", noon.Add(-10*time.Minute), noon.Add(5*time.Minute)); done.Published != 2 || done.Present != 1 {
		t.Errorf("%+v", done)
	}
	events := w.published()
	if got := times(events[6:]); got != "12:00 12:20 12:25 12:30 12:35 12:40 12:45 11:50 11:55" {
		t.Errorf("published %s", got)
	}
	last := events[len(events)-1]
	if string(last.Data) != fmt.Sprintf(`{"id":%q,"generated_at":%d,"schedule_id":"a","payload":"p"}`, last.ID, last.Time.Unix()) || last.ID != fmt.Sprintf("a-%d", last.Time.Unix()) || !last.PublishedAt.Equal(slot(6)) || last.Type != schedule.EventType {
		t.Errorf("%+v", last)
	}
	// One that is paused waits for nothing: now is the end.
	if _, err := w.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if done := w.backfill("a", noon, slot(8)); !done.Until.Equal(slot(6)) {
		t.Errorf("%+v", done)
	}
	if done := w.backfill("a", slot(7), slot(8)); done.Published != 0 {
		t.Errorf("%+v", done)
	}
	if _, err := w.store.Backfill(t.Context(), w.db, w.publishing(), "b", noon, slot(1)); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
	w.onceEach("a", noon.Add(-10*time.Minute), slot(6).Add(-5*time.Minute), 5*time.Minute)
}

// Runs publish and move on while the past is backfilled, again and again.
func TestABackfillBesideRunsPublishesEachInstantOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const slots = 20
	start := noon.Add(-3 * time.Hour)
	w.create(schedule.Spec{ID: "a", Crontab: "@every 1s", Anchor: start})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.backfill("a", start, slot(slots))
			}
		}
	})
	for n := 1; n <= slots; n++ {
		w.run(slot(n))
	}
	close(stop)
	wg.Wait()
	w.backfill("a", start, slot(slots))
	w.onceEach("a", start, slot(slots), time.Second)
}

// stopping is an outbox that breaks down once it has written some pages; the last one is rolled
// back.
type stopping struct {
	*outbox.Outbox
	pages int
}

func (s *stopping) PublishTx(ctx context.Context, tx jobs.Tx, events []event.Event) error {
	err := s.Outbox.PublishTx(ctx, tx, events)
	if s.pages--; s.pages == 0 {
		return errors.New("power failure")
	}
	return err
}

func TestABackfillThatHasFailedGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	start := noon.Add(-6 * time.Hour)
	w.create(schedule.Spec{ID: "a", Crontab: "@every 1s", Anchor: start})
	w.to = &stopping{w.outbox, 3}
	done, err := w.store.Backfill(t.Context(), w.db, w.publishing(), "a", start, noon)
	if err == nil || done.Published != 10_000 {
		t.Errorf("%+v, %v", done, err)
	}
	w.to = w.outbox
	if done := w.backfill("a", start, noon); done.Published != 11_600 || done.Present != 10_000 {
		t.Errorf("%+v", done)
	}
	w.onceEach("a", start, noon.Add(-time.Second), time.Second)
	for i, e := range w.published() {
		if !e.Time.Equal(start.Add(time.Duration(i) * time.Second)) {
			t.Fatalf("the event %d is of %s", i, e.Time)
		}
	}
}

// waitingOutbox stops before its second page until it is let go on.
type waitingOutbox struct {
	*outbox.Outbox
	pages         int
	reached, goOn chan struct{}
}

func (o *waitingOutbox) PublishTx(ctx context.Context, tx jobs.Tx, events []event.Event) error {
	err := o.Outbox.PublishTx(ctx, tx, events)
	if o.pages++; o.pages == 2 {
		close(o.reached)
		<-o.goOn
	}
	return err
}

func TestOfTwoBackfillsTheLaterOneDoesTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	start := noon.Add(-24 * time.Hour)
	w.create(schedule.Spec{ID: "a", Crontab: "@every 1s", Anchor: start})
	first := &waitingOutbox{w.outbox, 0, make(chan struct{}), make(chan struct{})}
	var wg sync.WaitGroup
	var earlier, later schedule.BackfillResult
	wg.Go(func() {
		var err error
		earlier, err = w.store.Backfill(t.Context(), w.db, &schedule.PublishConfig{Publisher: first}, "a", start, noon)
		if !errors.Is(err, schedule.ErrBackfill) {
			t.Errorf("%+v, %v", earlier, err)
		}
	})
	<-first.reached
	wg.Go(func() { later = w.backfill("a", start, noon) })
	w.eventually("the second one to wait", func() bool {
		return pgtest.Waits(w.t, w.db) > 0
	})
	close(first.goOn)
	wg.Wait()
	if earlier.Published < 10_000 || later.Present != earlier.Published || later.Published != 86_400-earlier.Published {
		t.Errorf("%+v, then %+v", earlier, later)
	}
	w.onceEach("a", start, noon.Add(-time.Second), time.Second)
}

// Both have begun as the first backfill of a schedule of this id, and look into the outbox at the
// same time.
func TestABackfillOfAScheduleThatWasDeletedIsNotOneOfItsSuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	start := noon.Add(-time.Minute)
	spec := schedule.Spec{ID: "a", Crontab: "@every 1s", Anchor: start}
	w.create(spec)
	tx := w.db.MustBeginTx(t.Context(), nil)
	tx.MustExecContext(t.Context(), `lock table prescient.event_outbox`)
	waiting := func(n int) func() bool {
		return func() bool {
			return pgtest.Waits(w.t, w.db) == n
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		// It publishes nothing: where it looks last, it finds all that the other one has published.
		done, err := w.store.Backfill(t.Context(), w.db, w.publishing(), "a", start, noon)
		if done.Published > 0 || !errors.Is(err, schedule.ErrBackfill) && (err != nil || done.Present != 60) {
			t.Errorf("%+v, %v", done, err)
		}
	})
	w.eventually("the first one to look", waiting(1))
	if err := w.store.Delete(t.Context(), w.db, "a", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	w.create(spec)
	wg.Go(func() { w.backfill("a", start, noon) })
	w.eventually("the second one to look", waiting(2))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	w.onceEach("a", start, noon.Add(-time.Second), time.Second)
}

func TestATriggerPublishesNowAndLeavesTheNextInstant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("a")
	spec.Payload = json.RawMessage(`{"n":1}`)
	before := w.create(spec)
	w.clock.Set(noon.Add(5*time.Minute + 1500*time.Microsecond)) // an instant, nearly
	e, err := w.store.Trigger(t.Context(), w.db, w.publishing(), "a")
	if err != nil || e.ID != fmt.Sprintf("a-trigger-%d", w.clock.Now().UnixMicro()) || !e.Event.Time.Equal(w.clock.Now()) || !strings.Contains(string(e.Event.Data), `-trigger-`) || !strings.HasSuffix(string(e.Event.Data), `"payload":{"n":1}}`) {
		t.Errorf("%+v, %v", e, err)
	}
	if s := w.get("a"); !s.Next.Equal(before.Next) || s.Version != 1 || !s.Last.IsZero() {
		t.Errorf("%+v", s)
	}
	w.run(slot(1))
	if got := times(w.published()); got != "12:05 12:05 12:10 12:15" {
		t.Errorf("published %s", got)
	}
	broker := &memory{}
	w.to = broker
	if _, err := w.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Trigger(t.Context(), w.db, w.publishing(), "a"); err != nil || len(broker.of("a")) != 1 {
		t.Errorf("%d events, %v", len(broker.of("a")), err)
	}
	if _, err := w.store.Trigger(t.Context(), w.db, w.publishing(), "b"); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
}

// unhurried is a publisher that takes its time.
type unhurried struct{ reached, goOn chan struct{} }

func (h *unhurried) PublishTx(context.Context, jobs.Tx, []event.Event) error {
	close(h.reached)
	<-h.goOn
	return nil
}

func TestASlowPublisherOfABackfillHoldsUpNoRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("a")
	spec.Misfire = schedule.Skip // the run has something to count
	w.create(spec)
	slow := &unhurried{reached: make(chan struct{}), goOn: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.store.Backfill(t.Context(), w.db, &schedule.PublishConfig{Publisher: slow}, "a", noon.Add(-time.Hour), noon); err != nil {
			t.Error(err)
		}
	})
	<-slow.reached
	w.clock.Set(slot(8))
	runner, ctx := w.runner(), t.Context()
	ran := make(chan error, 1)
	go func() {
		_, err := runner.CatchUp(ctx, slots.CatchUp{})
		ran <- err
	}()
	select {
	case err := <-ran:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(await.Limit):
		t.Error("the run waits for the publisher of the backfill")
	}
	close(slow.goOn)
	wg.Wait()
}

func TestADeleteWaitsForATrigger(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	slow := &unhurried{reached: make(chan struct{}), goOn: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.store.Trigger(t.Context(), w.db, &schedule.PublishConfig{Publisher: slow}, "a"); err != nil {
			t.Error(err)
		}
	})
	<-slow.reached
	deleted := make(chan error, 1)
	go func() { deleted <- w.store.Delete(context.WithoutCancel(t.Context()), w.db, "a", schedule.AnyVersion) }()
	w.eventually("the delete to wait", func() bool {
		return pgtest.Waits(w.t, w.db) == 1
	})
	close(slow.goOn)
	wg.Wait()
	if err := <-deleted; err != nil {
		t.Error(err)
	}
}
