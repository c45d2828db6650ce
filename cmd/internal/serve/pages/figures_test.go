package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/api"
	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/slots/metrics"
)

// The statements that count what the figures tell. The table ran has a row for each call of a
// function: its job, slot, outcome (done, again, failed, too many) and lateness. SLOT1 to SLOT10
// are the slots of the world below, WIDTH is their width.
const (
	slotsMissed = `select count(*) from generate_series(SLOT1, SLOT8, WIDTH) as due
		where not exists (select from prescient.slot_run r where r.slot = due)`
	slotsLeft   = `select count(distinct next_check_at) from prescient.future_job where next_check_at = SLOT2`
	slotsDone   = `select count(*) from prescient.slot_run where state = 'done'`
	slotsCaught = `select count(distinct slot) from ran where slot = SLOT5`
	slotsLate   = `select count(distinct next_check_at) from prescient.future_job where next_check_at = SLOT1`
	slotLag     = `select extract(epoch from SLOT8 - SLOT1)::bigint`
	rows        = `select count(*) from ran where true`
	rowsAgain   = rows + ` and outcome = 'again'`
	rowsDone    = rows + ` and outcome in ('done', 'too many')`
	rowsFailed  = rows + ` and outcome = 'failed'`
	rowsGivenUp = `select count(*) from prescient.future_job_history where outcome = 'failed'`
	rowsTooMany = `select count(*) from prescient.future_job_history where outcome = 'max_checks'`
	rowsLate    = rows + ` and job = 'order.late' and lateness > WIDTH / 4`
	waiting     = `select count(*) from prescient.future_job where true`
	rowsOverdue = waiting + ` and next_check_at in (SLOT1, SLOT2, SLOT3)`
	pausedJobs  = `select count(*) from prescient.job where paused_at is not null`
	unknownJobs = `select count(*) from prescient.job where registered_at is null and name = 'misspelt'`
	brokenSLAs  = `select count(distinct job) from ran where job = 'order.late' and lateness > WIDTH / 4`
	failingJobs = `select count(*) from (select from ran as r
		where slot = (select max(l.slot) from ran l where l.job = r.job) group by job
		having 2 * count(*) filter (where outcome = 'failed') > count(*)) as jobs`
	eventsDropped = `select count(*) from generate_series(SLOT4, SLOT6, WIDTH) as due
		where not exists (select from prescient.event_outbox where subject = 'skips' and time = due)`
	eventsUnread = `select count(*) - 2 from prescient.event_outbox`
	laggards     = `select count(distinct subject) - 1 from prescient.event_outbox` // of two schedules, one has dropped an event

	ofReview  = ` and job = 'review.ask'`
	ofLate    = ` and job = 'order.late'`
	ofInvoice = ` and job = 'invoice.unpaid'`
	ofAgain   = ` and job = 'cart.again'`
	review    = ` and job = prescient.find_job('review.ask')`
	misspelt  = ` and job = prescient.find_job('misspelt')`
	notBegun  = ` and job <> prescient.find_job('stock.slow')`
	upTo      = `select extract(epoch from (select min(bound) from (select 100 * power(2, n / 4.0) * interval '1 millisecond' as bound
		from generate_series(0, 100) as n) as b where bound >= (select percentile_disc(%s) within group (order by lateness) from ran where job = 'order.late')))`
	sharePerCent = `select 100.0 * count(*) filter (where lateness <= WIDTH / 4) / count(*) from ran where job = 'order.late'`
)

// figureTest is a figure of a place, and the SQL that computes the same. what is, on a page, "table
// | row | column" or the name of a figure; in JSON a path; and in metrics a name with its labels.
type figureTest struct{ place, what, sql string }

