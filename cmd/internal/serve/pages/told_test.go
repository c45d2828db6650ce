package pages_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAServerThatMayNotActSaysSo(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	s := setup(t, nil)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(2*time.Hour))
	_, err := s.DB.Exec(`
		create function prescient.refuse() returns trigger language plpgsql as $$ begin raise insufficient_privilege; end $$;
		create trigger refuse before insert on prescient.action execute function prescient.refuse()`)
	s.must(err)
	b := s.browser().login(story.OperatorToken)
	s.has(b.submit(b.get("/do/cancel?name=order&key=1", http.StatusOK), nil, http.StatusForbidden), web.NoRights)
}

func TestACountThatWasNotFinishedSaysSo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec(`
		insert into prescient.event_outbox (id, source, type, data) select i::text, 'shop', 'sold', '{}' from generate_series(1, 10001) as i;
		insert into prescient.event_consumer (name, mark, position) values ('mailer', '3', 0)`)
	s.must(err)
	s.has(s.browser().login(story.ReadToken).get("/events", http.StatusOK), "10,000+")
}

// enqueueItems asks for checks of one entity, in the slot of an instant.
func (s *shop) enqueueItems(n int, at time.Time) {
	s.t.Helper()
	list := make([]jobs.Request, n)
	for i := range list {
		list[i] = jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1", ItemKey: fmt.Sprint(i), CheckAt: at}
	}
	for part := range slices.Chunk(list, 1000) {
		_, err := s.Client.EnqueueMany(s.t.Context(), jobs.OwnTx(s.DB), part)
		s.must(err)
	}
}

func TestTheListOfJobsGoesOnBehindItsFirstPage(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	list := make([]jobs.Request, 51)
	for i := range list {
		list[i] = jobs.Request{JobExec: fmt.Sprintf("very.many.%02d", i), EntityName: "order", EntityKey: "1", CheckAt: s.Now().Add(time.Hour)}
	}
	_, err := s.Client.EnqueueMany(t.Context(), jobs.OwnTx(s.DB), list)
	s.must(err)
	_, err = admin.New(s.Client).Pause(t.Context(), s.DB, "very.many.50")
	s.must(err)
	b := s.browser().login(story.ReadToken)
	first := b.get("/jobs", http.StatusOK)
	s.has(first, ">very.many.50<") // before the idle ones
	next := regexp.MustCompile(`"(/jobs\?after=[^"]+)">Next page`).FindStringSubmatch(first)
	if next == nil || strings.Contains(first, ">very.many.49<") {
		t.Fatal(first)
	}
	second := b.get(next[1], http.StatusOK)
	s.has(second, ">very.many.49<")
	if strings.Contains(second, ">very.many.10<") || strings.Contains(second, "Next page") {
		t.Error(second)
	}
	found := b.get("/jobs?search=MANY.4", http.StatusOK)
	s.has(found, ">very.many.40<", ">very.many.49<", `value="MANY.4"`)
	if strings.Contains(found, ">very.many.10<") || strings.Contains(found, "Next page") {
		t.Error(found)
	}
	s.has(b.get("/jobs?search=nowhere", http.StatusOK), "No job has this in its name.")
	// The place of the page before is gone once all jobs are worse.
	s.has(b.get("/jobs?after=quiet_zz&search=many", http.StatusOK), "No job comes after this place", `href="/jobs?search=many&amp;sort=state">First page`)
	s.has(b.get("/jobs?after=7", http.StatusBadRequest), "The address names no position in the list.")
}

