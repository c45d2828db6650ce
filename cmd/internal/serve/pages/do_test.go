package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

var formOfDeed = regexp.MustCompile(`<form method="post" action="(/do/[^"]*)"><?`)

// submit sends the form of a page, filled in like this, as a browser without a script does.
func (b *browser) submit(page string, fill url.Values, status int) string {
	b.t.Helper()
	form, token := formOfDeed.FindStringSubmatch(page), tokenOfForm.FindStringSubmatch(page)
	if form == nil || token == nil {
		b.t.Fatalf("there is no form in\n%s", page)
	}
	filled := url.Values{"form_token": {token[1]}}
	for name, values := range fill {
		filled[name] = values
	}
	answer, body := b.send(http.MethodPost, html.UnescapeString(form[1]), filled)
	if answer.StatusCode != status {
		b.t.Errorf("POST %s: %d, want %d\n%s", form[1], answer.StatusCode, status, body)
	}
	return body
}

func TestEachActionIsFilledInPreviewedConfirmedAndRecorded(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	in := func(d time.Duration) time.Time { return s.Client.Grid().Ceil(s.Now().Add(d)) }
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: fmt.Sprint(i)}, in(2*time.Hour))
	}
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "0"}, in(2*time.Hour))
	s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: "7", Payload: []byte(`{"broken": true}`)}, in(30*time.Minute))
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "8", Payload: []byte(`{"merchant": 42}`)}, in(2*time.Hour))
	_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: "feed", Crontab: "0 * * * *"})
	s.must(err)
	s.deadLetters()
	s.RunFor(time.Hour)
	b := s.browser().login(story.OperatorToken)
	s.has(b.get("/events", http.StatusOK), "Dead letters", "feed-1", "422", "Send again…")
	for _, step := range []struct {
		path    string
		fill    url.Values // of the form; nil: there is nothing to fill in
		preview []string
		result  []string
	}{
		{"/do/cancel?name=order&key=0", nil, []string{"2", "Cancel"}, []string{"cancelled"}},
		{"/do/cancel-many", url.Values{"payload": {"merchant=42"}, "limit": {"10"}}, []string{"Cancels 1 waiting check with payload", "Rows"}, []string{"cancel many"}},
		{"/do/reschedule?job=order.unshipped&name=order&key=1", url.Values{"at": {"5h"}}, []string{"order.unshipped"}, []string{"slot"}},
		{"/do/retry?since=24h", url.Values{"job": {"invoice.unpaid"}, "since": {"24h"}, "limit": {"1,000"}, "at": {""}}, []string{"1"}, []string{"1"}},
		{"/do/silence?finding=failing/invoice.unpaid", url.Values{"finding": {"failing/invoice.unpaid"}, "for": {"2h"}, "because": {"the shop moves"}}, []string{"Tells no person of failing/invoice.unpaid for 2h, because: the shop moves"}, []string{"is silenced"}},
		{"/do/end-silence?finding=failing/invoice.unpaid", nil, []string{"which otto from 127.0.0.1 has made until ", "because: the shop moves"}, []string{"is silenced no more"}},
		{"/do/resend-events", url.Values{"subject": {"feed"}}, []string{"Sends 1 dead letter of subject feed again", "may become a dead letter again"}, []string{"resend events"}},
		{"/do/discard-events", url.Values{"id": {"other-1"}}, []string{"Deletes 1 dead letter with id other-1"}, []string{"discard events"}},
		{"/do/pause-job?job=order.unshipped", nil, []string{"order.unshipped", "Pause"}, []string{"is paused"}},
		{"/do/resume-job?job=order.unshipped", nil, []string{"Resume"}, []string{"is resumed"}},
		{"/do/pause-schedule?id=feed", nil, []string{"feed"}, []string{"paused"}},
		{"/do/resume-schedule?id=feed", nil, []string{"feed"}, []string{"feed"}},
		{"/do/trigger-schedule?id=feed", nil, []string{"feed", "Publish"}, []string{"feed"}},
		{"/do/backfill-schedule?id=feed", url.Values{"from": {"3h"}, "to": {"1h"}}, []string{"2"}, nil},
	} {
		t.Run(step.path, func(t *testing.T) {
			b, s := *b, *s
			s.t, b.shop = t, &s
			page := b.get(step.path, http.StatusOK)
			if step.fill != nil {
				page = b.submit(page, step.fill, http.StatusOK)
			}
			s.has(page, append(step.preview, "This is what will be done", "It is recorded with your name, otto")...)
			done := b.submit(page, nil, http.StatusOK)
			s.has(done, append(step.result, "<h1>Actions</h1>", `class="done" role="status"`, "otto from 127.0.0.1")...)
		})
	}
	if waits := b.get("/entity?name=order&key=1", http.StatusOK); !strings.Contains(waits, in(5*time.Hour).Format("2006-01-02T15:04:05Z")) {
		t.Errorf("the check was not moved to %s:\n%s", in(5*time.Hour), waits)
	}
	s.has(b.get("/entity?name=order&key=0", http.StatusOK), "cancelled", "otto")
	s.has(b.get("/entity?name=invoice&key=7", http.StatusOK), "1 check waits.", "put back from history")
	s.has(b.get("/events", http.StatusOK), "feed")
}

