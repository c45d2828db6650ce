package schedule_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A replay runs schedules in virtual time, in a schema of its own: from 29 February to 29 February
// over 2100, which has none.
func TestReplayRunsSchedulesThroughTheYears(t *testing.T) {
	t.Parallel()
	db, err := replay.Connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	registry := jobs.NewRegistry()
	to := &schedule.PublishConfig{}
	schedule.Register(registry, to)
	r, err := replay.Open(t.Context(), db, registry, time.Date(2095, time.December, 31, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	box := outbox.New(db, pgsql.Schema(r.Schema))
	to.Schema, to.Publisher = pgsql.Schema(r.Schema), box
	store, err := schedule.NewStore(t.Context(), db, schedule.Config{Schema: r.Schema, Now: r.Now})
	if err != nil {
		t.Fatal(err)
	}
	for crontab, next := range map[string]string{"0 0 29 2 *": "2096-02-29", "0 0 29 2 */7": "2128-02-29"} { // the next one on a Sunday
		s, err := store.Create(t.Context(), db, schedule.Spec{ID: crontab, Crontab: crontab})
		if err != nil || s.Next.Format(time.DateOnly) != next {
			t.Errorf("%s: %+v, %v", crontab, s, err)
		}
	}
	for end := time.Date(2110, time.January, 1, 0, 0, 0, 0, time.UTC); r.Now().Before(end); {
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Skip(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, db: db, outbox: box}
	got := ""
	w.eventually("every event to be seen by readers", func() bool {
		list, err := box.Read(t.Context(), outbox.Position{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		got = ""
		for _, e := range list {
			got += e.Time.Format("2006-01-02 ")
		}
		return len(list) == 3
	})
	if got != "2096-02-29 2104-02-29 2108-02-29 " {
		t.Errorf("published %s", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