var figureTests = []figureTest{
	{"/", "Overdue", rowsOverdue},
	{"/", "Missed", slotsMissed},
	{"/", "Stranded", `select (` + slotsLeft + `) + (` + slotsLate + `)`},
	{"/", "Failing", failingJobs},
	{"/", "Failed", rowsFailed},
	{"/", "Given up", rowsGivenUp},
	{"/", "Late", brokenSLAs},
	{"/", "Unserved", unknownJobs},
	{"/", "Paused", pausedJobs},
	{"/", "Schedules", laggards},
	{"/", "Slots that were not run to their end | SLOT1 | Waiting", waiting + ` and next_check_at = SLOT1`},
	{"/", "Slots that were not run to their end | SLOT2 | Waiting", waiting + ` and next_check_at = SLOT2`},
	{"/", "Slots that were not run to their end | SLOT3 | Waiting", waiting + ` and next_check_at = SLOT3`},
	{"/", "Jobs | review.ask | Checked", rows + ofReview},
	{"/", "Jobs | invoice.unpaid | Failed", rowsFailed + ofInvoice},
	{"/", "Jobs | invoice.unpaid | Given up", rowsGivenUp + ` and job_exec = 'invoice.unpaid'`},
	{"/", "Jobs | order.late | Late", rowsLate},
	{"/", "Jobs | order.late | Median lateness", fmt.Sprintf(upTo, "0.5")},
	{"/", "Jobs | order.late | p99 lateness", fmt.Sprintf(upTo, "0.99")},
	{"/", "Schedules that missed something | skips | Dropped", eventsDropped},
	{"/", "Consumers | mailer | Waiting", eventsUnread},

	{"/ledger", "Ledger of | day", `select count(distinct date(slot at time zone 'UTC')) from ran`},
	{"/ledger", "The ledger by day | DAY | Slots run", slotsDone},
	{"/ledger", "The ledger by day | DAY | By catch-up", slotsCaught},
	{"/ledger", "The ledger by day | DAY | Missed", slotsMissed},
	{"/ledger", "The ledger by day | DAY | Rows", rows},
	{"/ledger", "The ledger by day | DAY | Failed", rowsFailed},
	{"/ledger", "The ledger by day | DAY | The longest took", `select 3`},

	{"/jobs", "Jobs | review.ask | Checked", rows + ofReview},
	{"/jobs", "Jobs | stock.retry | Failed", rowsFailed + ` and job = 'stock.retry'`},
	{"/jobs", "Jobs | stock.retry | Given up", rowsGivenUp + ` and job_exec = 'stock.retry'`},
	{"/jobs", "Jobs | order.late | Late", rowsLate},
	{"/jobs", "Jobs | order.late | Median lateness", fmt.Sprintf(upTo, "0.5")},
	{"/jobs", "Jobs | order.late | p99 lateness", fmt.Sprintf(upTo, "0.99")},

	{"/job?name=review.ask", "Checked", rows + ofReview},
	{"/job?name=review.ask", "Outcomes by day | DAY | Slots", `select count(distinct slot) from ran where job = 'review.ask'`},
	{"/job?name=review.ask", "Outcomes by day | DAY | Finished", rowsDone + ofReview},
	{"/job?name=review.ask", "Rows that wait in the next slots | SLOT9 | Rows", waiting + ` and next_check_at = SLOT9` + review},
	{"/job?from=SLOT1&to=SLOT11&name=review.ask", "Slots of the job | SLOT4 | Rows", rows + ofReview + ` and slot = SLOT4`},
	{"/job?from=SLOT1&to=SLOT11&name=review.ask", "Slots of the job | SLOT4 | Finished", rowsDone + ofReview + ` and slot = SLOT4`},
	{"/job?from=SLOT1&to=SLOT11&name=review.ask", "Slots of the job | SLOT4 | Took", `select 2`},
	{"/job?from=SLOT1&to=SLOT11&name=review.ask", "Slots of the job | SLOT4 | Rows a second", `select count(*) / 2.0 from ran where slot = SLOT4` + ofReview},
	{"/job?name=cart.again", "Outcomes by day | DAY | Rescheduled", rowsAgain + ofAgain},
	{"/job?from=SLOT1&to=SLOT11&name=cart.again", "Slots of the job | SLOT4 | Rescheduled", rowsAgain + ofAgain + ` and slot = SLOT4`},
	{"/job?name=cart.kept", "Ended as max_checks", rowsTooMany},
	{"/job?name=invoice.unpaid", "Failed", rowsFailed + ofInvoice},
	{"/job?name=invoice.unpaid", "Given up", rowsGivenUp + ` and job_exec = 'invoice.unpaid'`},
	{"/job?name=invoice.unpaid", "Outcomes by day | DAY | Failed", rowsFailed + ofInvoice},
	{"/job?name=invoice.unpaid", "Outcomes by day | DAY | Run time", `select 4`},
	{"/job?from=SLOT1&to=SLOT11&name=invoice.unpaid", "Slots of the job | SLOT8 | Failed", rowsFailed + ofInvoice + ` and slot = SLOT8`},
	{"/job?name=invoice.unpaid", "Errors of the job | SLOT2 | Failed", rowsFailed + ofInvoice + ` and slot = SLOT2`},
	{"/job?from=SLOT1&to=SLOT11&name=order.late", "Slots of the job | SLOT6 | Late", rowsLate + ` and slot = SLOT6`},
	{"/job?name=order.late", "Lateness", fmt.Sprintf(upTo, "0.5")},
	{"/job?name=order.late", "SLA", sharePerCent},

	{"/slot?at=SLOT4", "Rows", rows + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Finished", rowsDone + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Rescheduled", rowsAgain + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Failed", rowsFailed + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Took", `select 3`},
	{"/slot?at=SLOT4", "Rate", `select count(*) / 3.0 from ran where slot = SLOT4`},
	{"/slot?at=SLOT4", "Jobs of the slot | review.ask | Rows", rows + ofReview + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Jobs of the slot | review.ask | Finished", rowsDone + ofReview + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Jobs of the slot | cart.again | Rescheduled", rowsAgain + ofAgain + ` and slot = SLOT4`},
	{"/slot?at=SLOT4", "Jobs of the slot | stock.retry | Failed", rowsFailed + ` and job = 'stock.retry' and slot = SLOT4`},
	{"/slot?at=SLOT4", "Jobs of the slot | cart.again | Run time", `select 2`},
	{"/slot?at=SLOT6", "Jobs of the slot | order.late | Late", rowsLate + ` and slot = SLOT6`},
	{"/slot?at=SLOT6", "Rows that wait in the slot | order.paused | Rows", waiting + ` and next_check_at = SLOT6`},
	{"/slot?at=SLOT2", "Rows", rows + ` and slot = SLOT2`},
	{"/slot?at=SLOT2", "Has taken", `select 2`},
	{"/slot?at=SLOT2", "Rate", `select count(*) / 2.0 from ran where slot = SLOT2`},
	{"/slot?at=SLOT2", "Finished", rowsDone + ` and slot = SLOT2`},
	{"/slot?at=SLOT2", "Failed", rowsFailed + ` and slot = SLOT2`},
	{"/slot?at=SLOT2", "Rows that wait in the slot | misspelt | Rows", waiting + ` and next_check_at = SLOT2` + misspelt},
	{"/slot?at=SLOT3", "Rows that wait in the slot | review.ask | Rows", waiting + ` and next_check_at = SLOT3` + review},
	{"/slot?at=SLOT7", "Rows that wait in the slot | stock.slow | Rows", waiting + ` and next_check_at = SLOT7`},
	{"/slot?at=SLOT9", "Forecast", waiting + ` and next_check_at = SLOT9`},

	{"/schedules", "Schedules | skips | Dropped", eventsDropped},
	{"/events", "Consumers | mailer | Waiting", eventsUnread},

	{"status", "width", `select extract(epoch from WIDTH)::bigint`},
	{"status", "overdue", rowsOverdue},
	{"status", "missed #", slotsMissed},
	{"status", "missed slot=SLOT3 waiting", waiting + ` and next_check_at = SLOT3`},
	{"status", "missed slot=SLOT3 jobs job_exec=review.ask waiting", waiting + ` and next_check_at = SLOT3` + review},
	{"status", "left_open #", slotsLeft},
	{"status", "left_open slot=SLOT2 waiting", waiting + ` and next_check_at = SLOT2`},
	{"status", "stragglers #", slotsLate},
	{"status", "stragglers slot=SLOT1 waiting", waiting + ` and next_check_at = SLOT1`},
	{"status", "running #", `select count(distinct next_check_at) from prescient.future_job where next_check_at = SLOT7`},
	{"status", "running slot=SLOT7 waiting", waiting + ` and next_check_at = SLOT7`},
	{"status", "paused #", pausedJobs},
	{"status", "claims_live", `select count(*) from prescient.future_job where next_check_at = SLOT7 having count(*) = 1`},
	{"status", "claims_expired", `select count(*) from prescient.slot_claim where runner = 'dead'`},
	{"status", "not_registered #", unknownJobs},
	{"status", "jobs job_exec=review.ask checked", rows + ofReview},
	{"status", "jobs job_exec=invoice.unpaid failed", rowsFailed + ofInvoice},
	{"status", "jobs job_exec=invoice.unpaid gave_up", rowsGivenUp + ` and job_exec = 'invoice.unpaid'`},
	{"status", "jobs job_exec=cart.kept max_checks", rowsTooMany},
	{"status", "jobs job_exec=review.ask last_checked", rows + ofReview + ` and slot = SLOT8`},
	{"status", "jobs job_exec=invoice.unpaid last_failed", rowsFailed + ofInvoice + ` and slot = SLOT8`},
	{"status", "jobs job_exec=order.late last_late", rowsLate + ` and slot = SLOT6`},
	{"status", "jobs job_exec=order.late sla", `select extract(epoch from WIDTH / 4)`},
	{"status", "jobs job_exec=order.late late", rowsLate},
	{"status", "jobs job_exec=order.late lateness_p50", fmt.Sprintf(upTo, "0.5")},
	{"status", "jobs job_exec=order.late lateness_p99", fmt.Sprintf(upTo, "0.99")},
	{"status", "late_slots slot=SLOT6 checked", rows + ofLate + ` and slot = SLOT6`},
	{"status", "late_slots slot=SLOT6 late", rowsLate + ` and slot = SLOT6`},

	{"api/overview", "overdue", rowsOverdue},
	{"api/overview", "missed #", slotsMissed},
	{"api/overview", "schedules id=skips dropped", eventsDropped},
	{"api/overview", "consumers consumer=mailer waiting", eventsUnread},
	{"api/jobs", "jobs job_exec=review.ask checked", rows + ofReview},
	{"api/jobs/review.ask", "ahead slot=SLOT9 rows", waiting + ` and next_check_at = SLOT9` + review},
	{"api/jobs/review.ask", "days day=DAY slots", `select count(distinct slot) from ran where job = 'review.ask'`},
	{"api/jobs/review.ask?from=SLOT1&to=SLOT11", "cells slot=SLOT2 finished", rowsDone + ofReview + ` and slot = SLOT2`},
	{"api/jobs/order.late?from=SLOT1&to=SLOT11", "cells slot=SLOT6 late", rowsLate + ` and slot = SLOT6`},
	{"api/jobs/order.late", "days day=DAY late", rowsLate},
	{"api/slots/SLOT4", "rate", `select count(*) / 3.0 from ran where slot = SLOT4`},
	{"api/slots/SLOT4", "planned", rows + ` and slot = SLOT4`},
	{"api/slots/SLOT9", "forecast rows", waiting + ` and next_check_at = SLOT9`},
	{"api/schedules", "schedules id=skips dropped", eventsDropped},
	{"api/events", "events #", `select count(*) from prescient.event_outbox`},

	{"forecast", "slots slot=SLOT9 waiting", waiting + ` and next_check_at = SLOT9`},
	{"forecast", "slots slot=SLOT10 waiting", waiting + ` and next_check_at = SLOT10`},

	{"metrics", `database_up`, `select 1`},
	{"metrics", `slot_width_seconds`, `select extract(epoch from WIDTH)::bigint`},
	{"metrics", `slot_timestamp_seconds`, `select extract(epoch from SLOT8)::bigint`},
	{"metrics", `slot_lag_seconds`, slotLag},
	{"metrics", `slot_planned_rows`, rows + ` and slot = SLOT8`},
	{"metrics", `slot_checked_rows`, rows + ` and slot = SLOT8`},
	{"metrics", `slot_failed_rows`, rowsFailed + ` and slot = SLOT8`},
	{"metrics", `unfinished_slots{state="missed"}`, slotsMissed},
	{"metrics", `unfinished_slots{state="left_open"}`, slotsLeft},
	{"metrics", `unfinished_slots{state="stragglers"}`, slotsLate},
	{"metrics", `unfinished_slots{state="running"}`, `select count(distinct next_check_at) from prescient.future_job where next_check_at = SLOT7`},
	{"metrics", `overdue_rows{job_exec="misspelt",state="left_open"}`, waiting + ` and next_check_at = SLOT2` + misspelt},
	{"metrics", `overdue_rows{job_exec="misspelt",state="missed"}`, waiting + ` and next_check_at = SLOT3` + misspelt},
	{"metrics", `overdue_rows{job_exec="review.ask",state="missed"}`, waiting + ` and next_check_at = SLOT3` + review},
	{"metrics", `overdue_rows{job_exec="review.ask",state="stragglers"}`, waiting + ` and next_check_at = SLOT1` + review},
	{"metrics", `checks_total{job_exec="review.ask",outcome="done"}`, rowsDone + ofReview},
	{"metrics", `checks_total{job_exec="invoice.unpaid",outcome="failed"}`, rowsFailed + ofInvoice},
	{"metrics", `checks_total{job_exec="stock.retry",outcome="retried"}`, rowsFailed + ` and job = 'stock.retry' and slot = SLOT4`},
	{"metrics", `checks_total{job_exec="cart.again",outcome="rescheduled"}`, rowsAgain + ofAgain},
	{"metrics", `checks_total{job_exec="cart.kept",outcome="max_checks"}`, rowsTooMany},
	{"metrics", `check_lateness_seconds_count{job_exec="order.late"}`, rows + ofLate},
	{"metrics", `check_lateness_seconds_sum{job_exec="order.late"}`, `select extract(epoch from sum(lateness)) from ran where true` + ofLate},
	{"metrics", `check_duration_seconds_count{job_exec="order.late"}`, rows + ofLate},
	{"metrics", `sla_seconds{job_exec="order.late"}`, `select extract(epoch from WIDTH / 4)`},
	{"metrics", `sla_broken_checks_total{job_exec="order.late"}`, rowsLate},
	{"metrics", `runs_total{kind="run",result="done"}`, `select count(*) from prescient.slot_run where state = 'done' and slot <> SLOT5`},
	{"metrics", `runs_total{kind="run",result="open"}`, slotsLeft},
	{"metrics", `runs_total{kind="catch_up",result="done"}`, slotsCaught},
	{"metrics", `run_duration_seconds_count{kind="run"}`, `select count(*) from prescient.slot_run where slot not in (SLOT5, SLOT7)`},
	{"metrics", `claims{state="live"}`, `select count(*) from prescient.future_job where next_check_at = SLOT7 having count(*) = 1`},
	{"metrics", `claims{state="expired"}`, `select count(*) from prescient.slot_claim where runner = 'dead'`},
	{"metrics", `events_published_total`, `select count(*) from prescient.event_outbox`},
	{"metrics", `outbox_waiting_events{consumer="mailer"}`, eventsUnread},
	{"metrics", `forecast_rows{ahead="1"}`, waiting + ` and next_check_at = SLOT9`},
	{"metrics", `forecast_rows{ahead="2"}`, waiting + ` and next_check_at = SLOT10`},
}

