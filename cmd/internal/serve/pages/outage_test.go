package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// Cron has died: the slot has begun, and no run comes.
func TestThePagesTellOfRowsThatNoRunComesFor(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	slot := s.Client.Grid().Next(s.Now())
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "late"}, slot)
	_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: "quarters", Crontab: "*/15 * * * *"})
	s.must(err)
	s.Clock.Set(slot.Add(6 * time.Minute))
	b := s.browser().login(story.ReadToken)
	now := b.get("/", http.StatusOK)
	s.has(now, "<h1>No run has begun</h1>", "began 6 min ago, and no run has opened it")
	if strings.Contains(now, `review.ask</a></th><td><span class="mark ok">well`) {
		t.Errorf("a job with overdue rows is well:\n%s", now)
	}
	job := b.get("/job?name=review.ask", http.StatusOK)
	s.has(job, "overdue</span>", "<h2>Overdue</h2>", "overdue: no runner works on")
	page := b.get("/schedule?id=quarters", http.StatusOK)
	s.has(page, "<h2>Overdue instants</h2>", "no run has published them")
	_, coming, _ := strings.Cut(page, "<h2>Coming instants</h2>")
	if overdue := slot.Format(time.RFC3339); strings.Contains(coming[:strings.Index(coming, "</table>")], overdue) {
		t.Errorf("the instant %s has passed, and is coming:\n%s", overdue, coming)
	}
	if figure := strings.Index(now, "<dt>Schedules</dt><dd>0<"); figure >= 0 {
		t.Errorf("no schedule has missed something:\n%s", now)
	}
}

// SQL does not read a crontab. The first check of the schedule does, in the next slot.
func TestThePageOfAScheduleThatHasNoInstantShowsItAndListsNone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec(`
		select prescient.set_schedule('unreadable', '61 * * * *'), prescient.set_schedule('over', '@hourly', ends_at => '2020-01-01'),
			prescient.set_schedule('bounded', '61 * * * *', max_runs => 3)`)
	s.must(err)
	b := s.browser().login(story.ReadToken)
	for _, id := range []string{"unreadable", "over", "bounded"} {
		page := b.get("/schedule?id="+id, http.StatusOK)
		s.has(page, "<h1>"+id+"</h1>", `<p class="none">None.</p>`)
		if strings.Contains(page, "Overdue") {
			t.Errorf("%s has an overdue instant:\n%s", id, page)
		}
	}
}

// Cron was dead for three slots. Catch-up has run two of them, and a run the last.
func TestAnOutageThatIsOverIsToldForADay(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(5)
	back := s.Client.Grid().Add(s.Client.Grid().Floor(s.Now()), -3)
	_, err := s.DB.Exec(`
		update prescient.slot_run set opened_at = $1::timestamptz + interval '2 minutes', kind = case when slot < $1 then 'catch_up' else kind end
		where slot between $1::timestamptz - interval '30 minutes' and $1`, back)
	s.must(err)
	s.has(s.browser().login(story.ReadToken).get("/", http.StatusOK), `<dt>Opened late</dt>`, `>3</span>`, "slots in 24 hours, by up to 32m; 2 by catch-up")
}

func TestThePageSaysWhyTheStateCannotBeRead(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec("drop schema prescient cascade")
	s.must(err)
	b := s.browser()
	page := b.post("/login", "/login", url.Values{"token": {story.ReadToken}}, http.StatusServiceUnavailable)
	s.has(page, "The database has no tables of prescient", "migrate up")
	if strings.Contains(page, "does not answer") {
		t.Errorf("the database answers:\n%s", page)
	}
}

// As if the password of its login had been changed since: the server's answer to a new connection has this state.
func TestThePageSaysWhatToLookAtIfItsOwnLogInIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	_, err := s.DB.Exec(`
		create function refuse() returns boolean language plpgsql as $$
		begin raise exception 'password authentication failed' using errcode = '28P01'; end $$;
		alter table prescient.setting rename to hidden;
		create view prescient.setting as select * from prescient.hidden where refuse()`)
	s.must(err)
	page := s.browser().post("/login", "/login", url.Values{"token": {story.ReadToken}}, http.StatusServiceUnavailable)
	s.has(page, "The database refuses the log-in of this server", "or PGPASSWORD or ~/.pgpass if it has no password")
}

// The server's own limit of time ends a read.
func TestAPageThatTakesTheDatabaseTooLongAsksForLess(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.ReadToken)
	_, err := s.DB.Exec(`
		create or replace function prescient.jobs_in_slot(at timestamptz) returns setof bigint language plpgsql as $$ begin raise query_canceled; end $$`)
	s.must(err)
	page := b.get("/slot?at="+s.Client.Grid().Next(s.Now()).Format(time.RFC3339), http.StatusServiceUnavailable)
	s.has(page, "ask for less, such as one job, or a shorter time")
	if strings.Contains(page, "does not answer") {
		t.Errorf("the database answers:\n%s", page)
	}
}

func TestAnInstantIsThatOfTheCommandsWithItsDistanceBeside(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	slot := s.Client.Grid().Next(s.Now())
	s.Clock.Set(slot.Add(30*time.Minute + 6*time.Minute)) // two slots are missed
	b := s.browser().login(story.ReadToken)
	at := s.Client.Grid().Floor(s.Now()).Format(time.RFC3339)
	s.has(b.get("/slot?at="+at, http.StatusOK), "<h1>Slot <time datetime=\""+at+"\">"+at+"</time></h1>", "<title>(1) Slot "+at, `id="clock"`)
	s.has(b.get("/schedule?id=stock-feed", http.StatusOK), `</time> <small class="ago">`, " min ago</small>")
}

func TestTheAlertsTellAFindingAsWholeAsTheFirstPage(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	finding := "3 of 3 checks of order.unpaid failed: " + strings.Repeat("the error of one of them ", 20) + "see to it"
	s.DB.MustExec(`insert into prescient.alert (finding, text, since, told_at) values ('failing/order.unpaid', $1, now(), now())`, finding)
	s.has(s.browser().login(story.ReadToken).get("/alerts", http.StatusOK), finding)
}