func TestABackfillOfAScheduleWithoutEventsIsRefusedBeforeItsPreview(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for id, act := range map[string]schedule.Act{"purge": {SQL: "select 1"}, "report": {}} {
		_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: id, Crontab: "0 * * * *", Act: act})
		s.must(err)
	}
	b := s.browser().login(story.OperatorToken)
	if about := b.get("/schedule?id=purge", http.StatusOK); !strings.Contains(about, "/do/trigger-schedule?id=purge") || strings.Contains(about, "backfill") {
		t.Errorf("its page:\n%s", about)
	}
	s.has(b.get("/schedule?id=report", http.StatusOK), "/do/backfill-schedule?id=report")
	form := b.get("/do/backfill-schedule?id=purge", http.StatusOK)
	page := b.submit(form, url.Values{"from": {"3h"}, "to": {"1h"}}, http.StatusUnprocessableEntity)
	s.has(page, "id: a backfill publishes events, and this schedule has none: it runs a statement, enqueues a job or notifies people")
}

func TestFindingsAreSilencedAndRowsAcknowledgedOnThePage(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for i := range 2 {
		s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: fmt.Sprint(i), Payload: []byte(`{"broken": true}`)}, s.Now().Add(30*time.Minute))
	}
	s.RunFor(time.Hour)
	b := s.browser().login(story.OperatorToken)
	s.has(b.get("/", http.StatusOK), "2 rows of invoice.unpaid were given up", "Acknowledge them…", "/do/silence?finding=gave-up%2Finvoice.unpaid",
		"/do/retry?job=invoice.unpaid&amp;since=24h", "/do/ack?job=invoice.unpaid&amp;since=24h")
	s.has(b.submit(b.get("/do/silence?finding=gave-up/invoice.unpaid", http.StatusOK), url.Values{"because": {""}}, http.StatusUnprocessableEntity), "is missing")
	for finding, want := range map[string]string{"gaveup": "there is no condition", "failing/nobody": "there is no job nobody", "missed/invoice.unpaid": "is not about one job"} {
		form := b.submit(b.get("/do/silence", http.StatusOK), url.Values{"finding": {finding}, "because": {"x"}}, http.StatusUnprocessableEntity)
		s.has(form, want)
	}
	plan := b.submit(b.get("/do/silence?finding=gave-up/invoice.unpaid", http.StatusOK), url.Values{"finding": {"gave-up/invoice.unpaid"}, "for": {"2h"}, "because": {"the shop moves"}}, http.StatusOK)
	b.submit(plan, nil, http.StatusOK)
	s.has(b.get("/alerts?acted=1", http.StatusOK), "gave-up/invoice.unpaid", "the shop moves", "otto", "End the silence…")

	s.has(b.get("/entity?name=invoice&key=1", http.StatusOK), "Acknowledge…")
	plan = b.submit(b.get("/do/ack?job=invoice.unpaid&name=invoice&key=1", http.StatusOK), url.Values{"job": {"invoice.unpaid"}, "name": {"invoice"}, "key": {"1"}, "because": {"paid by hand"}}, http.StatusOK)
	s.has(plan, "Acknowledges 1 check that was given up of job invoice.unpaid of entity invoice with key 1, because: paid by hand")
	done := b.submit(plan, nil, http.StatusOK)
	for strings.Contains(done, ">running</span>") && t.Context().Err() == nil { // it goes on when the page is shown
		done = b.get("/actions?acted=99", http.StatusOK)
	}
	s.has(done, "1 check was acknowledged")
	page := b.get("/entity?name=invoice&key=1&acted=99", http.StatusOK)
	s.has(page, "acknowledged by", "for otto from 127.0.0.1", "because: paid by hand")
	if strings.Contains(page, "Acknowledge…") {
		t.Error("an acknowledged row can be acknowledged again")
	}
	s.has(b.get("/?acted=99", http.StatusOK), "1 row of invoice.unpaid was given up")
}