func TestAnEntityWithVeryManyChecksIsCountedAndNotListed(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	const many = 3*admin.MaxRows + 7
	s.enqueueItems(many, s.Now().Add(2*time.Hour))
	b := s.browser().login(story.OperatorToken)
	page := b.get("/entity?name=order&key=1", http.StatusOK)
	s.has(page, "3,007 checks wait.", "The timeline is longer: these are its newest entries.")
	if n := strings.Count(page, `<ol class="timeline">`); n > 1000 {
		t.Errorf("%d rows are shown", n)
	}
	plan := b.get("/do/cancel?name=order&key=1", http.StatusOK)
	s.has(plan, "Cancels 3007 waiting checks of order 1")

	// Another row is another plan, although the number is the same.
	_, err := s.DB.Exec(`delete from prescient.future_job where item_key = '17'`)
	s.must(err)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1", ItemKey: "new"}, s.Now().Add(2*time.Hour))
	plan = b.submit(plan, nil, http.StatusConflict)
	s.has(plan, "The data has changed since the preview", "Cancels 3007 waiting checks")
	s.has(b.submit(plan, nil, http.StatusOK), "3007 checks were cancelled")
}

func TestEveryRowOfASlotCanBePagedTo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.enqueueItems(120, s.Now().Add(2*time.Hour))
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "2"}, s.Now().Add(time.Hour))
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "3"}, s.Now().Add(3*time.Hour))
	s.followsTo("/waiting?job=order.unshipped", 122)
}

// Rows that one statement records may end in the same microsecond.
func TestEveryRowThatEndedCanBePagedTo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.enqueueItems(120, s.Now().Add(2*time.Hour))
	_, err := s.Client.CancelEntity(t.Context(), jobs.OwnTx(s.DB), "order", "1")
	s.must(err)
	_, err = s.DB.Exec("update prescient.future_job_history set finished_at = statement_timestamp()")
	s.must(err)
	s.followsTo("/ended?job=order.unshipped", 120)
}

// followsTo requires that the pages of a list, one after another, have a number of rows.
func (s *shop) followsTo(path string, want int) {
	s.t.Helper()
	b := s.browser().login(story.ReadToken)
	rows, more := 0, regexp.MustCompile(`<a href="([^"]+)">Next page`)
	for path != "" && rows <= want {
		page := b.get(path, http.StatusOK)
		rows += strings.Count(page, "<tr>") - 1
		path = ""
		if m := more.FindStringSubmatch(page); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	if rows != want {
		s.t.Errorf("%d rows are shown, want %d", rows, want)
	}
}

func TestAPreviewRefusesWhatIsBeyondTheHorizon(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(2*time.Hour))
	b := s.browser().login(story.OperatorToken)
	for _, path := range []string{"/do/retry?since=24h", "/do/reschedule?job=order.unshipped&name=order&key=1"} {
		form := b.get(path, http.StatusOK)
		s.has(b.submit(form, url.Values{"at": {"9990-01-01"}}, http.StatusUnprocessableEntity), "must be within the horizon")
	}
}

func TestExpireSaysThatItsNumberIsAnUpperBound(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.enqueueItems(3, s.Now().Add(time.Hour))
	s.Clock.Set(s.Now().Add(2 * time.Hour)) // no runner works
	b := s.browser().login(story.OperatorToken)
	plan := b.submit(b.get("/do/catch-up", http.StatusOK), url.Values{"mode": {"expire"}}, http.StatusOK)
	s.has(plan, "those of 3 rows", "The number of rows is an upper bound")
}

func TestAScheduleShowsItsInstantsByTheClocksOfItsZone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, spec := range []schedule.Spec{
		{ID: "here", Crontab: "30 9 1 7 *", Timezone: "Asia/Tokyo"}, {ID: "named", Crontab: "CRON_TZ=Asia/Tokyo 30 9 1 7 *"}, {ID: "utc", Crontab: "30 9 1 7 *"},
	} {
		_, err := s.Schedules.Create(t.Context(), s.DB, spec)
		s.must(err)
	}
	b := s.browser().login(story.ReadToken)
	for id, local := range map[string]bool{"here": true, "named": true, "utc": false} {
		body := b.get("/schedule?id="+id, http.StatusOK)
		if strings.Contains(body, "<th>In Asia/Tokyo</th>") != local || strings.Contains(body, "-07-01 09:30:00 JST") != local {
			t.Errorf("%s:\n%s", id, body)
		}
	}
}

