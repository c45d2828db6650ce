package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Each action has one plan. The command, the page and the API say its sentence.
func TestTheCommandThePageAndTheAPISayOneSentence(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	today := time.Now().UTC().Truncate(24 * time.Hour)
	times := strings.NewReplacer("LATER", today.AddDate(0, 0, 40).Format(time.RFC3339), "AT", today.AddDate(0, 0, 30).Format(time.RFC3339))
	base, _ := serveWith(t, registry, "serve")
	run := func(line string) string {
		var out, log bytes.Buffer
		a := New(registry)
		a.Out, a.Err = &out, &log
		args := strings.Fields(times.Replace(line))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ") // of a crontab
		}
		if code := a.Run(t.Context(), args); code != Done {
			t.Fatalf("%s: exit code %d: %s", line, code, &log)
		}
		return out.String()
	}
	run("jobs add ok order 1 --at AT --payload {\"n\":1}")
	run("jobs add ok order 2 --at AT")
	run("schedules create report --crontab 0_9_1_1_*")
	fillForSentences(t)
	b := &sentenceBrowser{t: t, base: base, client: &http.Client{}}
	b.login(operator)
	said := map[string]bool{}
	for _, v := range []struct {
		verb, line, body, before string
		form                     url.Values
	}{
		{"cancel", "jobs cancel ok order 1", `{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}`, "", url.Values{"job": {"ok"}, "name": {"order"}, "key": {"1"}}},
		{"cancel-many", "jobs cancel ok --entity order --limit 1", `{"job_exec": "ok", "entity_name": "order", "limit": 1}`, "", url.Values{"job": {"ok"}, "name": {"order"}, "limit": {"1"}}},
		{"cancel-selected", "jobs cancel ok order 1", `{"checks": [{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}]}`, "", url.Values{"row": {`{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}`}}},
		{"reschedule-selected", "jobs reschedule ok order 1 --at LATER", `{"checks": [{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}], "at": "LATER"}`, "", url.Values{"row": {`{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}`}, "at": {times.Replace("LATER")}}},
		{"reschedule", "jobs reschedule ok order 1 --at LATER", `{"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "LATER"}`, "", url.Values{"job": {"ok"}, "name": {"order"}, "key": {"1"}, "at": {times.Replace("LATER")}}},
		{"retry", "jobs retry --job ok --at LATER", `{"job_exec": "ok", "at": "LATER"}`, "", url.Values{"job": {"ok"}, "at": {times.Replace("LATER")}}},
		{"run-check", "jobs run ok order 1", `{"job_exec": "ok", "entity_name": "order", "entity_key": "1"}`, "", url.Values{"job": {"ok"}, "name": {"order"}, "key": {"1"}}},
		{"ack", "alerts ack --job ok --because because", `{"job_exec": "ok", "because": "because"}`, "", url.Values{"job": {"ok"}, "because": {"because"}}},
		{"silence", "alerts silence missed --for 1h --because because", `{"finding": "missed", "for": "1h", "because": "because"}`, "", url.Values{"finding": {"missed"}, "for": {"1h"}, "because": {"because"}}},
		{"end-silence", "alerts silence missed --for 0s", `{"finding": "missed"}`, "alerts silence missed --for 1h --because because", url.Values{"finding": {"missed"}}},
		{"pause-job", "jobs pause ok", `{"job_exec": "ok"}`, "", url.Values{"job": {"ok"}}},
		{"resume-job", "jobs resume ok", `{"job_exec": "ok"}`, "jobs pause ok", url.Values{"job": {"ok"}}},
		{"catch-up", "catch-up --mode defer", `{"mode": "defer"}`, "jobs resume ok", url.Values{"mode": {"defer"}}},
		{"pause-schedule", "schedules pause report", `{"id": "report"}`, "", url.Values{"id": {"report"}}},
		{"resume-schedule", "schedules resume report", `{"id": "report"}`, "schedules pause report", url.Values{"id": {"report"}}},
		{"trigger-schedule", "schedules trigger report", `{"id": "report"}`, "", url.Values{"id": {"report"}}},
		{"backfill-schedule", "schedules backfill report --since 2001-01-01 --until 2003-01-01", `{"id": "report", "from": "2001-01-01T00:00:00Z", "to": "2003-01-01T00:00:00Z"}`, "", url.Values{"id": {"report"}, "from": {"2001-01-01"}, "to": {"2003-01-01"}}},
		{"resend-events", "events resend --subject a", `{"subject": "a"}`, "", url.Values{"subject": {"a"}}},
		{"discard-events", "events discard --id a1", `{"id": "a1"}`, "", url.Values{"id": {"a1"}}},
		{"forget-consumer", "events forget billing", `{"consumer": "billing"}`, "events ack billing 0-0", url.Values{"consumer": {"billing"}}},
	} {
		if v.before != "" {
			run(v.before)
		}
		want := strings.Split(run(v.line+" --dry-run"), "\n")
		_, answer := ask(t, http.MethodPost, base+"/api/v1/actions/"+v.verb+"?preview=true", operator, times.Replace(v.body))
		var plan action.Plan
		if err := json.Unmarshal([]byte(answer), &plan); err != nil || plan.Text == "" {
			t.Fatalf("%s: %v: %s", v.verb, err, answer)
		}
		page := b.preview(v.verb, v.form)
		for _, sentence := range append([]string{plan.Text}, plan.Warnings...) {
			if !strings.Contains(strings.Join(want, "\n"), sentence) || !strings.Contains(page, html.EscapeString(sentence)) {
				t.Errorf("%s: the API says %q, the command\n%s\nthe page\n%s", v.verb, sentence, strings.Join(want, "\n"), page)
			}
		}
		said[v.verb] = true
	}
	for _, form := range action.Forms {
		if !said[form.Path] && form.Path != "remove-rule" && form.Path != "retry-selected" {
			// Tests of the API and of the page have their sentences.
			t.Errorf("this test lacks %s", form.Path)
		}
	}
}