func TestCatchUpIsShownBeforeItIsDone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	s.Clock.Set(s.Now().Add(time.Hour))
	b := s.browser().login(story.OperatorToken)
	s.has(b.get("/", http.StatusOK), "slots were missed", "Catch up…")
	plan := b.submit(b.get("/do/catch-up", http.StatusOK), url.Values{"mode": {"run"}}, http.StatusOK)
	s.has(plan, "Checks each row", "Slots", "Rows")
	done := b.submit(plan, nil, http.StatusOK)
	s.has(done, "catch-up")
	for !strings.Contains(done, ">done</span>") && t.Context().Err() == nil { // it goes on, and is read every few seconds
		done = b.get("/actions", http.StatusOK)
	}
	s.has(b.get("/slot?at="+s.Client.Grid().Floor(s.Now()).Add(-30*time.Minute).Format(time.RFC3339), http.StatusOK), "opened by catch-up")
}

func TestWhatHasChangedSinceThePreviewIsNotDone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	order := jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}
	s.Enqueue(order, s.Now().Add(2*time.Hour))
	b := s.browser().login(story.OperatorToken)
	plan := b.get("/do/cancel?name=order&key=1", http.StatusOK)
	order.JobExec = "review.ask"
	s.Enqueue(order, s.Now().Add(2*time.Hour))
	again := b.submit(plan, nil, http.StatusConflict)
	s.has(again, "The data has changed since the preview, and nothing was done.", "2")
	s.has(b.get("/entity?name=order&key=1", http.StatusOK), "2 checks wait.")
	b.submit(again, nil, http.StatusOK)
	s.has(b.get("/entity?name=order&key=1&acted=1", http.StatusOK), "cancelled")
}

func TestAFormFromBeforeAnotherLogInSaysSo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.OperatorToken)
	page := b.get("/do/pause-job?job=order.unshipped", http.StatusOK)
	b.login(story.OperatorToken) // in another tab
	s.has(b.submit(page, nil, http.StatusForbidden), "of another log-in", "Go back, load that page again, and send it again.")
	s.has(b.submit(b.get("/do/pause-job?job=order.unshipped", http.StatusOK), nil, http.StatusOK), "is paused")
}

func TestAKeyWithSpacesIsNotThatWithoutThem(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, key := range []string{"42", " 42 "} {
		s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: key}, s.Now().Add(2*time.Hour))
	}
	b := s.browser().login(story.OperatorToken)
	b.submit(b.get("/do/cancel?name=order&key=+42+", http.StatusOK), nil, http.StatusOK)
	var waits []string
	s.must(s.DB.Select(&waits, "select entity_key from prescient.future_job"))
	if diff := cmp.Diff([]string{"42"}, waits); diff != "" {
		t.Error(diff)
	}
}

func TestAnEmptyNumberIsTheDefaultThatItsFieldNames(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: fmt.Sprint(i), Payload: []byte(`{"broken": true}`)}, s.Now().Add(30*time.Minute))
	}
	s.RunFor(time.Hour)
	b := s.browser().login(story.OperatorToken)
	form := b.get("/do/retry?since=24h", http.StatusOK)
	s.has(form, "Empty: 1,000.")
	s.has(b.submit(form, url.Values{"limit": {""}}, http.StatusOK), "Puts 3 failed checks back")
	s.has(b.submit(form, url.Values{"limit": {"0"}}, http.StatusUnprocessableEntity), "must be a number from 1 to 100,000, or empty")
}

func TestWhatIsWrongWithAFormIsSaidBesideTheField(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.OperatorToken)
	for _, test := range []struct {
		path string
		fill url.Values
		want string
	}{
		{"/do/reschedule?job=order.unshipped&name=order&key=1", url.Values{"at": {""}}, "is missing"},
		{"/do/reschedule?job=order.unshipped&name=order&key=1", url.Values{"at": {"tomorrow"}}, "is no time"},
		{"/do/reschedule?job=order.unshipped&name=order&key=1", url.Values{"at": {"2h"}}, "waits: it has ended or was never requested"},
		{"/do/cancel-many", url.Values{"payload": {"merchant"}}, "must be FIELD=VALUE, or a JSON object"},
		{"/do/cancel-many", url.Values{}, "or another field must say which checks"},
		{"/do/retry", url.Values{"limit": {"many"}}, "must be a number from 1 to 100,000"},
		{"/do/catch-up", url.Values{"mode": {"hurry"}}, "is none of those"},
		{"/do/cancel", nil, "is missing"},
	} {
		page, status := "", http.StatusOK
		if test.path == "/do/cancel" {
			status = http.StatusUnprocessableEntity
		}
		page = b.get(test.path, status)
		s.has(b.submit(page, test.fill, http.StatusUnprocessableEntity), test.want)
	}
}