func TestAnEntityThatIsNotFoundSuggestsTheKindsWithItsKey(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for kind, key := range map[string]string{"orders": "42", "invoice": "42", "parcel": "43"} {
		s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: kind, EntityKey: key}, s.Now().Add(2*time.Hour))
	}
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "gone", EntityKey: "42"}, s.Now().Add(2*time.Hour))
	_, err := s.Client.CancelEntity(t.Context(), jobs.OwnTx(s.DB), "gone", "42")
	s.must(err)
	page := s.browser().login(story.ReadToken).get("/entity?name=order&key=42", http.StatusOK)
	s.has(page, `<a href="/entity?key=42&amp;name=gone">gone 42</a>, <a href="/entity?key=42&amp;name=invoice">invoice 42</a>, `+
		`<a href="/entity?key=42&amp;name=orders">orders 42</a>.`)
}

func TestDeadLettersEventsAndActionsGoOnBehindTheirFirstPage(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.DB.MustExec(`insert into prescient.event_dead (consumer, id, source, type, dead_at)
		select 'desk', n::text, 's', 't', now() from generate_series(1, 51) as n;
		insert into prescient.event_outbox (id, source, type, data) select 'e' || n, 's', 't', '{}' from generate_series(1, 51) as n;
		insert into prescient.action (actor, what, target, plan, row_count, slots, schedules, events)
		select 'ann', 'cancel', 'order a' || n, 'Cancels it', 1, 0, 0, 0 from generate_series(1, 51) as n`)
	b := s.browser().login(story.ReadToken)
	for text, list := range map[string]struct{ path, last string }{
		"More dead letters": {"/events", ">51<"}, "Older events": {"/events", ">e1<"}, "Older actions": {"/actions", "order a1<"},
	} {
		first := b.get(list.path, http.StatusOK)
		next := regexp.MustCompile(`"([^"]+)">` + text).FindStringSubmatch(first)
		if next == nil || strings.Contains(first, list.last) {
			t.Errorf("%s: %v\n%s", text, next, first)
			continue
		}
		second := b.get(html.UnescapeString(next[1]), http.StatusOK)
		s.has(second, list.last)
		if strings.Contains(second, text) {
			t.Errorf("%s: the second page has the link to a third", text)
		}
	}
}

func TestThePageOfAnEntityShowsThePayloadAndTheAttemptsOfItsChecks(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	at := s.Now().Add(time.Hour)
	s.Enqueue(jobs.Request{
		JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: "7", Payload: json.RawMessage(`{"broken": true, "customer": 4711}`),
	}, at)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "8"}, at.Add(48*time.Hour))
	s.RunUntil(at.Add(6 * time.Hour))
	b := s.browser().login(story.ReadToken)
	page := text(b.get("/entity?name=invoice&key=7", http.StatusOK))
	s.has(page, "<summary>Payload</summary>", html.EscapeString(`{"broken": true, "customer": 4711}`), "<summary>Attempts that failed: ", "errors in a row")
	if attempts := regexp.MustCompile(`Attempts that failed: (\d+)`).FindStringSubmatch(page); attempts == nil ||
		fmt.Sprint(strings.Count(page, "<tr><td>")) != attempts[1] {
		t.Errorf("%v\n%s", attempts, page)
	}
	page = text(b.get("/entity?name=order&key=8", http.StatusOK))
	s.has(page, "checks 0 · errors in a row 0")
	if strings.Contains(page, "Attempts") || strings.Contains(page, "Payload") {
		t.Error(page)
	}
}

func TestThePageOfWhatHasEndedSaysHowFarBackItLooked(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec(`
		insert into prescient.future_job_history (
			id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at
		)
		select 1000000 + n, 'order.rare', 'order', n::text, at, at, 1, 0, '0', at, 'shop', 'failed', at
		from generate_series(1, 3) as n, lateral (select $1::timestamptz - interval '40 days' as at) as long_ago`, s.Now())
	s.must(err)
	b := s.browser().login(story.ReadToken)
	for _, path := range []string{"/ended", "/ended?job=order.rare", "/ended?outcome=failed"} {
		s.has(b.get(path, http.StatusOK), "This page looks back to <time", "<code>jobs history</code>")
	}
}