// untested are the figures that no SQL computes here.
var untested = map[string]string{
	"dead_letter_events":                  "0 here; TestDeadLettersAreCounted counts them",
	"forecast_duration_seconds":           "an estimate; tests of package forecast measure it",
	"outbox_oldest_waiting_seconds":       "an age that grows while the test looks",
	"outbox_blocking_transaction_seconds": "of the whole server, which other tests use",
	"last_run_duration_seconds":           "the time of this machine",
	"last_run_timestamp_seconds":          "the time of this machine",
	"last_run_success_timestamp_seconds":  "the time of this machine",
	"ledger_ahead_seconds":                "0 here; TestScript/ahead has such a ledger",
	"status more_open":                    "0 here; TestTheStatusHoldsFewOfManyMissedSlots counts them",
	"status more_missed":                  "0 here; TestTheStatusHoldsFewOfManyMissedSlots counts them",
	"yielded_rows_total":                  "0 here; tests of package metrics count them",
	"abandoned_checks_total":              "0 here; tests of package metrics count them",
	"claims_taken_over_total":             "0 here; tests of package metrics count them",
	"leases_lost_total":                   "0 here; tests of package metrics count them",
	"events_failed_total":                 "0 here; tests of package metrics count them",

	"/ Opened late":    "none at a narrow width; TestAnOutageThatIsOverIsToldForADay counts them",
	"status slots":     "none at a narrow width; TestScript/missed counts them",
	"status caught_up": "none at a narrow width; TestScript/missed counts them",
	"status longest":   "none at a narrow width; TestScript/missed has it",

	"status token": "no figure: it names a claim",

	"Slots of the last and the next 24 hours": "bars of several slots each; TestTheAxis and the ledger have their sums",
}

