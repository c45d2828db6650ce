package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/slots/metrics"
)

func TestARunIsCountedByJobAndOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(1), 20)
	w.enqueue("again", slot(1), 3)
	w.enqueue("fail", slot(1), 2)
	w.publish(4)
	w.now = slot(1).Add(10 * time.Second) // late
	if _, err := w.runner().Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	text := w.scrape()
	_, got := parse(t, text)
	got.wants(t, samples{
		`prescient_checks_total{job_exec="ok",outcome="done"}`:           20,
		`prescient_checks_total{job_exec="ok",outcome="failed"}`:         0,
		`prescient_checks_total{job_exec="ok",outcome="rescheduled"}`:    0,
		`prescient_checks_total{job_exec="ok",outcome="deadline"}`:       0,
		`prescient_checks_total{job_exec="again",outcome="rescheduled"}`: 3,
		`prescient_checks_total{job_exec="fail",outcome="failed"}`:       2,
		`prescient_sla_seconds{job_exec="ok"}`:                           5,
		`prescient_sla_broken_checks_total{job_exec="ok"}`:               20,
		`prescient_check_lateness_seconds_count{job_exec="ok"}`:          20,
		`prescient_check_lateness_seconds_sum{job_exec="ok"}`:            200,
		`prescient_check_duration_seconds_count{job_exec="again"}`:       3,
		`prescient_check_duration_seconds_count{job_exec="fail"}`:        2,
		`prescient_runs_total{kind="run",result="done"}`:                 1,
		`prescient_runs_total{kind="run",result="failed"}`:               0,
		`prescient_run_duration_seconds_count{kind="run"}`:               1,
		`prescient_events_published_total`:                               4,
		`prescient_events_failed_total`:                                  0,
		`prescient_outbox_waiting_events{consumer=""}`:                   4,
		`prescient_database_up`:                                          1,
		`prescient_slot_width_seconds`:                                   900,
		`prescient_slot_timestamp_seconds`:                               float64(slot(1).Unix()),
		`prescient_slot_lag_seconds`:                                     0,
		`prescient_slot_planned_rows`:                                    25,
		`prescient_slot_checked_rows`:                                    25,
		`prescient_slot_failed_rows`:                                     2,
		`prescient_unfinished_slots{state="missed"}`:                     0,
		`prescient_leases_lost_total`:                                    0,
		`prescient_claims_taken_over_total`:                              0,
		`prescient_claims{state="live"}`:                                 0,
	})
	if got[`prescient_last_run_success_timestamp_seconds{kind="run"}`] < float64(noon.AddDate(-10, 0, 0).Unix()) {
		t.Error("the last run has no time")
	}
	promtool(t, text, "check", "metrics")
}

