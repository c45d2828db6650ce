package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/metrics"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// stateOfEachKind makes slots of twelve hours each: missed, left open, done with stragglers, and the current one, which no
// run has opened. A job fails, gave up rows with another error,
// is late, is paused, or is known to no run.
const stateOfEachKind = `
	create temp table day as select prescient.slot_floor(now(), '12 hours') - n * interval '12 hours' as slot, n from generate_series(0, 3) as n;
	update prescient.setting set since = (select slot from day where n = 3);
	select prescient.enqueue(job, 'order', job || k, check_at => now()) from (values ('ok', 2019), ('rest', 1), ('oder', 4)) as j (job, n), generate_series(1, n) as k;
	select prescient.ensure_job('fail'), prescient.ensure_job('slow');
	update prescient.job set registered_at = now() where name in ('ok', 'fail', 'rest', 'slow');
	update prescient.job set sla = '1 minute' where name = 'slow';
	update prescient.job set paused_at = now(), paused_by = 'ops' where name = 'rest';
	update prescient.future_job f set enqueued_at = now() - interval '3 days', next_check_at = (select slot from day where n = case
		when f.job <> prescient.find_job('ok') then 3
		when f.entity_key in (select 'ok' || k from generate_series(1, 7) as k) then 0
		when f.entity_key in (select 'ok' || k from generate_series(8, 10) as k) then 1
		when f.entity_key in (select 'ok' || k from generate_series(11, 15) as k) then 2
		else 3 end);
	insert into prescient.slot_run (slot, state, kind, planned, finished_at, names) select slot, case n when 1 then 'done' else 'open' end, 'run', 9, case n when 1 then now() end, '{batch1:7}' from day where n in (1, 2);
	insert into prescient.slot_job (slot, job, planned, finished, failed, error, last_at) select slot, prescient.find_job('fail'), 3, 1, 2, 'the depot is closed', now() from day where n = 1;
	insert into prescient.slot_lateness (slot, job, bucket, checks) select slot, prescient.find_job('fail'), 0, 3 from day where n = 1;
	insert into prescient.slot_job (slot, job, planned, finished, late, last_at) select slot, prescient.find_job('slow'), 4, 4, 2, now() from day where n = 1;
	insert into prescient.slot_lateness (slot, job, bucket, checks) select slot, prescient.find_job('slow'), 45, 4 from day where n = 1;
	insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at, last_error)
		select 1000000 + k, 'fail', 'order', k::text, '', slot, slot, 1, 1, '0', slot, 'shop', 'failed', now(), 'the card expired' from day, generate_series(1, 3) as k where n = 2;
`

// manyJobs makes so many jobs that counting stops at 1,000 rows of each.
const manyJobs = stateOfEachKind + `
	select prescient.enqueue('many' || k, 'order', 'many' || k, check_at => now()) from generate_series(1, 250) as k;
	update prescient.job set registered_at = now() where name like 'many%';
	update prescient.future_job f set next_check_at = (select slot from day where n = 3) where entity_key like 'many%';
`

// figures has the JSON of status and of the overview.
type figures struct {
	Overdue        int64                                      `json:"overdue"`
	OverdueAtLeast bool                                       `json:"overdue_at_least"`
	MoreMissed     int64                                      `json:"more_missed"`
	Missed         []troubled                                 `json:"missed"`
	LeftOpen       []troubled                                 `json:"left_open"`
	Stragglers     []troubled                                 `json:"stragglers"`
	Paused         []struct{ JobExec string }                 `json:"paused"`
	Findings       []struct{ Condition, Text, Remedy string } `json:"findings"`
	LastRun        struct{ Slot, Runner string }              `json:"last_run"`
	Jobs           []struct {
		JobExec     string `json:"job_exec"`
		Unserved    bool   `json:"unserved"`
		Failed      int64  `json:"failed"`
		GaveUp      int64  `json:"gave_up"`
		GaveUpError string `json:"gave_up_error"`
	} `json:"jobs"`
}

type troubled struct {
	Slot    string `json:"slot"`
	Waiting int64  `json:"waiting"`
	AtLeast bool   `json:"at_least"`
}

