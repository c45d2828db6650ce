package pages_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/serve/internal/story"
	"github.com/prescient-go/prescient/cmd/view"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/metrics"
)

// The statements that count what the figures below tell. $1 is the slot that was left open, the one after it was missed.
const (
	slotsMissed = `select count(*)
		from prescient.setting, generate_series(since, $1::timestamptz + width, width) as due
		where not exists (select from prescient.slot_run r where r.slot = due)`
	slotLag = `select extract(epoch from max($1::timestamptz + 2 * width - due))::bigint
		from prescient.setting, generate_series(since, $1::timestamptz + width, width) as due
		where not exists (select from prescient.slot_run r where r.slot = due and r.state = 'done')`
	slotsOpen     = `select count(*) from prescient.slot_run where state = 'open'`
	slotsDone     = `select count(*) from prescient.slot_run where state = 'done'`
	rowsOverdue   = `select count(*) from prescient.future_job, prescient.setting where next_check_at < $1::timestamptz + 2 * width`
	rowsOfMissed  = `select count(*) from prescient.future_job, prescient.setting where next_check_at = $1::timestamptz + width`
	rowsOfOpen    = `select count(*) from prescient.future_job where next_check_at = $1::timestamptz`
	rowsChecked   = `select count(*) from prescient.future_job_history where outcome in ('done', 'failed')`
	rowsGivenUp   = `select count(*) from prescient.future_job_history where outcome = 'failed'`
	ofReview      = ` and job_exec = 'review.ask'`
	misspelt      = ` and job = prescient.number_of('misspelt')`
	reviewWaiting = ` and job = prescient.number_of('review.ask')`
)

// figureTest is a figure, as a pattern whose group is its number in the text of a place, and the SQL that counts the same.
type figureTest struct{ place, pattern, sql string }