// It is no failure: the rows are left to catch-up.
func TestARunThatLeavesLockedRowsIsOpen(t *testing.T) {
	t.Parallel()
	m := metrics.New()
	for _, err := range []error{slots.ErrLocked, errors.Join(slots.ErrLocked, slots.ErrAbandoned)} {
		m.Ran(slots.Result{Kind: slots.KindRun, State: slots.StateOpen}, err)
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, got := parse(t, answer.Body.Bytes())
	got.wants(t, samples{
		`prescient_runs_total{kind="run",result="open"}`: 1, `prescient_runs_total{kind="run",result="failed"}`: 1,
	})
	if got[`prescient_last_run_success_timestamp_seconds{kind="run"}`] == 0 {
		t.Error("it does not count as a success")
	}
}

func TestARowThatIsMovedWithoutACheckIsLateForNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(1), 3)
	w.now = slot(1).Add(5 * time.Hour)
	if _, err := w.runner().CatchUp(t.Context(), slots.CatchUp{Mode: slots.ModeDefer}); err != nil {
		t.Fatal(err)
	}
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_checks_total{job_exec="ok",outcome="deferred"}`: 3,
		`prescient_check_lateness_seconds_count{job_exec="ok"}`:    0,
	})
}

func TestProblemsOfTheLedgerAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(2), 3)
	w.enqueue("fail", slot(2), 2)
	w.enqueue("ok", slot(3), 1)
	w.enqueue("stranger", slot(3), 1) // no binary knows it
	w.run(slot(1))
	w.run(slot(3)) // 2 is missed
	w.exec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		values (prescient.ensure_job('ok'), 'order', 'late', $1, $1)`, slot(1)) // a straggler
	w.now = slot(4).Add(time.Minute) // slot 4 has begun
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_unfinished_slots{state="missed"}`:                    1,
		`prescient_unfinished_slots{state="left_open"}`:                 1,
		`prescient_unfinished_slots{state="running"}`:                   0,
		`prescient_unfinished_slots{state="stragglers"}`:                1,
		`prescient_overdue_rows{job_exec="ok",state="missed"}`:          3,
		`prescient_overdue_rows{job_exec="fail",state="missed"}`:        2,
		`prescient_overdue_rows{job_exec="stranger",state="left_open"}`: 1,
		`prescient_overdue_rows{job_exec="ok",state="stragglers"}`:      1,
		`prescient_slot_lag_seconds`:                                    3*900 + 60,
		`prescient_runs_total{kind="run",result="open"}`:                1,
		`prescient_slot_checked_rows`:                                   0,
	})
	if _, err := w.runner().CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	w.exec(`delete from prescient.future_job`)
	w.run(slot(3))
	w.now = slot(4).Add(time.Minute)
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_slot_lag_seconds`: 60, `prescient_unfinished_slots{state="missed"}`: 0}) // slot 4 is due
	w.run(slot(4))
	_, got = parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_slot_lag_seconds`: 0, `prescient_unfinished_slots{state="stragglers"}`: 0,
		`prescient_runs_total{kind="catch_up",result="done"}`: 2,
	})
}

func TestRowsFromBeforeTheLedgerAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.now = slot(1).Add(time.Minute)
	w.run(slot(1))
	const into = `insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		values (prescient.ensure_job($1), 'order', '1', $2, $2)`
	w.exec(into, "ok", slot(-3))
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_unfinished_slots{state="missed"}`:           1,
		`prescient_overdue_rows{job_exec="ok",state="missed"}`: 1,
		`prescient_slot_lag_seconds`:                           4 * 900,
	})
	w.exec(`update prescient.job set paused_at = now(), paused_by = 'me' where name = 'ok'`)
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_unfinished_slots{state="missed"}`: 0, `prescient_slot_lag_seconds`: 0})
	w.exec(`update prescient.job set paused_at = null, paused_by = null where name = 'ok'`)
	w.exec(`update prescient.setting set since = $1`, slot(100)) // beyond the clock
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_unfinished_slots{state="missed"}`: 1, `prescient_ledger_ahead_seconds`: 99 * 900})
}

func TestSlotsBeyondTheClockAreMeasured(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(slot(1))
	_, got := parse(t, w.scrape())
	got.wants(t, samples{`prescient_ledger_ahead_seconds`: 0})
	w.run(slot(50))
	w.now = slot(2)
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_ledger_ahead_seconds`: 48 * 900})
	l, err := ledger.New(t.Context(), w.db, "", w.clock)
	if err == nil {
		_, err = l.Rewind(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_ledger_ahead_seconds`: 0})
}

func TestADatabaseThatIsGoneLeavesTheCountsOfTheProcess(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(1), 1)
	w.run(slot(1))
	_, got := parse(t, w.scrape())
	got.wants(t, samples{`prescient_database_up`: 1})
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_database_up`: 0, `prescient_checks_total{job_exec="ok",outcome="done"}`: 1})
	if lag, ok := got[`prescient_slot_lag_seconds`]; ok {
		t.Errorf("a lag of %v, which nobody knows", lag)
	}
}

func TestEventsOfTheOutboxWaitForTheirConsumers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(3)
	// Ack waits for transactions of other tests on this server.
	w.exec(`insert into prescient.event_consumer (name, mark, position) select 'mailer', min(mark::text::bigint)::text::xid8, min(position) from prescient.event_outbox`)
	w.exec(`insert into prescient.event_consumer (name, mark, position) select 'warehouse', max(mark::text::bigint)::text::xid8, max(position) from prescient.event_outbox`)
	w.exec(`update prescient.event_outbox set written_at = statement_timestamp() - interval '1 hour'`)
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_outbox_waiting_events{consumer="mailer"}`:            2,
		`prescient_outbox_waiting_events{consumer="warehouse"}`:         0,
		`prescient_outbox_oldest_waiting_seconds{consumer="warehouse"}`: 0,
	})
	if age := got[`prescient_outbox_oldest_waiting_seconds{consumer="mailer"}`]; age < 3600 || age > 7200 {
		t.Errorf("the oldest has waited for %v s", age)
	}
}