func TestEachDoorTellsTheSameStateInTheSameWords(t *testing.T) {
	pgtest.NotOnCitus(t, "it changes no table of a schema by a temporary one")
	t.Setenv("INVOCATION_ID", "of a unit") // doctor does not start this binary to ask what cron would see
	for name, test := range map[string]struct {
		sql      string
		overdue  string // as texts say it
		findings []string
	}{
		"exact": {stateOfEachKind, "2023", []string{
			": opened by no run; 2008 rows wait in it",
			"stranded: 8 rows are stranded in 2 slots since SLOT2: ",
			"gave-up: 3 rows of fail were given up in the last day: the card expired. ",
			"failing: 2 of 3 checks of fail failed in slot SLOT1, which was run last, at ",
			"sla: 2 of 4 checks of slow in the last day began later than 1m after their slot, and 2 of 4 of slot SLOT1, which was run last, at ",
			"unserved: rows wait for jobs that no run of the last 7 days had: oder (4 due). ",
		}},
		"stopped": {manyJobs, "1,269+", []string{
			"missed: 1 slot was missed since SLOT3: opened by no run; more than 1,254 rows wait in it",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
			registry := jobs.NewRegistry()
			for _, job := range []string{"ok", "fail", "rest", "slow"} {
				registry.Register(job, jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
			}
			run := func(args ...string) string {
				t.Helper()
				var out, log bytes.Buffer
				app := New(registry)
				app.Out, app.Err = &out, &log
				if code := app.Run(t.Context(), args); code != Done && code != Found && code != Unconfirmed && code != Left {
					t.Fatalf("%v: exit code %d\n%s", args, code, &log)
				}
				return out.String()
			}
			run("slots", "set-width", "12h")
			db, current := world(t, test.sql)
			url, _ := serveWith(t, registry, "serve")
			read := func(text string) (v figures) {
				t.Helper()
				if err := json.Unmarshal([]byte(ageless(text)), &v); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				return v
			}
			status := read(run("status", "--output", "json"))
			_, text := ask(t, http.MethodGet, url+"/api/v1/overview", "", "")
			if diff := cmp.Diff(status, read(text)); diff != "" {
				t.Errorf("status (-) and the API (+) differ:\n%s", diff)
			}

			_, page := ask(t, http.MethodGet, url+"/", "", "")
			page = ageless(html.UnescapeString(page))
			said := ageless(run("status"))
			if !regexp.MustCompile(`(?m)^overdue rows +` + regexp.QuoteMeta(test.overdue) + ` *$`).MatchString(said) {
				t.Errorf("status does not say %s overdue rows:\n%s", test.overdue, said)
			}
			var doctor struct{ Findings []struct{ Name, What string } }
			if err := json.Unmarshal([]byte(run("doctor", "--output", "json")), &doctor); err != nil {
				t.Fatal(err)
			}
			listed := ""
			for _, f := range doctor.Findings {
				listed += f.Name + ": " + ageless(f.What) + "\n"
			}
			for _, f := range status.Findings {
				for door, text := range map[string]string{"the page": page, "status": said, "doctor": listed} {
					if !strings.Contains(text, f.Text) {
						t.Errorf("%s does not say %q", door, f.Text)
					}
				}
			}
			for _, want := range test.findings {
				for n := range 4 {
					want = strings.ReplaceAll(want, fmt.Sprint("SLOT", n), current.Add(-time.Duration(n)*12*time.Hour).Format(time.RFC3339))
				}
				if !strings.Contains(said, want) {
					t.Errorf("status does not say %q:\n%s", want, said)
				}
			}
			if !strings.Contains(said, "by batch1:7") || status.LastRun.Runner != "batch1:7" {
				t.Errorf("status does not say which machine was the last, but %+v:\n%s", status.LastRun, said)
			}

			var failed, gaveUp, unserved int64
			for _, j := range status.Jobs {
				failed, gaveUp = failed+j.Failed, gaveUp+j.GaveUp
				if j.Unserved {
					unserved++
				}
			}
			for figure, want := range map[string]string{
				"Overdue": strings.Replace(test.overdue, "2023", "2,023", 1), "Missed": fmt.Sprint(int64(len(status.Missed)) + status.MoreMissed),
				"Stranded": fmt.Sprint(len(status.LeftOpen) + len(status.Stragglers)), "Failing": "1", "Failed": fmt.Sprint(failed),
				"Given up": fmt.Sprint(gaveUp), "Unserved": fmt.Sprint(unserved), "Paused": fmt.Sprint(len(status.Paused)),
			} {
				if got := regexp.MustCompile(`<dt>` + figure + `</dt><dd><a [^>]*>(?:<span[^>]*>)?([^<]*)`).FindStringSubmatch(page); got == nil || got[1] != want {
					t.Errorf("the page says %s %q, want %s", figure, got, want)
				}
			}

			told := metrics.New()
			told.Watch(metrics.Source{DB: db})
			answer := httptest.NewRecorder()
			told.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			sums := map[string]int64{}
			for _, m := range regexp.MustCompile(`(?m)^prescient_(unfinished_slots|overdue_rows)\{.*state="(\w+)"\} (\S+)$`).FindAllStringSubmatch(answer.Body.String(), -1) {
				n, err := strconv.ParseFloat(m[3], 64)
				if err != nil {
					t.Fatal(err)
				}
				sums[m[1]+" "+m[2]] += int64(n)
				sums[m[1]] += int64(n)
			}
			for name, want := range map[string]int64{
				"overdue_rows missed": waits(status.Missed), "overdue_rows left_open": waits(status.LeftOpen), "overdue_rows stragglers": waits(status.Stragglers),
				"unfinished_slots missed": int64(len(status.Missed)) + status.MoreMissed, "unfinished_slots left_open": int64(len(status.LeftOpen)),
				"unfinished_slots stragglers": int64(len(status.Stragglers)),
			} {
				if sums[name] != want {
					t.Errorf("metrics: %s is %d, want %d", name, sums[name], want)
				}
			}
			if sums["overdue_rows"] != status.Overdue {
				t.Errorf("metrics: %d overdue rows, and status says %d", sums["overdue_rows"], status.Overdue)
			}
		})
	}
}

// ageless leaves out how long ago something was, which changes from door to door.
func ageless(text string) string {
	return regexp.MustCompile(`, (now|\d+ (s|min|h|days) ago)`).ReplaceAllString(text, "")
}

func waits(list []troubled) (n int64) {
	for _, t := range list {
		n += t.Waiting
	}
	return n
}

// world runs statements in the database of the test, and returns it with its current slot.
func world(t *testing.T, statements string) (db *sqlx.DB, current time.Time) {
	t.Helper()
	db, err := pgsql.Open(t.Context(), os.Getenv("PRESCIENT_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // of the temporary table
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
	var age float64
	row := db.QueryRowContext(t.Context(), "select slot, extract(epoch from now() - slot) from day where n = 0")
	if err := row.Scan(&current, &age); err != nil {
		t.Fatal(err)
	}
	if age < 120 {
		t.Skip("the slot has just begun: its rows are not overdue yet")
	}
	return db, current.UTC()
}