// fillForSentences adds a failed check, a missed row and two dead letters.
func fillForSentences(t *testing.T) {
	t.Helper()
	db, err := pgsql.Open(t.Context(), os.Getenv("PRESCIENT_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.MustExecContext(t.Context(), `insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, payload, enqueued_at, enqueued_by, requested_for, outcome)
		select 1000 + f.id, 'ok', 'order', '9', first_check_at, next_check_at, 0, 1, interval '0', payload, enqueued_at, enqueued_by, requested_for, 'failed'
		from prescient.future_job f where f.entity_key = '1';
		update prescient.future_job
		set next_check_at = date_bin('15 minutes', now() - interval '1 hour', timestamptz '2001-01-01 00:00:00+00')
		where entity_key = '2';
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		values ('desk', 'a1', 's', 't', 'a', 3, '422', now()), ('desk', 'a2', 's', 't', 'a', 0, null, now())`)
}

// sentenceBrowser fills in the forms of the page.
type sentenceBrowser struct {
	t      *testing.T
	base   string
	client *http.Client
	token  string // of forms
}

var formToken = regexp.MustCompile(`name="form_token" value="([^"]+)"`)

func (b *sentenceBrowser) login(token string) {
	b.client.Jar, _ = cookiejar.New(nil)
	b.read(http.MethodGet, "/login", nil)
	b.read(http.MethodPost, "/login", url.Values{"token": {token}})
}

func (b *sentenceBrowser) preview(verb string, form url.Values) string {
	return b.read(http.MethodPost, "/do/"+verb+"?"+form.Encode(), form)
}

func (b *sentenceBrowser) read(method, path string, form url.Values) string {
	b.t.Helper()
	filled := url.Values{"form_token": {b.token}}
	for name, values := range form {
		filled[name] = values
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(filled.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.base)
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %v, %d %s", method, path, err, answer.StatusCode, &text)
	}
	if found := formToken.FindStringSubmatch(text.String()); found != nil {
		b.token = html.UnescapeString(found[1])
	}
	return text.String()
}