func TestOnlyEventsOfItsTypesWaitForADestination(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`
		insert into prescient.event_outbox (id, source, type, written_at)
		select n, 's', case when n = 3 then 'a' else 'b' end, now() - interval '1 hour' * n from generate_series(1, 6) as n;
		insert into prescient.event_consumer (name, mark, position, address, types)
		values ('desk', '0', 0, 'file:///desk', '{a}'), ('none', '0', 0, 'file:///none', '{c}')`)
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_outbox_waiting_events{consumer="desk"}`:         1,
		`prescient_outbox_waiting_events{consumer="none"}`:         0,
		`prescient_outbox_oldest_waiting_seconds{consumer="none"}`: 0,
	})
	if age := got[`prescient_outbox_oldest_waiting_seconds{consumer="desk"}`]; age < 10_800 || age > 14_400 {
		t.Errorf("the oldest has waited for %v s", age)
	}
}

func TestDeadLettersAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`insert into prescient.event_dead (id, consumer, source, type, dead_at) values ('1', 'desk', 's', 't', now()), ('2', 'desk', 's', 't', now()), ('3', 'desk', 's', 't', null)`)
	_, got := parse(t, w.scrape())
	got.wants(t, samples{`prescient_dead_letter_events`: 2})
}

func TestATransactionThatHoldsReadersBackIsSeen(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tx, err := w.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var age float64
	query := `select extract(epoch from clock_timestamp() - now()) from pg_current_xact_id()`
	if err := tx.QueryRowContext(t.Context(), query).Scan(&age); err != nil {
		t.Fatal(err)
	}
	_, got := parse(t, w.scrape())
	// Other tests have transactions on the same server, which may be older.
	if oldest := got[`prescient_outbox_blocking_transaction_seconds`]; oldest < age || age <= 0 {
		t.Errorf("the oldest transaction is %v s old, and one of %v s goes on", oldest, age)
	}
}

var errRefused = errors.New("refused")

// refusing is a publisher that refuses the second event of each batch.
type refusing struct{ event.Publisher }

func (refusing) Publish(_ context.Context, events []event.Event) error {
	errs := make([]error, len(events))
	errs[1] = errRefused
	return event.Partial(errs)
}

func TestEventsThatAreRefusedAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.publish(4)
	to := w.metrics.Destination(refusing{})
	if err := to.Publish(t.Context(), make([]event.Event, 5)); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	_, got := parse(t, w.scrape())
	got.wants(t, samples{`prescient_events_published_total`: 4, `prescient_events_failed_total`: 1})
}

// answering is a publisher that answers with an error for each event.
type answering struct {
	event.Publisher
	errs []error
}

func (a answering) Publish(context.Context, []event.Event) error { return event.Partial(a.errs) }

func TestEventsThatWereNotTriedAreNoFailures(t *testing.T) {
	t.Parallel()
	m := metrics.New()
	to := m.Destination(answering{errs: []error{
		event.ErrThrottled, errRefused, event.ErrBlocked, fmt.Errorf("%w: %w", event.ErrNotSent, errRefused),
	}})
	if err := to.Publish(t.Context(), make([]event.Event, 4)); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := to.Publish(stopped, make([]event.Event, 4)); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	w := &world{t: t, metrics: m}
	_, got := parse(t, w.scrape())
	got.wants(t, samples{`prescient_events_failed_total`: 2})
}

func TestTheNextSlotsAreForecastOnceForEachSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", slot(2), 20)
	w.enqueue("fail", slot(2), 3)
	w.now = slot(1).Add(time.Minute)
	_, got := parse(t, w.scrape())
	got.wants(t, samples{
		`prescient_forecast_rows{ahead="1"}`: 23, `prescient_forecast_rows{ahead="2"}`: 0, `prescient_forecast_rows{ahead="4"}`: 0,
	})
	if got[`prescient_forecast_duration_seconds{ahead="1"}`] <= got[`prescient_forecast_duration_seconds{ahead="2"}`] {
		t.Errorf("23 rows take no longer than none: %v", got)
	}
	w.enqueue("again", slot(2), 5)
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_forecast_rows{ahead="1"}`: 23})
	w.now = slot(1).Add(-time.Minute) // the slot before
	_, got = parse(t, w.scrape())
	got.wants(t, samples{`prescient_forecast_rows{ahead="1"}`: 0, `prescient_forecast_rows{ahead="2"}`: 28})
}
