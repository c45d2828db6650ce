package plancmd

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rush is two days of a shop, as one runner has seen them: orders all day, each asked for up to an hour and a half before its
// slot, and reminders at 9, of which there are many today.
const rush = `
	select prescient.ensure_job(name) from unnest('{order.unshipped,invoice.remind}'::text[]) as name;
	update prescient.job set registered_at = now(), sla = case name when 'order.unshipped' then interval '2 minutes' end;
	insert into prescient.slot_run (slot, state, kind, planned, opened_at, finished_at, runners, workers)
	select slot, 'done', 'run', 0, slot + interval '2 seconds', slot + interval '2 seconds' + took * interval '1 second', 1, 64
	from generate_series(timestamptz '2026-03-01 00:00Z', '2026-03-02 08:00Z', '15 minutes') as slot,
		lateral (select case to_char(slot, 'HH24:MI') when '09:00' then 330 else 30 end as took) as t;
	insert into prescient.slot_job (slot, job, planned, finished, spent, last_at)
	select slot, prescient.find_job('order.unshipped'), 3000, 3000, interval '1920 seconds', finished_at from prescient.slot_run
	union all
	select slot, prescient.find_job('invoice.remind'), 3000, 3000, interval '19200 seconds', finished_at from prescient.slot_run
	where slot = '2026-03-01 09:00Z';
	insert into prescient.future_job_history (
		id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at
	)
	select n, 'order.unshipped', 'order', n::text, slot, slot, 1, 0, '0', slot - n % 91 * interval '1 minute', 'shop', 'done', slot
	from generate_series(1, 8736) as n, lateral (select timestamptz '2026-03-01 00:00Z' + n % 96 * interval '15 minutes' as slot) as s;
	insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
	select prescient.find_job('order.unshipped'), 'order', nth || '-' || n, slot, slot
	from generate_series(1, 6) as nth, lateral generate_series(1, 3300 - 490 * nth) as n,
		lateral (select timestamptz '2026-03-02 08:00Z' + nth * interval '15 minutes' as slot) as s
	union all
	select prescient.find_job('invoice.remind'), 'invoice', n::text, '2026-03-02 09:00Z', '2026-03-02 09:00Z'
	from generate_series(1, 9000) as n`

// The command prints the picture of docs/forecast.md.
func TestThePictureOfAForecastIsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it takes no rows that call functions for each of a series")
	db, err := sqlx.Connect("postgres", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec(rush)
	ahead, err := forecast.Compute(t.Context(), forecast.Config{
		DB: db, Now: func() time.Time { return time.Date(2026, time.March, 2, 8, 10, 0, 0, time.UTC) }, For: 89 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printForecast(factory.New(factory.Config{Out: &out, Err: io.Discard}), ahead, false); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/forecast.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+out.String()+"```") {
		t.Errorf("docs/forecast.md should have:\n%s", &out)
	}
}

// Slots of ten seconds are thousands a day.
func TestAForecastOfManySlotsPrintsTheFirstOnes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC)
	g, err := grid.New(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ahead := forecast.Forecast{Grid: g, Runners: 1, Workers: 64, Learned: 1}
	for n := range 1000 {
		ahead.Slots = append(ahead.Slots, forecast.Slot{
			Slot: g.Add(start, n), Rows: 1, Jobs: []forecast.Job{{JobExec: "order.unshipped"}},
		})
	}
	var out bytes.Buffer
	if err := printForecast(factory.New(factory.Config{Name: "prescient", Out: &out, Err: io.Discard}), ahead, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "order.unshipped") != 100 ||
		!strings.Contains(text, "\nand 900 more; --for shows fewer, and --output json lists them all\n\n1000 of 1000 slots have rows.") {
		t.Errorf("it prints\n%s", text)
	}
}

// The table has only the coming slots.
func TestAForecastTellsTheOverdueRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n       int64
		atLeast bool
		want    string
	}{
		{1, false, "On top, 1 row is overdue: the next catch-up runs it, which takes 1m10s"},
		{7, false, "On top, 7 rows are overdue: the next catch-up runs them, which takes 1m10s"},
		{10000, true, "On top, more than 10,000 rows are overdue: the next catch-up runs them, which takes at least 1m10s"},
	} {
		var out bytes.Buffer
		told := forecast.Forecast{Overdue: c.n, OverdueAtLeast: c.atLeast, OverdueTakes: duration.Text(70 * time.Second)}
		if err := printForecast(factory.New(factory.Config{Out: &out, Err: io.Discard}), told, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%d rows: it prints\n%s", c.n, &out)
		}
	}
}
