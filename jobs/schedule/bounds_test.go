package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// setWidth changes the width of the grid.
func (w *world) setWidth(width time.Duration) {
	w.t.Helper()
	err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(w.t.Context(), pg.SetWidth.In(pgsql.DefaultSchema), width.Seconds(), w.clock.Now())
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A schedule that fires every 20 seconds is caught up on after an outage. "Ignore it when it is
// delayed by more than 1 minute" is about the instant where slots are a minute wide or less, and
// about the slot where they are wider.
func TestADeadlineCountsFromTheInstantOrFromTheSlot(t *testing.T) {
	t.Parallel()
	for width, test := range map[time.Duration]struct {
		outage time.Duration
		want   map[schedule.DeadlineFrom]time.Duration // how long before the end of the outage the first event is
	}{
		time.Second:      {2 * time.Minute, map[schedule.DeadlineFrom]time.Duration{"": 60e9, schedule.FromInstant: 60e9, schedule.FromSlot: 60e9}},
		time.Minute:      {5 * time.Minute, map[schedule.DeadlineFrom]time.Duration{"": 60e9, schedule.FromInstant: 60e9, schedule.FromSlot: 100e9}},
		15 * time.Minute: {30 * time.Minute, map[schedule.DeadlineFrom]time.Duration{"": 880e9, schedule.FromInstant: 60e9, schedule.FromSlot: 880e9}},
	} {
		t.Run(width.String(), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.setWidth(width)
			w.clock.Set(slot(1))
			for _, from := range []schedule.DeadlineFrom{"", schedule.FromInstant, schedule.FromSlot} {
				w.create(schedule.Spec{ID: "from:" + string(from), Crontab: "@every 20s", Deadline: time.Minute, DeadlineFrom: from})
			}
			now := slot(1).Add(test.outage)
			w.catchUp(now)
			got := map[schedule.DeadlineFrom]time.Duration{}
			for _, e := range w.published() {
				from := schedule.DeadlineFrom(strings.TrimPrefix(e.Subject, "from:"))
				got[from] = max(got[from], now.Sub(e.Time))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAScheduleEndsAfterItsRunsAndAPauseForgetsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("a")
	spec.MaxRuns = 5
	w.create(spec)
	w.run(slot(1))
	for range 2 { // it makes no difference
		if _, err := w.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if s := w.get("a"); s.Runs != 3 || !s.Last.Equal(slot(1)) || s.State != schedule.Paused {
			t.Errorf("%+v", s)
		}
		if s, err := w.store.Resume(t.Context(), w.db, "a", schedule.AnyVersion); err != nil || s.Runs != 3 || !s.Last.Equal(slot(1)) {
			t.Errorf("%+v, %v", s, err)
		}
	}
	w.run(slot(2))
	if got := times(w.published()); got != "12:05 12:10 12:15 12:20 12:25" {
		t.Errorf("published %s", got)
	}
	if s := w.get("a"); s.State != schedule.Ended || s.Runs != 5 || !s.Last.Equal(noon.Add(25*time.Minute)) {
		t.Errorf("%+v", s)
	}
	// More runs bring it back to life, as many as are left; fewer do not.
	spec.MaxRuns = 4
	if _, err := w.store.Update(t.Context(), w.db, spec, schedule.AnyVersion); fields(err) != "max_runs" || !strings.Contains(err.Error(), "5 events already") {
		t.Error(err)
	}
	spec.MaxRuns = 6
	if s := w.update(spec); s.State != schedule.Active || s.Runs != 5 {
		t.Errorf("%+v", s)
	}
	w.run(slot(3))
	if got := times(w.published()); got != "12:05 12:10 12:15 12:20 12:25 12:35" {
		t.Errorf("published %s", got)
	}
}

// Another machine may allow larger payloads.
func TestAPayloadOverTheLimitOfThisMachineStaysAndCannotBeGiven(t *testing.T) {
	t.Parallel()
	w := setup(t)
	spec := every("a")
	spec.Payload = []byte(`{"text": "` + strings.Repeat("x", 100) + `"}`)
	w.create(spec)
	small := *w
	var err error
	if small.store, err = schedule.NewStore(t.Context(), w.db, schedule.Config{MaxPayload: 50, Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	if s, err := small.store.Pause(t.Context(), w.db, "a", schedule.AnyVersion); err != nil || s.State != schedule.Paused {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := small.store.Resume(t.Context(), w.db, "a", schedule.AnyVersion); err != nil || s.State != schedule.Active {
		t.Errorf("%+v, %v", s, err)
	}
	spec = w.get("a").Spec
	spec.Crontab = "*/10 * * * *"
	if s := small.update(spec); s.Crontab != spec.Crontab {
		t.Errorf("%+v", s)
	}
	spec.Payload = []byte(`{"text": "` + strings.Repeat("y", 100) + `"}`)
	if _, err := small.store.Update(t.Context(), w.db, spec, schedule.AnyVersion); fields(err) != "payload" {
		t.Error(err)
	}
}

func TestBoundsAreChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for want, spec := range map[string]schedule.Spec{
		"end":           {Start: slot(2), End: slot(2)},
		"start":         {Start: slot(2).Add(1)},
		"max_runs":      {MaxRuns: -1},
		"exclude":       {Exclude: []string{"sunday"}},
		"deadline_from": {DeadlineFrom: "now"},
		"crontab":       {End: noon.Add(5 * time.Minute)}, // never fires
	} {
		spec.ID, spec.Crontab = "a", "*/5 * * * *"
		if _, err := w.store.Create(t.Context(), w.db, spec); fields(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := w.store.Create(t.Context(), w.db, schedule.Spec{ID: "a", Crontab: "@daily", Exclude: []string{"sun\nmon"}}); fields(err) != "exclude" {
		t.Errorf("%q: %v", fields(err), err)
	}
}

// With a start "@every" begins there.
func TestStartIsTheAnchorWhereThereIsNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.create(schedule.Spec{ID: "a", Crontab: "@every 1d", Start: slot(3).Add(7 * time.Second), Payload: json.RawMessage(`"p"`)})
	if !s.Next.Equal(slot(3).Add(7*time.Second)) || !s.Anchor.Equal(s.Next) || !s.Last.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestWithoutALimitNoRunsAreCountedAndALaterLimitBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		w := setup(t)
		spec := every("a")
		spec.MaxRuns = 5
		w.create(spec)
		w.run(slot(1))
		spec.Paused = paused
		if s := w.update(spec); s.Runs != 3 {
			t.Errorf("paused %t: %d runs, want 3", paused, s.Runs)
		}
		spec.MaxRuns = 0
		if s := w.update(spec); s.Runs != 0 || s.Last.IsZero() {
			t.Errorf("paused %t: %d runs without a limit, last %s", paused, s.Runs, s.Last)
		}
		spec.MaxRuns, spec.Paused = 2, false
		if s := w.update(spec); s.Runs != 0 || s.State != schedule.Active {
			t.Errorf("paused %t: %d runs of a limit that is new", paused, s.Runs)
		}
	}
}

// A change has asked for the schedules before it waits for their rows, and for whoever holds the
// schedules. What is known of those that do not wait any more was written meanwhile.
func TestAChangeThatHasWaitedKnowsWhatWasPublishedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	limited := func(crontab string) schedule.Spec { return schedule.Spec{ID: "a", Crontab: crontab, MaxRuns: 3} }
	// waits makes a change that has to wait for the transaction, and commits that.
	waits := func(w *world, tx *sqlx.Tx, change func() error) error {
		done := make(chan error, 1)
		go func() { done <- change() }()
		w.eventually("the change to wait", func() bool { return pgtest.Waits(w.t, w.db) > 0 })
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	t.Run("by the run in which it has ended", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.create(limited("*/5 * * * *"))
		reached, goOn := make(chan struct{}), make(chan struct{})
		w.to = &held{w.outbox, reached, goOn}
		w.clock.Set(slot(1))
		runner, ended := w.runner(), make(chan error, 1)
		go func() {
			_, err := runner.Run(ctx, slot(1))
			ended <- err
		}()
		<-reached
		done := make(chan error, 1)
		go func() {
			_, err := w.store.Update(ctx, w.db, limited("*/3 * * * *"), schedule.AnyVersion)
			done <- err
		}()
		w.eventually("the change to wait", func() bool { return pgtest.Waits(w.t, w.db) > 0 })
		close(goOn)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := <-done; fields(err) != "max_runs" {
			t.Errorf("a change of a schedule that has published all it may: %v, want one that names max_runs", err)
		}
		if s := w.get("a"); s.State != schedule.Ended || s.Runs != 3 || !s.Last.Equal(slot(1)) {
			t.Errorf("%+v", s)
		}
	})
	t.Run("and before a pause", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.create(limited("*/10 * * * *"))
		w.run(slot(1))
		pause := w.db.MustBegin()
		defer func() { _ = pause.Rollback() }()
		if _, err := w.store.Pause(ctx, pause, "a", schedule.AnyVersion); err != nil {
			t.Fatal(err)
		}
		err := waits(w, pause, func() error {
			_, err := w.store.Resume(ctx, w.db, "a", schedule.AnyVersion)
			return err
		})
		if s := w.get("a"); err != nil || s.State != schedule.Active || s.Runs != 1 || !s.Last.Equal(noon.Add(10*time.Minute)) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// held is an outbox that says when it is reached, and then waits.
type held struct {
	*outbox.Outbox
	reached, goOn chan struct{}
}

func (h *held) PublishTx(ctx context.Context, tx jobs.Tx, events []event.Event) error {
	close(h.reached)
	<-h.goOn
	return h.Outbox.PublishTx(ctx, tx, events)
}

func TestTheTextsOfAScheduleAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	long := strings.Repeat("0,", 1_000_000)
	for field, spec := range map[string]schedule.Spec{
		"crontab":  {ID: "a", Crontab: long + "0 * * * *"},
		"timezone": {ID: "a", Crontab: "@daily", Timezone: long},
		"exclude":  {ID: "a", Crontab: "@daily", Exclude: []string{long + "0 * * * *"}},
	} {
		_, err := w.store.Create(t.Context(), w.db, spec)
		fe, ok := errors.AsType[*jobs.FieldError](err)
		if !ok || fe.Field != field || !strings.Contains(fe.Message, "must be at most 2000 bytes") || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1000v", field, err)
		}
	}
}