// The ledger has begun moments ago, and has slots in every state; see world.
func TestFiguresAreThoseOfTheDatabaseAtEachWidth(t *testing.T) {
	t.Parallel()
	widths := []time.Duration{time.Second, time.Minute, 15 * time.Minute}
	if testing.Short() {
		widths = widths[2:]
	}
	for _, width := range widths {
		t.Run(width.String(), func(t *testing.T) {
			t.Parallel()
			f := newFigures(t, width)
			for _, test := range figureTests {
				place, what := f.names.Replace(test.place), f.names.Replace(test.what)
				sql := f.instants.Replace(test.sql)
				var want float64
				f.must(f.DB.Get(&want, sql))
				if want == 0 {
					t.Errorf("%s: %s is 0 in this world, which proves nothing: %s", place, what, sql)
				}
				got, err := f.figure(place, what)
				if margin := 0.01 * want; err != nil || got < want-margin || got > want+margin {
					t.Errorf("%s: %s is %v, want %v (%v)", place, what, got, want, err)
				}
			}
			f.complete()
		})
	}
}

// figures are the places of a world, as they are read.
type figures struct {
	*shop
	begin    time.Time
	width    time.Duration
	told     *metrics.Metrics
	api      http.Handler
	browser  *browser
	names    *strings.Replacer // of places and figures
	instants *strings.Replacer // of statements
	text     map[string]string
}

