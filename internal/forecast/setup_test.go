package forecast_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
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

// play steps from slot to slot for the given length, and calls happen just before each. It
// forecasts the last day before that begins, and compares.
func (w *world) play(length time.Duration, happen func()) {
	w.t.Helper()
	end := start.Add(length)
	var told forecast.Forecast
	for w.Now().Before(end) {
		slot := w.Ledger.Grid().Ceil(w.Now())
		if slot.Equal(end.Add(-24 * time.Hour)) {
			w.date()
			told = w.look(24 * time.Hour)
		}
		happen()
		w.Set(slot)
		if result, err := w.Run(w.t.Context()); err != nil || result.State != slots.StateDone {
			w.t.Fatalf("slot %s is %s: %v", slot, result.State, err)
		}
		w.Set(slot.Add(w.Ledger.Grid().Width() - time.Microsecond))
	}
	w.date()
	w.compare(told)
}

// compare compares a forecast with what has happened since.
func (w *world) compare(told forecast.Forecast) {
	w.t.Helper()
	actual := w.actual(told.From, told.To)
	var parts []float64
	for _, s := range told.Slots {
		var n int64
		for _, rows := range actual[s.Slot] {
			n += rows
		}
		if n > 0 {
			parts = append(parts, math.Abs(float64(s.Rows-n))/float64(n))
		}
	}
	slices.Sort(parts)
	if len(parts) < 20 {
		w.t.Fatalf("%d slots of the last day had rows", len(parts))
	}
	median := parts[len(parts)/2]
	w.t.Logf("the last day, forecast at its beginning: %d slots, median error %.1f %%", len(parts), 100*median)
	if median >= promised {
		w.t.Errorf("of the last day the median error is %.0f %%", 100*median)
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
			where job <> prescient.find_job('schedule')
			offset 0
		) as e
		where e.job = f.job and e.id = f.id`)
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

// actual returns how many rows of each job slots have had, from one up to but not including
// another.
func (w *world) actual(from, to time.Time) map[time.Time]map[string]int64 {
	w.t.Helper()
	var list []struct {
		Slot time.Time
		Name string
		Rows int64
	}
	err := w.db.SelectContext(w.t.Context(), &list, `
		select s.slot, j.name, s.finished + s.rescheduled + s.failed as rows
		from prescient.slot_job s join prescient.job j on j.job = s.job
		where s.slot >= $1 and s.slot < $2`, from, to)
	if err != nil {
		w.t.Fatal(err)
	}
	slots := map[time.Time]map[string]int64{}
	for _, r := range list {
		at := r.Slot.UTC()
		if slots[at] == nil {
			slots[at] = map[string]int64{}
		}
		slots[at][r.Name] = r.Rows
	}
	return slots
}

func (w *world) look(ahead time.Duration) forecast.Forecast {
	w.t.Helper()
	f, err := forecast.Compute(w.t.Context(), forecast.Config{DB: w.db, Now: w.Now, For: ahead})
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// backtest tests forecasts of the last days at some lead, prints the errors, and checks their
// medians against a limit.
func (w *world) backtest(back, lead time.Duration, limit float64) {
	w.t.Helper()
	tested, err := forecast.Backtest(w.t.Context(), forecast.Config{DB: w.db, Now: w.Now}, back, lead)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("%s before: run time, on this machine as it is: median error %.0f %% of %d slots", lead, 100*tested.Took.Median, tested.Took.Slots)
	for _, j := range append(tested.Jobs, forecast.JobError{JobExec: "all", Errors: tested.Rows}) {
		w.t.Logf("%s before: %-16s %4d slots, median error %4.1f %%, 9 of 10 below %5.1f %%, error of the sum %4.1f %%",
			lead, j.JobExec, j.Slots, 100*j.Median, 100*j.P90, 100*j.Sum)
		if j.Median >= limit {
			w.t.Errorf("%s before their slot the median error of %s is %.0f %%", lead, j.JobExec, 100*j.Median)
		}
	}
}

// promised is the upper limit of a forecast's median error.
const promised = 0.20

func key(n int) string { return fmt.Sprintf("%06d", n) }