var figureTests = []figureTest{
	{"/", `<dt>Overdue</dt><dd>(?:<[^>]*>)?([\d,]+)`, rowsOverdue},
	{"/", `<dt>Missed</dt><dd>(?:<[^>]*>)?([\d,]+)`, slotsMissed},
	{"/", `<dt>Stranded</dt><dd>(?:<[^>]*>)?([\d,]+)`, slotsOpen},
	{"/", `<dt>Given up</dt><dd>(?:<[^>]*>)?([\d,]+)`, rowsGivenUp},
	{"/", `<dt>Failing</dt><dd>(?:<[^>]*>)?([\d,]+)`, `select count(distinct job_exec) from prescient.future_job_history where outcome = 'failed'`},
	{"/", `<dt>Unknown</dt><dd>(?:<[^>]*>)?([\d,]+)`, `select count(*) from prescient.job where registered_at is null and name = 'misspelt'`},
	{"/", `>review.ask</a></th><td>.*?</td><td class="n">([\d,]+)`, rowsChecked + ofReview},
	{"/ledger", `DAY</a></th><td class="n">([\d,]+)`, slotsDone},
	{"/ledger", `DAY</a></th>(?:<td class="n">[\d,]+</td>){2}<td class="n">(?:<[^>]*>)?([\d,]+)`, slotsMissed},
	{"/ledger", `DAY</a></th>(?:<td class="n">.*?</td>){3}<td class="n">([\d,]+)`, rowsChecked},
	{"/ledger", `DAY</a></th>(?:<td class="n">.*?</td>){4}<td class="n">(?:<[^>]*>)?([\d,]+)`, rowsGivenUp},
	{"/jobs", `>review.ask</a></th>.*?<td class="n">([\d,]+)`, rowsChecked + ofReview},
	{"/job?name=review.ask", `<dt>Checked</dt><dd>([\d,]+)`, rowsChecked + ofReview},
	{"/job?name=review.ask", `DAY</th><td class="n">[\d,]+</td><td class="n">([\d,]+)`, rowsChecked + ofReview},
	{"/job?name=invoice.unpaid", `<dt>Failed</dt><dd>(?:<[^>]*>)?([\d,]+)`, rowsGivenUp},
	{"/job?name=invoice.unpaid", `<dt>Given up</dt><dd>(?:<[^>]*>)?([\d,]+)`, rowsGivenUp},
	{"/slot?at=OPEN", `<dt>Rows</dt><dd>([\d,]+)`, rowsChecked},
	{"/slot?at=OPEN", `<dt>Finished</dt><dd>([\d,]+)`, rowsChecked + ofReview},
	{"/slot?at=OPEN", `<dt>Failed</dt><dd>(?:<[^>]*>)?([\d,]+)`, rowsGivenUp},
	{"/slot?at=OPEN", `>misspelt</a></th><td class="n">([\d,]+)`, rowsOfOpen + misspelt},
	{"/slot?at=MISSED", `>review.ask</a></th><td class="n">([\d,]+)`, rowsOfMissed + reviewWaiting},

	{"status", `Overdue=(\d+)`, rowsOverdue},
	{"status", `Missed=(\d+)`, slotsMissed},
	{"status", `LeftOpen=(\d+)`, slotsOpen},
	{"status", `Stragglers=(\d+)`, `select 0`},
	{"status", `MissedRows=(\d+)`, rowsOfMissed},
	{"status", `LeftOpenRows=(\d+)`, rowsOfOpen},
	{"status", `Checked\(review.ask\)=(\d+)`, rowsChecked + ofReview},
	{"status", `GaveUp\(invoice.unpaid\)=(\d+)`, rowsGivenUp},

	{"metrics", `_unfinished_slots{state="missed"} (\d+)`, slotsMissed},
	{"metrics", `_unfinished_slots{state="left_open"} (\d+)`, slotsOpen},
	{"metrics", `_unfinished_slots{state="stragglers"} (\d+)`, `select 0`},
	{"metrics", `_overdue_rows{job_exec="misspelt",state="left_open"} (\d+)`, rowsOfOpen + misspelt},
	{"metrics", `_overdue_rows{job_exec="misspelt",state="missed"} (\d+)`, rowsOfMissed + misspelt},
	{"metrics", `_overdue_rows{job_exec="review.ask",state="missed"} (\d+)`, rowsOfMissed + reviewWaiting},
	{"metrics", `_checks_total{job_exec="review.ask",outcome="done"} (\d+)`, rowsChecked + ofReview},
	{"metrics", `_checks_total{job_exec="invoice.unpaid",outcome="failed"} (\d+)`, rowsGivenUp},
	{"metrics", `_slot_lag_seconds (\d+)`, slotLag},
	{"metrics", `_slot_width_seconds (\d+)`, `select extract(epoch from width)::bigint from prescient.setting`},
	{"metrics", `_claims{state="live"} (\d+)`, `select 0`},
}

// The ledger has begun moments ago. One of its slots was left open by a job that no runner knows, and one was missed.
func TestFiguresAreThoseOfTheDatabaseAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []time.Duration{time.Second, time.Minute, 15 * time.Minute} {
		t.Run(width.String(), func(t *testing.T) {
			t.Parallel()
			s := &shop{World: story.NewOfWidth(t, width, nil), t: t}
			s.server = httptest.NewServer(s.Pages)
			t.Cleanup(s.server.Close)
			told := metrics.New()
			open, missed := s.runWithTrouble(width, told)
			b := s.browser().login(story.ReadToken)
			text := map[string]string{"status": s.status(), "metrics": scrape(told)}
			names := strings.NewReplacer("DAY", open.Format(time.DateOnly), "OPEN", open.Format(time.RFC3339), "MISSED", missed.Format(time.RFC3339))
			for _, f := range figureTests {
				place := names.Replace(f.place)
				if text[place] == "" {
					text[place] = b.get(place, http.StatusOK)
				}
				var want int64
				query := f.sql
				if strings.Contains(query, "$1") {
					s.must(s.DB.Get(&want, query, open))
				} else {
					s.must(s.DB.Get(&want, query))
				}
				m := regexp.MustCompile(`(?s)` + names.Replace(f.pattern)).FindStringSubmatch(text[place])
				if m == nil {
					t.Errorf("%s has no %s:\n%.6000s", place, f.pattern, text[place])
					continue
				}
				got, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
				if err != nil || got != want {
					t.Errorf("%s: %s is %d, want %d (%v)", place, f.pattern, got, want, err)
				}
			}
		})
	}
}