func newFigures(t *testing.T, width time.Duration) *figures {
	t.Helper()
	s := &shop{World: story.NewOfWidth(t, width, nil), t: t}
	s.server = httptest.NewServer(s.Pages)
	t.Cleanup(s.server.Close)
	f := &figures{shop: s, width: width, told: metrics.New(), text: map[string]string{}}
	f.live()
	f.browser = s.browser().login(story.ReadToken)
	f.api = api.New(api.Config{
		Board: s.Board, Schedules: s.Schedules, DB: s.DB, Access: story.Access(t, slog.New(slog.DiscardHandler)),
	})
	f.text["status"], f.text["forecast"] = f.status(), f.forecast()
	answer := httptest.NewRecorder()
	f.told.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	f.text["metrics"] = answer.Body.String()
	names, instants := []string{"DAY", f.begin.Format(time.DateOnly)}, []string{"WIDTH", fmt.Sprintf("interval '%d seconds'", width/time.Second)}
	for n := 11; n > 0; n-- {
		names = append(names, fmt.Sprintf("SLOT%d", n), f.at(n).Format(time.RFC3339))
		instants = append(instants, fmt.Sprintf("SLOT%d", n), "timestamptz '"+f.at(n).Format(time.RFC3339)+"'")
	}
	f.names, f.instants = strings.NewReplacer(names...), strings.NewReplacer(instants...)
	return f
}

// at is the n-th slot of the world. Slot 1 is the first one of the ledger.
func (f *figures) at(n int) time.Time { return f.begin.Add(time.Duration(n-1) * f.width) }

// registry has a function for each job, which notes its calls in the table ran.
func (f *figures) registry(blocked chan struct{}) *jobs.Registry {
	r := jobs.NewRegistry()
	add := func(name string, fn func(j jobs.FutureJob) (*time.Time, error), opts ...jobs.Option) {
		r.Register(name, jobs.Row(func(ctx context.Context, j jobs.FutureJob) (*time.Time, error) {
			next, err := fn(j)
			outcome := "done"
			switch {
			case err != nil:
				outcome = "failed"
			case next != nil && name == "cart.kept":
				outcome = "too many"
			case next != nil:
				outcome = "again"
			}
			_, noted := f.DB.ExecContext(ctx, `insert into ran values ($1, $2, $3, $4::bigint * interval '1 microsecond')`,
				name, j.Slot, outcome, j.Lateness.Microseconds())
			return next, errors.Join(err, noted)
		}), opts...)
	}
	done := func(jobs.FutureJob) (*time.Time, error) { return nil, nil }
	fails := func(jobs.FutureJob) (*time.Time, error) { return nil, errors.New("the bank does not answer") }
	add("review.ask", done)
	add("invoice.unpaid", fails, jobs.Retry(0))
	add("stock.retry", fails, jobs.Retry(1))
	add("order.late", done, jobs.SLA(f.width/4))
	add("cart.again", func(j jobs.FutureJob) (*time.Time, error) {
		if j.CheckCount == 0 {
			return new(j.Slot.Add(2 * f.width)), nil
		}
		return nil, nil
	})
	add("cart.kept", func(j jobs.FutureJob) (*time.Time, error) { return new(j.Slot.Add(f.width)), nil }, jobs.MaxChecks(1))
	r.Register("order.paused", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	r.Register("stock.slow", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-blocked
		return nil, nil
	}), jobs.Timeout(time.Hour))
	return r
}

