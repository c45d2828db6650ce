package forecast_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// start is the first slot of every replay: a midnight, and a Tuesday.
var start = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// world is a replay in a database of its own.
type world struct {
	*replay.Replay
	t  *testing.T
	db *sqlx.DB
}

func setup(t *testing.T, registry *jobs.Registry) *world {
	t.Helper()
	db, err := replay.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, db: db}
	w.Replay, err = replay.New(t.Context(), replay.Config{
		DB: db, Schema: "prescient", Registry: registry, Start: start, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// memo holds virtual instants in the payload of a row. The database dates the same events by its
// own clock.
type memo struct {
	At   int64 `json:"at"`             // when it was asked for
	Gone int64 `json:"gone,omitempty"` // when it is cancelled
}

func (m memo) payload() json.RawMessage {
	text, _ := json.Marshal(m)
	return text
}

// check returns a check that is asked for now.
func (w *world) check(job, entity string, at time.Time) jobs.Request {
	j := jobs.Request{JobExec: job, EntityName: "order", EntityKey: entity, Payload: memo{At: w.Now().Unix()}.payload()}
	j.CheckAt = at
	return j
}

func (w *world) enqueue(list []jobs.Request) {
	w.t.Helper()
	if _, err := w.Client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

// prediction holds forecasts of slots, each from lead up to lead and every before it. A forecast is
// made each time that every is over. They are judged over the last part of a replay.
type prediction struct {
	lead, every, last time.Duration
	limit             float64 // of the median error
	slots             []forecast.Slot
}

// play steps from slot to slot for the given length, and calls happen just before each. It makes the
// predictions on the way, and compares them with what has happened.
func (w *world) play(length time.Duration, happen func(), predictions ...*prediction) {
	w.t.Helper()
	end := start.Add(length)
	for w.Now().Before(end) {
		slot := w.Ledger.Grid().Ceil(w.Now())
		happen()
		for _, p := range predictions {
			first := slot.Add(p.lead)
			if slot.Equal(slot.Truncate(p.every)) && !first.Before(end.Add(-p.last)) && first.Before(end) {
				w.date()
				told := w.look(p.lead + p.every)
				p.slots = append(p.slots, told.Slots[p.lead/w.Ledger.Grid().Width():]...)
			}
		}
		w.Set(slot)
		if result, err := w.Run(w.t.Context()); err != nil || result.State != slots.StateDone {
			w.t.Fatalf("slot %s is %s: %v", slot, result.State, err)
		}
		w.Set(slot.Add(w.Ledger.Grid().Width() - time.Microsecond))
	}
	for _, p := range predictions {
		w.compare(p)
	}
}

// compare compares predictions with what has happened, and their median errors with the limit.
func (w *world) compare(p *prediction) {
	w.t.Helper()
	off := map[string][]float64{} // the relative errors of a job in slots that had rows of it
	add := func(job string, told, actual int64) {
		if actual > 0 {
			off[job] = append(off[job], math.Abs(float64(told-actual))/float64(actual))
		}
	}
	for _, s := range p.slots {
		expected, all := map[string]int64{}, int64(0)
		for _, j := range s.Jobs {
			expected[j.JobExec] = j.Expected
		}
		for job, n := range w.actual(s.Slot) {
			add(job, expected[job], n)
			all += n
		}
		add("all", s.Rows, all)
	}
	if len(off["all"]) < 40 {
		w.t.Fatalf("%s before: %d slots had rows", p.lead, len(off["all"]))
	}
	for _, job := range slices.Sorted(maps.Keys(off)) {
		parts := slices.Sorted(slices.Values(off[job]))
		median := parts[len(parts)/2]
		w.t.Logf("%s before: %-16s %4d slots, median error %4.1f %%, 9 of 10 below %5.1f %%",
			p.lead, job, len(parts), 100*median, 100*parts[len(parts)*9/10])
		if median >= p.limit {
			w.t.Errorf("%s before their slot the median error of %s is %.0f %%", p.lead, job, 100*median)
		}
	}
}

// date gives rows the virtual instants of their events. Citus cannot update a row by a function of
// its columns, hence offset.
func (w *world) date() {
	w.t.Helper()
	w.db.MustExec(`
		update prescient.future_job as f
		set enqueued_at = e.at
		from (
			select job, id, to_timestamp((payload ->> 'at')::bigint) as at
			from prescient.future_job
			where job <> prescient.find_job('schedule') and enqueued_at < $1
			offset 0
		) as e
		where e.job = f.job and e.id = f.id`, start.AddDate(-1, 0, 0))
	w.db.MustExec(`
		update prescient.future_job_history as h
		set enqueued_at = e.at, finished_at = e.gone
		from (
			select id, to_timestamp((payload ->> 'at')::bigint) as at, coalesce(slot + lateness, to_timestamp((payload ->> 'gone')::bigint)) as gone
			from prescient.future_job_history
			where finished_at < $1
			offset 0
		) as e
		where e.id = h.id`, start.AddDate(-1, 0, 0))
}

// actual returns how many rows of each job a slot has had.
func (w *world) actual(slot time.Time) map[string]int64 {
	w.t.Helper()
	var list []struct {
		Name string
		Rows int64
	}
	err := w.db.SelectContext(w.t.Context(), &list, `
		select j.name, s.finished + s.rescheduled + s.failed as rows
		from prescient.slot_job s join prescient.job j on j.job = s.job
		where s.slot = $1`, slot)
	if err != nil {
		w.t.Fatal(err)
	}
	rows := map[string]int64{}
	for _, r := range list {
		rows[r.Name] = r.Rows
	}
	return rows
}

func (w *world) look(ahead time.Duration) forecast.Forecast {
	w.t.Helper()
	f, err := forecast.Compute(w.t.Context(), forecast.Config{DB: w.db, Now: w.Now, For: ahead})
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// promises are the predictions that the documentation promises.
func promises() []*prediction {
	return []*prediction{
		{lead: time.Hour, every: time.Hour, last: 48 * time.Hour, limit: 0.20},
		{lead: 24 * time.Hour, every: time.Hour, last: 48 * time.Hour, limit: 0.20},
	}
}

func key(n int) string { return fmt.Sprintf("%06d", n) }