// runWithTrouble runs slots of a ledger that begins now, and returns the slot that was left open and the one after it, which was
// missed. The clock then stands at the beginning of the slot after these, which was run.
func (s *shop) runWithTrouble(width time.Duration, told *metrics.Metrics) (open, missed time.Time) {
	s.t.Helper()
	ctx := s.t.Context()
	registry := jobs.NewRegistry()
	registry.Register("review.ask", func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	registry.Register("invoice.unpaid", func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the bank does not answer")
	}, jobs.Retry(0))
	log := slog.New(slog.DiscardHandler)
	runner, err := slots.NewRunner(ctx, slots.Config{DB: s.DB, Registry: registry, Now: s.Clock.Now, Logger: log, Observer: told})
	s.must(err)
	client, err := jobs.NewClient(ctx, s.DB, jobs.Config{Now: s.Clock.Now}) // which knows the width
	s.must(err)
	begin := s.Now()
	open, missed = begin.Add(2*width), begin.Add(3*width)
	for at, rows := range map[time.Time]map[string]int{
		open:   {"review.ask": 4, "invoice.unpaid": 2, "misspelt": 1},
		missed: {"review.ask": 3, "misspelt": 2},
	} {
		for job, n := range rows {
			for i := range n {
				key := fmt.Sprintf("%s-%d", at.Sub(begin), i)
				_, err := client.Enqueue(ctx, s.DB, jobs.FutureJob{JobExec: job, EntityName: "order", EntityKey: key, CheckAt: at}, jobs.Keep)
				s.must(err)
			}
		}
	}
	for _, at := range []time.Duration{2 * width, 3 * width} {
		_, err := client.Cancel(ctx, s.DB, jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprintf("%s-0", at)})
		s.must(err)
	}
	// The rows were asked for before the width of now, on the clock of the database.
	s.DB.MustExec(`update prescient.future_job as f set enqueued_at = e.at
		from (select id, enqueued_at - interval '1 day' as at from prescient.future_job offset 0) as e where e.id = f.id`)
	for _, n := range []int{1, 2, 4} {
		s.Clock.Set(begin.Add(time.Duration(n) * width))
		_, err := runner.Run(ctx, s.Now())
		s.must(err)
	}
	told.Watch(metrics.Source{DB: s.DB, Registry: registry, Now: s.Clock.Now, Logger: log})
	return open.UTC(), missed.UTC()
}

// status returns what status --output json has, a figure a line.
func (s *shop) status() string {
	s.t.Helper()
	ledger, err := slots.NewLedger(s.t.Context(), s.DB, "", s.Clock.Now)
	s.must(err)
	report, err := health.Look(s.t.Context(), ledger, time.Time{}, health.Limits{}, func(string) bool { return true })
	s.must(err)
	v := view.NewStatus(report, nil, "shop", func(string) bool { return true })
	rows := func(list []view.Trouble) (n int64) {
		for _, t := range list {
			n += t.Waiting
		}
		return n
	}
	text := fmt.Sprintf("Overdue=%d\nMissed=%d\nLeftOpen=%d\nStragglers=%d\nMissedRows=%d\nLeftOpenRows=%d\n",
		v.Overdue, len(v.Missed), len(v.LeftOpen), len(v.Stragglers), rows(v.Missed), rows(v.LeftOpen))
	for _, j := range v.Jobs {
		text += fmt.Sprintf("Checked(%s)=%d\nGaveUp(%s)=%d\n", j.JobExec, j.Checked, j.JobExec, j.GaveUp)
	}
	return text
}

func scrape(m *metrics.Metrics) string {
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}