// enqueued is how many rows of each job are asked for, by slot.
var enqueued = map[int]map[string]int{
	2:  {"review.ask": 4, "invoice.unpaid": 2, "misspelt": 1}, // left open, by misspelt
	3:  {"review.ask": 3, "misspelt": 2},                      // missed
	4:  {"review.ask": 5, "order.late": 2, "cart.again": 3, "cart.kept": 2, "stock.retry": 2},
	5:  {"review.ask": 1}, // missed, and caught up on
	6:  {"order.late": 3, "order.paused": 2},
	7:  {"stock.slow": 1}, // is being run
	8:  {"review.ask": 2, "invoice.unpaid": 1},
	9:  {"review.ask": 8}, // two of them come late to slot 1
	10: {"review.ask": 2, "cart.again": 1},
}

// live lets the slots pass.
func (f *figures) live() {
	f.t.Helper()
	ctx := f.t.Context()
	f.begin = f.Now().Truncate(24 * time.Hour).Add(25 * time.Hour).UTC() // no day ends meanwhile
	f.Clock.Set(f.begin.Add(-time.Second))
	f.must(f.Ledger.Begin(ctx, f.begin))
	f.DB.MustExec(`create table ran (job text, slot timestamptz, outcome text, lateness interval)`)
	// Rows end by the clock of the server, years before. So the forecast has no past, and has what waits alone.
	f.DB.MustExec(`alter table prescient.future_job_history alter finished_at set default clock_timestamp()`)

	blocked := make(chan struct{})
	registry, log := f.registry(blocked), slog.New(slog.DiscardHandler)
	schedule.Register(registry, &schedule.PublishConfig{Publisher: f.told.Publisher(f.Outbox)})
	runner, err := slots.NewRunner(ctx, slots.Config{DB: f.DB, Registry: registry, Now: f.Clock.Now, Logger: log, Observer: f.told})
	f.must(err)
	f.told.Watch(metrics.Source{DB: f.DB, Registry: registry, Now: f.Clock.Now, Logger: log})
	client, err := jobs.NewClient(ctx, f.DB, jobs.Config{Now: f.Clock.Now}) // which knows the width
	f.must(err)
	for n, rows := range enqueued {
		for job, many := range rows {
			for i := range many {
				_, err := client.Enqueue(ctx, jobs.OwnTx(f.DB), jobs.Request{
					JobExec: job, EntityName: "order", EntityKey: fmt.Sprintf("%d-%d", n, i), CheckAt: f.at(n),
				}, jobs.Keep)
				f.must(err)
			}
		}
	}
	for _, key := range []string{"2-0", "3-0"} {
		_, err := client.Cancel(ctx, jobs.OwnTx(f.DB), jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: key})
		f.must(err)
	}
	every := fmt.Sprintf("@every %s", f.width)
	for _, spec := range []schedule.Spec{
		{ID: "feed", Crontab: every, Start: f.at(4), End: f.at(7)},
		{ID: "skips", Crontab: every, Start: f.at(4), End: f.at(7), Misfire: schedule.Skip},
	} {
		_, err := f.Schedules.Create(ctx, f.DB, spec)
		f.must(err)
	}
	_, err = admin.New(client).Pause(ctx, f.DB, "order.paused")
	f.must(err)

	run := func(n int, late time.Duration) {
		f.Clock.Set(f.at(n).Add(late))
		_, err := runner.Run(ctx, f.at(n))
		f.must(err)
	}
	run(1, 0)
	run(2, 0)
	run(4, 0)
	f.Clock.Set(f.at(6).Add(f.width / 2))
	_, err = runner.CatchUp(ctx, slots.CatchUp{Since: f.at(5)})
	f.must(err)
	run(6, f.width/2)
	f.DB.MustExec(`insert into ran select 'schedule', r.slot, r.outcome, '0'
		from (values ($1::timestamptz, 'again'), ($2::timestamptz, 'done')) as r (slot, outcome), generate_series(1, 2)`, f.at(4), f.at(5))
	f.runBeside(runner, blocked)
	run(8, 0)

	f.arrange()
}

// runBeside begins a run of slot 7, which goes on.
func (f *figures) runBeside(runner *slots.Runner, blocked chan struct{}) {
	f.t.Helper()
	f.Clock.Set(f.at(7))
	ended := make(chan error)
	go func() {
		_, err := runner.Run(context.WithoutCancel(f.t.Context()), f.at(7))
		ended <- err
	}()
	f.t.Cleanup(func() {
		close(blocked)
		if err := <-ended; err != nil {
			f.t.Errorf("the run of slot 7: %v", err)
		}
	})
	for claimed := 0; claimed == 0; {
		f.must(f.DB.Get(&claimed, `select count(*) from prescient.slot_claim where slot = $1 and jobs <> '{}'`, f.at(7)))
	}
}

// arrange makes what else the figures need: rows that came late, a runner that died, times that are
// known, and a consumer.
func (f *figures) arrange() {
	f.t.Helper()
	ctx := f.t.Context()
	// The rows were asked for before the width of now, on the clock of the database.
	f.DB.MustExec(`update prescient.future_job as f set enqueued_at = e.at
		from (select id, enqueued_at - interval '1 day' as at from prescient.future_job offset 0) as e where e.id = f.id`)
	f.DB.MustExec(`update prescient.future_job set next_check_at = $1 where id in (select id from prescient.future_job
		where next_check_at = $2 order by id limit 2)`, f.at(1), f.at(9))
	f.DB.MustExec(`insert into prescient.slot_claim (token, slot, kind, jobs, first_id, last_id, runner, allocated_until)
		values (1, $1, 'run', array[prescient.find_job('misspelt')], 0, 0, 'dead', clock_timestamp() - interval '1 minute')`, f.at(2))
	// Each slot was opened as it began, and those with rows stayed open for an hour, as for a row
	// of an unknown job. The last row of each job was recorded 2 seconds after the slot, or 3 of
	// cart.again, and its checks took 2 seconds. Citus updates no column by a sum that depends on the
	// time zone of the session.
	f.DB.MustExec(`update prescient.slot_run set opened_at = slot, finished_at = case when state <> 'done' then null
		when planned > 0 then (slot at time zone 'UTC' + interval '1 hour') at time zone 'UTC'
		else (slot at time zone 'UTC' + interval '1 second') at time zone 'UTC' end
		where slot <> $1`, f.at(7))
	// The run of slot 7 goes on, and on a busy machine it would soon be the longest one.
	f.DB.MustExec(`update prescient.slot_run set opened_at = statement_timestamp() + interval '1 hour' where slot = $1`, f.at(7))
	f.DB.MustExec(`update prescient.slot_job set last_at = (slot at time zone 'UTC' + interval '2 seconds'
		+ interval '1 second' * (job = prescient.find_job('cart.again'))::int) at time zone 'UTC', spent = '2 seconds'
		where slot in (select slot from prescient.slot_run where state = 'done')`)
	f.DB.MustExec(`update prescient.slot_progress set recorded_at = (slot at time zone 'UTC' + interval '2 seconds') at time zone 'UTC'
		where slot = $1`, f.at(2))
	f.DB.MustExec(`with t as (select count(*) as n from prescient.slot_progress where job = prescient.find_job('invoice.unpaid'))
		update prescient.slot_progress set spent = interval '2 seconds' / t.n from t where job = prescient.find_job('invoice.unpaid')`)
	var events []outbox.Stored
	for len(events) < 5 { // transactions of other tests hold them back
		var err error
		events, err = f.Outbox.Read(ctx, outbox.Position{}, 100)
		f.must(err)
	}
	_, err := f.Outbox.Ack(ctx, "mailer", events[1].Position)
	f.must(err)
}

// status returns what status --output json prints.
func (f *figures) status() string {
	f.t.Helper()
	l, err := ledger.New(f.t.Context(), f.DB, "", f.Clock.Now)
	f.must(err)
	known := func(job string) bool { return job != "misspelt" }
	report, err := health.Check(f.t.Context(), l, time.Time{}, health.Thresholds{}, known)
	f.must(err)
	paused, err := admin.New(f.Client).Paused(f.t.Context(), f.DB)
	f.must(err)
	text, err := json.Marshal(view.NewStatus(report, paused, "shop", known))
	f.must(err)
	return string(text)
}

// forecast returns the slots of a forecast.
func (f *figures) forecast() string {
	f.t.Helper()
	found, err := forecast.Compute(f.t.Context(), forecast.Config{DB: f.DB, Now: f.Clock.Now, For: 4 * f.width})
	f.must(err)
	list := []map[string]any{}
	for _, s := range found.Slots {
		list = append(list, map[string]any{"slot": s.Slot, "waiting": s.Waiting, "rows": s.Rows})
	}
	text, err := json.Marshal(map[string]any{"slots": list})
	f.must(err)
	return string(text)
}

// figure returns a figure of a place.
func (f *figures) figure(place, what string) (float64, error) {
	f.t.Helper()
	path, isAPI := strings.CutPrefix(place, "api/")
	switch {
	case f.text[place] != "":
	case isAPI:
		r := httptest.NewRequest(http.MethodGet, api.Prefix+"/"+path, nil)
		r.Header.Set("Authorization", "Bearer "+story.ReadToken)
		answer := httptest.NewRecorder()
		f.api.ServeHTTP(answer, r)
		f.text[place] = answer.Body.String()
	default:
		f.text[place] = f.browser.get(place, http.StatusOK)
	}
	text := f.text[place]
	switch {
	case place == "metrics":
		m := regexp.MustCompile(`(?m)^prescient_` + regexp.QuoteMeta(what) + ` (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			return 0, errors.New("there is no such metric")
		}
		return strconv.ParseFloat(m[1], 64)
	case strings.HasPrefix(text, "{"):
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return 0, err
		}
		return inJSON(v, strings.Fields(what))
	}
	cell, err := onPage(text, what)
	if err != nil {
		return 0, err
	}
	return number(cell)
}

// inJSON follows a path: a name of a field, "field=value" for an element of an array, "#" for the
// length of one.
func inJSON(v any, path []string) (float64, error) {
	for _, step := range path {
		name, value, chooses := strings.Cut(step, "=")
		switch of := v.(type) {
		case map[string]any:
			v = of[name]
		case []any:
			if step == "#" {
				return float64(len(of)), nil
			}
			i := slices.IndexFunc(of, func(e any) bool { return chooses && e.(map[string]any)[name] == value })
			if i < 0 {
				return 0, fmt.Errorf("no element has %s: %v", step, of)
			}
			v = of[i]
		}
	}
	switch v := v.(type) {
	case float64:
		return v, nil
	case string:
		return number(v)
	}
	return 0, fmt.Errorf("%v is no figure", v)
}

var (
	tags    = regexp.MustCompile(`<[^>]*>`)
	header  = regexp.MustCompile(`<th([^>]*)>(?:<a [^>]*>)?(.*?)(?:</a>)?</th>`)
	line    = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	field   = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	named   = regexp.MustCompile(`(?s)<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>`)
	heading = regexp.MustCompile(`<h1>Ledger of (\d+ \w+)</h1>`)
	tables  = regexp.MustCompile(`(?s)aria-label="([^"]*)"><table>(.*?)</table>`)
	aside   = regexp.MustCompile(`(?s)<small>.*?</small>`)
)

// onPage returns a cell of a table, or a figure with a name, as the page shows it.
func onPage(page, what string) (string, error) {
	part := strings.Split(what, " | ")
	if part[0] == "Ledger of" {
		m := heading.FindStringSubmatch(page)
		if m == nil || !strings.HasSuffix(m[1], " "+part[1]) {
			return "", fmt.Errorf("the heading is not Ledger of N %s: %v", part[1], m)
		}
		return strings.Fields(m[1])[0], nil
	}
	if len(part) == 1 {
		for _, m := range named.FindAllStringSubmatch(page, -1) {
			if m[1] == what {
				return m[2], nil
			}
		}
		return "", errors.New("the page has no such figure")
	}
	for _, m := range tables.FindAllStringSubmatch(page, -1) {
		if html.UnescapeString(m[1]) != part[0] {
			continue
		}
		head, body, _ := strings.Cut(m[2], "</thead>")
		column := slices.IndexFunc(header.FindAllStringSubmatch(head, -1), func(h []string) bool { return h[2] == part[2] })
		for _, row := range line.FindAllStringSubmatch(body, -1) {
			cells := field.FindAllStringSubmatch(row[1], -1)
			if column >= 0 && column < len(cells) && isRow(cells[0][1], part[1]) {
				return cells[column][1], nil
			}
		}
		return "", fmt.Errorf("the table has no such cell: %.3000s", m[2])
	}
	return "", errors.New("the page has no such table")
}

// isRow tells whether a row has this name, or stands for this slot.
func isRow(cell, name string) bool {
	return strings.TrimSpace(tags.ReplaceAllString(cell, "")) == name || strings.Contains(cell, `datetime="`+name+`"`)
}

// number is the number that a cell begins with. A duration is in seconds.
func number(cell string) (float64, error) {
	text := strings.TrimSpace(tags.ReplaceAllString(aside.ReplaceAllString(cell, ""), ""))
	if d, err := duration.Parse(text); err == nil && !isDigits(text) {
		return d.Seconds(), nil
	}
	text, _, _ = strings.Cut(strings.ReplaceAll(text, ",", ""), " ")
	return strconv.ParseFloat(text, 64)
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789.,") == "" }

// complete fails for every figure of the places that no test computes.
func (f *figures) complete() {
	f.t.Helper()
	missing := f.completePages(figureTests)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE prescient_(\w+) (\w+)$`).FindAllStringSubmatch(f.text["metrics"], -1) {
		if m[2] == "histogram" {
			m[1] += "_count"
		}
		missing("metrics", m[1])
	}
	for _, name := range numbersOf(reflect.TypeFor[view.Status]()) {
		missing("status", "status "+name)
	}
}

// completePages fails for every figure of the pages that none of the tests computes. It returns a function that fails if
// none computes a figure of another place.
func (f *figures) completePages(tests []figureTest) (missing func(place, figure string)) {
	f.t.Helper()
	tested := map[string]bool{}
	for _, test := range tests {
		place, _, _ := strings.Cut(test.place, "?")
		part := strings.Split(test.what, " | ")
		switch {
		case place == "metrics":
			name, _, _ := strings.Cut(test.what, "{")
			tested[name] = true
		case len(part) == 3:
			tested[part[0]+" | "+part[2]] = true
		case strings.HasPrefix(place, "/"):
			tested[place+" "+test.what] = true
		default:
			fields := strings.Fields(test.what)
			tested[place+" "+fields[len(fields)-1]] = true
		}
	}
	missing = func(place, figure string) {
		f.t.Helper()
		if !tested[figure] && untested[figure] == "" {
			f.t.Errorf("%s: no test computes %q", place, figure)
		}
	}
	for place, text := range f.text {
		if !strings.HasPrefix(place, "/") {
			continue
		}
		page, _, _ := strings.Cut(place, "?")
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := number(m[2]); err == nil {
				missing(place, page+" "+m[1])
			}
		}
		for _, m := range tables.FindAllStringSubmatch(text, -1) {
			for _, h := range header.FindAllStringSubmatch(m[2], -1) {
				if strings.Contains(h[1], `class="n"`) && untested[m[1]] == "" {
					missing(place, m[1]+" | "+h[2])
				}
			}
		}
	}
	return missing
}

// numbersOf returns the names of the numbers, durations and lists of a type, as JSON.
func numbersOf(of reflect.Type) (names []string) {
	switch of.Kind() {
	case reflect.Slice, reflect.Pointer:
		return numbersOf(of.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || name == "" && !field.Anonymous || field.Type == reflect.TypeFor[time.Time]() {
			continue
		}
		switch kind := field.Type.Kind(); kind {
		case reflect.Int, reflect.Int64, reflect.Float64:
			names = append(names, name)
		default:
			names = append(names, numbersOf(field.Type)...)
		}
	}
	return names
}
