package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// aDay lets a day pass with checks that succeed and fail, a missed slot, a paused job and a
// schedule.
func (w *world) aDay() (noon time.Time) {
	w.t.Helper()
	noon = w.Now().Add(3 * time.Hour)
	w.enqueue("ok", noon, "1", "2", "3")
	w.enqueue("fail", noon, "4")
	w.enqueue("ok", noon.Add(15*time.Minute), "5") // will be missed
	w.enqueue("ok", noon.Add(2*time.Hour), "6")
	w.enqueue("elsewhere", noon.Add(24*time.Hour), "7")
	_, err := w.schedules.Create(w.t.Context(), w.DB, schedule.Spec{ID: "report", Crontab: "0 * * * *"})
	w.must(err)
	w.RunUntil(noon)
	w.Clock.Set(noon.Add(31 * time.Minute))
	return noon
}

// listsStores looks at the list of a server of several, of which one is down.
func (w *world) listsStores() {
	w.t.Helper()
	one := w.handler
	defer func() { w.handler = one }()
	var stores board.Stores
	stores.SetUp("shop", w.board, nil)
	stores.SetDown("billing", errors.New("connection refused"))
	keys, err := web.NewNamedKeys([]string{operator}, nil)
	w.must(err)
	w.handler = NewStores(Config{Stores: &stores, Access: web.NewAccess(keys, nil, nil)})
	list := get[board.StoreList](w, "/stores").Stores
	if len(list) != 2 || list[0].Error != "connection refused" || list[1].Name != "shop" || list[1].OK ||
		list[1].Missed != 1 || list[1].Next == nil {
		w.t.Errorf("%+v", list)
	}
}

func TestEveryOperationAnswersAsTheDocumentHasIt(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers do not follow the clock of a kit")
	w := setup(t)
	noon := w.aDay()
	w.seen = map[string]bool{}
	w.must(w.board.Expect(t.Context()))
	o := get[board.Overview](w, "/overview")
	if len(o.Missed) != 1 || !o.Missed[0].Slot.Equal(noon.Add(15*time.Minute)) || o.OK {
		t.Errorf("missed %+v, ok %t", o.Missed, o.OK)
	}
	states := map[slots.State]int{}
	for _, c := range o.Axis {
		states[c.State]++
	}
	if want := map[slots.State]int{slots.StateDone: 13, slots.StateMissed: 1, view.StateDue: 1, view.StateAhead: 95, view.StateNoLedger: 82}; !cmp.Equal(states, want) {
		t.Errorf("the axis has %v, want %v", states, want)
	}
	if c := o.Axis[96+6]; c.Forecast == nil || c.Forecast.Rows != 2 || !c.Slot.Equal(noon.Add(2*time.Hour)) { // and a schedule
		t.Errorf("nothing is expected: %+v", c)
	}
	s := get[board.Slot](w, "/slots/"+noon.Format(time.RFC3339))
	if s.Checked != 5 || s.Failed != 1 || len(s.Jobs) != 3 || !s.Next.Equal(noon.Add(15*time.Minute)) { // one is that of the schedule
		t.Errorf("%+v", s)
	}
	if s = get[board.Slot](w, "/slots/"+noon.Add(15*time.Minute).Format(time.RFC3339)); s.State != slots.StateMissed || len(s.Waiting) != 1 {
		t.Errorf("%+v", s)
	}
	l := get[board.Ledger](w, "/ledger?days=2")
	if len(l.Days) != 2 || len(l.Days[0].Cells) != 96 || l.Days[0].Day != noon.Format(time.DateOnly) ||
		l.Days[0].Cells[noon.Hour()*4].Checked != 5 {
		t.Errorf("%+v", l.Days)
	}
	list := get[board.Jobs](w, "/jobs")
	names := []string{}
	for _, j := range list.Jobs {
		names = append(names, j.JobExec)
	}
	if want := []string{"elsewhere", "ok", "fail", "schedule"}; !cmp.Equal(names, want) {
		t.Errorf("jobs %v, want %v", names, want)
	}
	j := get[board.Job](w, "/jobs/fail")
	if len(j.Errors) != 1 || j.Errors[0].Error != "the warehouse does not answer" ||
		len(j.Days) != 1 || j.Days[0].Failed != 1 {
		t.Errorf("%+v", j)
	}
	if a := get[board.JobAdvice](w, "/jobs/ok/advice"); a.JobExec != "ok" || a.Read == 0 || len(a.Advice) != 1 ||
		!strings.Contains(a.Advice[0], "too little to go by") {
		t.Errorf("advice: %+v", a)
	}
	if j = get[board.Job](w, "/jobs/ok"); len(j.Ahead) != 1 || j.Ahead[0].Rows != 1 || !j.Registered {
		t.Errorf("%+v", j)
	}
	e := get[board.Entity](w, "/entity?entity_name=order&entity_key=4")
	if len(e.Timeline) != 2 || !strings.Contains(e.Timeline[1].Text, "ended as failed") {
		t.Errorf("%+v", e)
	}
	if c := get[board.Waiting](w, "/checks?job_exec=ok"); len(c.Checks) != 2 || c.Checks[0].EntityKey != "5" {
		t.Errorf("%+v", c)
	}
	if h := get[board.History](w, "/history?entity_name=order&entity_key=1"); len(h.Checks) != 1 ||
		h.Checks[0].Outcome != jobs.OutcomeDone {
		t.Errorf("%+v", h)
	}
	until := url.QueryEscape(w.Now().Add(time.Minute).Format(time.RFC3339))
	if h := get[board.History](w, "/history?outcome=failed&until="+until); len(h.Checks) != 1 ||
		h.Checks[0].EntityKey != "4" {
		t.Errorf("%+v", h)
	}
	if s := get[board.Schedules](w, "/schedules?prefix=rep"); len(s.Schedules) != 1 || s.After != nil {
		t.Errorf("%+v", s)
	}
	if s := get[board.Schedule](w, "/schedules/report"); len(s.Coming) != 20 ||
		!s.Coming[0].Instant.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", s)
	}
	if e := get[board.Events](w, "/events"); len(e.Events) != 3 || e.Events[0].Subject != "report" {
		t.Errorf("%+v", e)
	}
	if a := get[board.Alerts](w, "/alerts"); len(a.Alerts) != 0 {
		t.Errorf("%+v", a)
	}
	if a := get[board.Actions](w, "/actions"); len(a.Actions) != 0 {
		t.Errorf("%+v", a)
	}
	if d := get[board.DeadLetters](w, "/dead-letters"); len(d.DeadLetters) != 0 || d.After != nil {
		t.Errorf("%+v", d)
	}
	w.appliesARule()
	if list := get[board.Rules](w, "/rules"); len(list.Rules) != 1 {
		t.Errorf("%+v", list)
	}
	if v := get[board.Rule](w, "/rules/order.late"); v.Summary.Waiting != 3 {
		t.Errorf("%+v", v)
	}
	get[map[string]any](w, "/crontab-preview?crontab=@daily&from=2100-01-01T00:00:00Z&to=2100-01-02T00:00:00Z")
	get[map[string]any](w, "/openapi.json")
	w.listsStores()
	w.do("cancel", `{"entity_name": "order", "entity_key": "6"}`)
	d, err := described()
	w.must(err)
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if method == http.MethodGet && !w.seen[op.OperationID+" OK"] {
				t.Errorf("nobody has called %s %s", method, path)
			}
		}
	}
}

func TestAnActionDoesWhatItsPreviewHasSaidAndIsRecorded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	noon := w.aDay()
	at := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339) }
	var many []jobs.Request
	for n := range 2002 {
		many = append(many, jobs.Request{
			JobExec: "many", EntityName: "order", EntityKey: fmt.Sprint("m", n), CheckAt: noon.Add(48 * time.Hour),
			Payload: fmt.Appendf(nil, `{"merchant": %d}`, 42+n/2000),
		})
	}
	_, err := w.Client.EnqueueMany(t.Context(), jobs.OwnTx(w.DB), many)
	w.must(err)
	_, err = w.DB.ExecContext(t.Context(), `
		insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		values ('desk', 'a1', 's', 't', 'a', 3, '422', now()), ('desk', 'a2', 's', 't', 'a', 0, null, now()), ('desk', 'b1', 's', 't', 'b', 1, '413', now())`)
	w.must(err)
	if dead := get[board.DeadLetters](w, "/dead-letters").DeadLetters; len(dead) != 3 || dead[0].ID != "a1" || dead[0].Error != "422" {
		t.Errorf("%+v", dead)
	}
	count := 0
	for _, test := range []struct {
		name, body, plan, result string
		counts                   action.Counts
	}{
		{
			"cancel", `{"entity_name": "order", "entity_key": "6", "job_exec": "ok"}`,
			"Cancels 1 waiting check of ok on order 6: ok in slot " + at(2*time.Hour),
			"1 check was cancelled",
			action.Counts{Rows: 1},
		},
		{
			"cancel-many", `{"job_exec": "many", "entity_name": "order", "entity_key": "m*", "payload": {"merchant": 42}, "limit": 1500}`,
			`Cancels the 1500 earliest of 2000 waiting checks of job many of entity order with key m* with payload {"merchant": 42}`,
			"1500 checks were cancelled",
			action.Counts{Rows: 1500},
		},
		{
			"cancel-many", `{"payload": {"merchant": 42}}`, `Cancels 500 waiting checks with payload {"merchant": 42}`, "500 checks were cancelled",
			action.Counts{Rows: 500},
		},
		{
			"reschedule", `{"job_exec": "elsewhere", "entity_name": "order", "entity_key": "7", "at": "` +
				at(50*time.Hour) + `"}`,
			"Moves the check elsewhere on order 7 from slot " + at(24*time.Hour) + " to slot " + at(50*time.Hour),
			"it waits for slot " + at(50*time.Hour),
			action.Counts{Rows: 1},
		},
		{"retry", `{"job_exec": "fail"}`, "Puts 1 failed check of job fail back into slot " + at(45*time.Minute) +
			", with a clean error count", "1 check was put back", action.Counts{Rows: 1}},
		{"pause-job", `{"job_exec": "fail"}`, "Pauses fail: 1 row waits in 1 of the next 96 slots", "fail is paused", action.Counts{}},
		{"resume-job", `{"job_exec": "fail"}`, "Ends the pause of fail", "fail is resumed", action.Counts{}},
		{"pause-schedule", `{"id": "report"}`, "Pauses schedule report, which publishes nothing until it is resumed; its next instant would have been " + at(time.Hour), "schedule report is paused", action.Counts{Schedules: 1}},
		{"resume-schedule", `{"id": "report"}`, "Ends the pause of schedule report; its next instant is " +
			at(time.Hour), "schedule report is resumed, and waits for " + at(time.Hour), action.Counts{Schedules: 1}},
		{"trigger-schedule", `{"id": "report"}`, "Publishes an event of schedule report now; its next instant is unchanged", "published report-trigger-", action.Counts{Schedules: 1, Events: 1}},
		{
			"backfill-schedule", `{"id": "report", "from": "` + at(-10*time.Hour) + `", "to": "` + at(0) + `"}`,
			"Publishes 10 events of schedule report from " + at(-10*time.Hour) + " until " + at(0),
			"8 events were published until " + at(0) + ", and 2 were in the outbox already",
			action.Counts{Schedules: 1, Events: 10},
		},
		{
			"resend-events", `{"subject": "a"}`, "Sends 2 dead letters of subject a again",
			"2 events are sent again",
			action.Counts{Events: 2},
		},
		{"discard-events", `{}`, "Deletes 1 dead letter", "1 dead letter was deleted", action.Counts{Events: 1}},
		{
			"catch-up", `{"mode": "run"}`, "Checks each row, or defers or skips it, by the misfire policy of its job: 1 row in 1 slot",
			"1 slot was worked on; of 1 row 0 moved and 0 failed",
			action.Counts{Rows: 1, Slots: 1},
		},
	} {
		plan := w.preview(test.name, test.body)
		if plan.Text != test.plan || plan.Counts != test.counts || plan.Nothing {
			t.Errorf("%s: %+v, want %q", test.name, plan, test.plan)
		}
		done := w.do(test.name, test.body)
		if done.Outcome != board.Succeeded || !strings.HasPrefix(done.Result, test.result) {
			t.Errorf("%s: %+v, want %q", test.name, done, test.result)
		}
		all := get[board.Actions](w, "/actions?limit=1&acted=9223372036854775807")
		if count++; (all.After != nil) != (count > 1) {
			t.Errorf("after %d actions: after is %v", count, all.After)
		}
		got := all.Actions
		if len(got) != 1 || got[0].ID != done.ID || got[0].Actor != "ops from 192.0.2.1" || got[0].ByRole == "" ||
			got[0].FinishedAt == nil || got[0].Text != test.plan {
			t.Errorf("%s is not recorded: %+v", test.name, got)
		}
	}
	e := get[board.Entity](w, "/entity?entity_name=order&entity_key=7")
	if !slices.ContainsFunc(e.Timeline, func(s board.Sentence) bool {
		return s.What == "rescheduled" && s.Actor == "ops from 192.0.2.1"
	}) {
		t.Errorf("the timeline does not tell who moved it: %+v", e.Timeline)
	}
	e = get[board.Entity](w, "/entity?entity_name=order&entity_key=m7")
	if !slices.ContainsFunc(e.Timeline, func(s board.Sentence) bool {
		return s.What == "cancelled" && (s.Actor == "ops from 192.0.2.1" || pgtest.OnCitus()) // see docs/citus.md
	}) {
		t.Errorf("the timeline does not tell who cancelled it: %+v", e.Timeline)
	}
	if left, _, err := admin.New(w.Client).ListPage(t.Context(), w.DB,
		admin.Filter{JobExec: "many", Limit: 10}); err != nil || len(left) != 2 {
		t.Errorf("%d are left of another merchant, %v", len(left), err)
	}
	if s, err := w.Ledger.Status(t.Context(), time.Time{}); err != nil || !s.OK() {
		t.Errorf("%+v, %v", s.Trouble, err)
	}
}

// The server may refuse a commit because of another transaction. Its changes are then made again.
func TestManyChecksAreCancelledThoughACommitIsRefused(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	w := setup(t)
	var many []jobs.Request
	for n := range 1500 {
		many = append(many, jobs.Request{
			JobExec: "many", EntityName: "order", EntityKey: fmt.Sprint(n), CheckAt: w.Clock.Now().Add(48 * time.Hour),
		})
	}
	_, err := w.Client.EnqueueMany(t.Context(), jobs.OwnTx(w.DB), many)
	w.must(err)
	_, err = w.DB.ExecContext(t.Context(), `
		create sequence public.commits;
		create function public.refuse_first() returns trigger language plpgsql as $$
		begin
			if nextval('public.commits') = 1 then
				raise 'could not serialize access' using errcode = 'serialization_failure';
			end if;
			return null;
		end $$;
		create constraint trigger refuse_first after insert on prescient.future_job_history
		deferrable initially deferred for each row execute function public.refuse_first()`)
	w.must(err)
	if done := w.do("cancel-many", `{"job_exec": "many"}`); done.Result != "1500 checks were cancelled" {
		t.Errorf("%+v", done)
	}
}

func TestTheChecksOfSchedulesAreChangedByTheirSchedules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.schedules.Create(t.Context(), w.DB, schedule.Spec{ID: "report", Crontab: "@daily"})
	w.must(err)
	const change, retry = "schedules delete report", "schedules resume "
	const enqueued = "schedules delete report. Give the job of a check that a schedule has enqueued: shop jobs cancel JOB --entity schedule --key report"
	for _, test := range []struct{ action, body, remedy string }{
		{"cancel", `{"job_exec": "schedule", "entity_name": "schedule", "entity_key": "report"}`, change},
		{"cancel", `{"entity_name": "schedule", "entity_key": "report"}`, enqueued},
		{"reschedule", `{"job_exec": "schedule", "entity_name": "schedule", "entity_key": "report", "at": "2040-01-01T00:00:00Z"}`, change},
		{"cancel-many", `{"job_exec": "schedule"}`, change[:len("schedules delete ")] + "ID"},
		{"cancel-many", `{"entity_name": "schedule", "entity_key": "report"}`, enqueued},
		{"cancel-many", `{}`, "job_exec: or another field must say which checks"},
		{"cancel-many", `{"payload": [42]}`, "payload: must be a JSON object"},
		{"cancel-many", `{"group_key": "g", "limit": -1}`, "limit: must be at least 0"},
		{"retry", `{"job_exec": "schedule"}`, retry + "ID"},
		{"retry", `{"entity_name": "schedule", "entity_key": "report"}`, retry + "report"},
	} {
		answer := w.post(test.action, "preview=true", test.body)
		if answer.Code != http.StatusUnprocessableEntity || !strings.Contains(answer.Body.String(), test.remedy) {
			t.Errorf("%s %s: %d %s, want %q", test.action, test.body, answer.Code, answer.Body, test.remedy)
		}
	}
	// An application may have an entity of that name. The count is of what is cancelled.
	_, err = w.Client.Enqueue(t.Context(), jobs.OwnTx(w.DB), jobs.Request{
		JobExec: "ok", EntityName: "schedule", EntityKey: "report", CheckAt: w.Now().Add(time.Hour),
	})
	w.must(err)
	done := w.do("cancel", `{"entity_name": "schedule", "entity_key": "report"}`)
	if done.Rows != 1 || done.Result != "1 check was cancelled" {
		t.Errorf("%+v", done)
	}
	if s := get[board.Schedule](w, "/schedules/report"); s.State != schedule.Active {
		t.Errorf("the schedule is %s", s.State)
	}
}

// The preview says what the backfill itself would say.
func TestABackfillOfAScheduleWithoutEventsIsRefusedInItsPreview(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for id, act := range map[string]schedule.Act{
		"purge": {SQL: "select 1"}, "reorder": {Job: "stock.check"}, "standup": {Notify: "ops"},
	} {
		_, err := w.schedules.Create(t.Context(), w.DB, schedule.Spec{ID: id, Crontab: "@hourly", Act: act})
		w.must(err)
		from, to := w.Now().Add(-3*time.Hour), w.Now().Add(-time.Hour)
		_, err = w.schedules.Backfill(t.Context(), w.DB, &schedule.PublishConfig{}, id, from, to)
		refusal, is := errors.AsType[*jobs.FieldError](err)
		if !is {
			t.Fatalf("%s: a backfill: %v", id, err)
		}
		body := fmt.Sprintf(`{"id": %q, "from": %q, "to": %q}`, id, from.Format(time.RFC3339), to.Format(time.RFC3339))
		for _, query := range []string{"preview=true", "confirm=5f0e"} {
			answer := w.post("backfill-schedule", query, body)
			if answer.Code != http.StatusUnprocessableEntity || !strings.Contains(answer.Body.String(), refusal.Error()) {
				t.Errorf("%s, %s: %d %s, want %q", id, query, answer.Code, answer.Body, refusal)
			}
		}
	}
}

func TestAScheduleShowsWhetherAndHowOftenItPublishes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.schedules.Create(t.Context(), w.DB, schedule.Spec{ID: "report", Crontab: "@hourly", MaxRuns: 3})
	w.must(err)
	if s := get[board.Schedule](w, "/schedules/report"); len(s.Coming) != 3 || s.PublishingPausedAt != nil {
		t.Errorf("coming: %v, paused: %v", s.Coming, s.PublishingPausedAt)
	}
	done := w.do("pause-job", `{"job_exec": "schedule"}`)
	acted := fmt.Sprintf("acted=%d", done.Acted)
	if s := get[board.Schedule](w, "/schedules/report?"+acted); s.State != schedule.Active ||
		s.PublishingPausedAt == nil {
		t.Errorf("%s, publishing is paused since %v", s.State, s.PublishingPausedAt)
	}
	if list := get[board.Schedules](w, "/schedules?"+acted).Schedules; len(list) != 1 ||
		list[0].PublishingPausedAt == nil {
		t.Errorf("%+v", list)
	}
}

func TestNothingIsDoneThatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	noon := w.aDay()
	const body = `{"entity_name": "order", "entity_key": "6"}`
	plan := w.preview("cancel", body)
	w.enqueue("elsewhere", noon.Add(4*time.Hour), "6") // meanwhile
	answer := w.post("cancel", "confirm="+plan.Confirm, body)
	var now changed
	w.must(json.Unmarshal(answer.Body.Bytes(), &now))
	if answer.Code != http.StatusConflict || now.Plan == nil || now.Plan.Rows != 2 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	other := `{"entity_name": "order", "entity_key": "7"}` // the confirm of another
	if answer := w.post("cancel", "confirm="+now.Plan.Confirm, other); answer.Code != http.StatusConflict {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if left, err := admin.New(w.Client).Show(t.Context(), w.DB, "order", "6"); err != nil || len(left) != 2 {
		t.Errorf("%d left, %v", len(left), err)
	}
	if got := get[board.Actions](w, "/actions").Actions; len(got) != 0 {
		t.Errorf("recorded: %+v", got)
	}
	if answer := w.post("cancel", "confirm="+now.Plan.Confirm, body); answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if answer := w.post("cancel", "confirm="+now.Plan.Confirm, body); answer.Code != http.StatusConflict { // once more
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if plan := w.preview("cancel", body); !plan.Nothing {
		t.Errorf("%+v", plan)
	} else if answer := w.post("cancel", "confirm="+plan.Confirm, body); answer.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestWhoActsSeesItAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.aDay()
	before := get[board.Job](w, "/jobs/ok")
	done := w.do("pause-job", `{"job_exec": "ok"}`)
	if done.Acted == 0 || before.Paused != nil {
		t.Fatalf("%+v, %+v", done, before.Paused)
	}
	if j := get[board.Job](w, "/jobs/ok?acted=1"); j.Paused == nil {
		t.Error("the pause is not seen by who has made it")
	}
}

func TestMistakesAreProblems(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.aDay()
	for _, test := range []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/nowhere", "", 404},
		{"GET", "/jobs/nobody", "", 404},
		{"GET", "/jobs/nobody/advice", "", 404},
		{"GET", "/schedules/nobody", "", 404},
		{"DELETE", "/overview", "", 405},
		{"POST", "/overview", "", 405},
		{"GET", "/overview?unknown=1", "", 400},
		{"GET", "/overview?acted=-1", "", 400},
		{"GET", "/overview?acted=1&acted=2", "", 400},
		{"GET", "/overview?%zz", "", 400},
		{"GET", "/slots/yesterday", "", 400},
		{"GET", "/slots/2100-01-04T09:07:00Z", "", 422},
		{"GET", "/ledger?days=0", "", 400},
		{"GET", "/ledger?days=32", "", 400},
		{"GET", "/entity", "", 422},
		{"GET", "/entity?entity_name=order&entity_key=%00", "", 422},
		{"GET", "/entity?entity_name=order&entity_key=%ff", "", 422},
		{"GET", "/jobs/%00", "", 422},
		{"GET", "/jobs/" + strings.Repeat("x", 501), "", 422},
		{"GET", "/schedules/%ff", "", 422},
		{"GET", "/schedules?limit=201", "", 400},
		{"GET", "/schedules?after=%00", "", 422},
		{"GET", "/checks?from=now", "", 400},
		{"GET", "/history?limit=x", "", 400},
		{"GET", "/history?job_exec=%00", "", 422},
		{"GET", "/history?outcome=lost", "", 422},
		{"GET", "/schedules?state=lost", "", 422},
		{"GET", "/events?after=7", "", 400},
		{"GET", "/dead-letters?after=-1", "", 400},
		{"GET", "/actions?after=x", "", 400},
		{"GET", "/jobs?after=ok", "", 400},
		{"GET", "/jobs?after=-1_ok", "", 400},
		{"GET", "/jobs?after=1_%00", "", 400},
		{"GET", "/jobs?search=%00", "", 422},
		{"GET", "/slots/9999-12-31T23:45:00Z", "", 422},
		{"GET", "/slots/0000-01-01T00:00:00Z", "", 422},
		{"GET", "/history?until=0000-01-01T00:00:00Z", "", 422},
		{"GET", "/checks?from=0000-01-01T00:00:00Z", "", 422},
		{"POST", "/actions/cancel", `{}`, 428},
		{"POST", "/actions/cancel?preview=yes", `{}`, 428},
		{"POST", "/actions/cancel?preview=true&confirm=x", `{}`, 428},
		{"POST", "/actions/cancel?preview=true", `{`, 400},
		{"POST", "/actions/cancel?preview=true", `{"entity": "order"}`, 400},
		{"POST", "/actions/cancel?preview=true", `{} {}`, 400},
		{"POST", "/actions/cancel?preview=true", `{"entity_name": 7}`, 400},
		{"POST", "/actions/cancel?preview=true", `{"entity_name": "` + strings.Repeat("x", 64<<10) + `"}`, 413},
		{"POST", "/actions/cancel?preview=true", `{"entity_name": "order", "entity_key": "\u0000"}`, 422},
		{"POST", "/actions/cancel?preview=true", `{"entity_name": "order", "entity_key": "1", "item_key": "x"}`, 422},
		{"POST", "/actions/reschedule?preview=true", `{"entity_name": "order", "entity_key": "1"}`, 422},
		{"POST", "/actions/reschedule?preview=true", `{"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "2100-01-05T00:00:00Z"}`, 422},
		{"POST", "/actions/reschedule?preview=true", `{"job_exec": "ok", "entity_name": "order", "entity_key": "6", "at": "9999-12-31T23:59:59Z"}`, 422},
		{"POST", "/actions/retry?preview=true", `{"limit": 100001}`, 422},
		{"POST", "/actions/retry?preview=true", `{"at": "9999-12-31T23:59:59-14:00"}`, 422},
		{"POST", "/actions/retry?preview=true", `{"job_exec": "\u0000"}`, 422},
		{"POST", "/actions/pause-job?preview=true", `{"job_exec": "nobody"}`, 422},
		{"POST", "/actions/pause-job?preview=true", `{"job_exec": ""}`, 422},
		{"POST", "/actions/catch-up?preview=true", `{"mode": "guess"}`, 422},
		{"POST", "/actions/catch-up?preview=true", `{"mode": "run", "limit": -1}`, 422},
		{"POST", "/actions/catch-up?preview=true", `{"mode": "run", "job": "nobody knows it"}`, 422},
		{"POST", "/actions/catch-up?preview=true", `{"mode": "run", "spread": 3}`, 422},
		{"POST", "/actions/catch-up?preview=true", `{"mode": "defer", "spread": 100001}`, 422},
		{"POST", "/actions/retry?preview=true", `{"job_exec": "fail", "item_key": "\u0000"}`, 422},
		{"POST", "/actions/pause-schedule?preview=true", `{"id": "report", "version": 7}`, 422},
		{"POST", "/actions/trigger-schedule?preview=true", `{"id": "nobody"}`, 404},
		{"POST", "/actions/backfill-schedule?preview=true", `{"id": "report"}`, 422},
		{"POST", "/actions/backfill-schedule?preview=true", `{"id": "report", "from": "1980-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}`, 422},
		{"POST", "/actions/pause-schedule?preview=true", `{"id": "\u0000"}`, 422},
		{"POST", "/actions/cancel?confirm=%00", `{"entity_name": "order", "entity_key": "6"}`, 409},
	} {
		answer := w.send(test.method, Prefix+test.target, strings.NewReader(test.body))
		if answer.Code != test.status {
			t.Errorf("%s %s %.60s: %d %s, want %d", test.method, test.target, test.body, answer.Code,
				answer.Body, test.status)
		}
	}
	if answer := w.send("POST", Prefix+"/actions/cancel?preview=true", strings.NewReader(`{}`), "Content-Type",
		"text/plain"); answer.Code != http.StatusUnsupportedMediaType {
		t.Errorf("%d", answer.Code)
	}
	if answer := w.send("POST", Prefix+"/actions/cancel?preview=true",
		iotest.ErrReader(os.ErrDeadlineExceeded)); answer.Code != http.StatusRequestTimeout {
		t.Errorf("%d", answer.Code)
	}
	if got := get[board.Actions](w, "/actions").Actions; len(got) != 0 {
		t.Errorf("recorded: %+v", got)
	}
}

// The same paths, types and errors as package httpapi has.
func TestSchedulesAreWrittenAndReadAtOnePath(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, step := range []struct {
		method, target, body string
		status               int
		header, value        string
		want                 string
	}{
		{"POST", "/schedules", `{"id": "feed", "crontab": "@daily"}`, 201, "Location", Prefix + "/schedules/feed", `"version":1`},
		{"POST", "/schedules", `{"id": "feed", "crontab": "@daily"}`, 409, "", "", "feed"},
		{"POST", "/schedules", `{"id": "news", "cron": "@daily"}`, 400, "", "", `unknown field \"cron\"`},
		{"POST", "/schedules", `{"id": "news", "crontab": "often"}`, 422, "", "", `"field":"crontab"`},
		{"GET", "/schedules/feed", "", 200, "ETag", `"1"`, `"coming":[{"instant":"2100-01-05T00:00:00Z"`},
		{"PATCH", "/schedules/feed", `{"crontab": "@hourly"}`, 200, "ETag", `"2"`, `"crontab":"@hourly"`},
		{"GET", "/schedules?acted=7", "", 200, "", "", `"crontab":"@hourly"`}, // it does not show what was read before
		{"GET", "/schedules/nobody", "", 404, "", "", "no such schedule"},
		{"POST", "/schedules/feed/pause", "", 200, "ETag", `"3"`, `"paused_by":"ops from 192.0.2.1"`},
		{"POST", "/schedules/feed/resume", "", 200, "ETag", `"4"`, `"state":"active"`},
		{"POST", "/schedule-changes", `{"changes": [{"action": "delete", "schedule": {"id": "feed"}}]}`, 200, "", "", `"done":1`},
		{"DELETE", "/schedules/feed", "", 404, "", "", "no such schedule"},
	} {
		answer := w.send(step.method, Prefix+step.target, strings.NewReader(step.body), "Content-Type", "application/json")
		if answer.Code != step.status || answer.Header().Get(step.header) != step.value || !strings.Contains(answer.Body.String(), step.want) {
			t.Errorf("%s %s: %d %v %s, want %d, %s", step.method, step.target, answer.Code, answer.Header(), answer.Body, step.status, step.want)
		}
	}
	for token, want := range map[string]int{reader: http.StatusForbidden, "": http.StatusUnauthorized} {
		w.token = token
		if answer := w.send("DELETE", Prefix+"/schedules/feed", nil); answer.Code != want {
			t.Errorf("with the token %q: %d %s", token, answer.Code, answer.Body)
		}
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.aDay()
	const cancel = `{"entity_name": "order", "entity_key": "6"}`
	want := func(status int, method, target, token string) {
		t.Helper()
		w.token = token
		if answer := w.send(method, Prefix+target, strings.NewReader(cancel)); answer.Code != status {
			t.Errorf("%s %s with %q: %d %s, want %d", method, target, token, answer.Code, answer.Body, status)
		}
	}
	want(200, "GET", "/jobs", reader)
	want(403, "POST", "/actions/cancel?preview=true", reader)
	want(403, "POST", "/actions/cancel?confirm=x", reader)
	want(401, "GET", "/jobs", "")
	want(401, "GET", "/nowhere", "")
	want(401, "POST", "/actions/cancel?preview=true", "")
	for range 3 {
		want(401, "GET", "/jobs", "not a token of ours")
	}
	want(200, "GET", "/jobs", operator)
	for range 2 {
		want(401, "GET", "/jobs", "not a token of ours")
	}
	want(429, "GET", "/jobs", "not a token of ours")
	want(429, "GET", "/jobs", operator) // from the same address

	w.serve(w.board, func(c *Config) { c.OpenReading = true })
	want(200, "GET", "/jobs", "")
	want(403, "POST", "/actions/cancel?preview=true", "")
	if answer := w.send("POST", Prefix+"/actions/cancel?preview=true",
		strings.NewReader(cancel)); !strings.Contains(answer.Body.String(), "needs the token of an operator") {
		t.Errorf("%s does not say what is needed by who has sent no token", answer.Body)
	}
	want(401, "GET", "/jobs", "not a token of ours")
	if left, err := admin.New(w.Client).Show(t.Context(), w.DB, "order", "6"); err != nil || len(left) != 1 {
		t.Errorf("%d left, %v", len(left), err)
	}
	if strings.Contains(w.log.String(), "not a token") || strings.Contains(w.log.String(), operator) {
		t.Errorf("a token is in the log:\n%s", w.log)
	}
}

// A server whose database role may only read shows everything, and refuses to act.
func TestAServerThatMayOnlyReadDoesNotAct(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	w := setup(t)
	w.aDay()
	const schema = "prescient"
	pgtest.DropRoles(t, w.DB, schema+"_")
	w.must(pgsql.MakeRoles(t.Context(), w.DB, schema))
	db, err := pgsql.Open(t.Context(), w.URL, pgsql.Param("role", schema+"_reader"))
	w.must(err)
	t.Cleanup(func() { _ = db.Close() })
	b, err := board.New(t.Context(), board.Config{
		DB: db, Runner: slots.Config{Registry: jobs.NewRegistry()},
		Publishing: &schedule.PublishConfig{Publisher: outbox.New(db, schema), Schema: schema}, Now: w.Clock.Now,
	})
	w.must(err)
	t.Cleanup(b.Close)
	w.serve(b)
	for _, target := range []string{
		"/overview", "/slots/2100-01-04T12:00:00Z", "/ledger", "/jobs", "/jobs/ok",
		"/entity?entity_name=order&entity_key=1", "/checks", "/history",
		"/schedules", "/schedules/report", "/events", "/alerts", "/actions",
	} {
		get[map[string]any](w, target)
	}
	w.must(b.Expect(t.Context()))
	for name, body := range map[string]string{
		"cancel": `{"entity_name": "order", "entity_key": "6"}`, "pause-job": `{"job_exec": "ok"}`,
		"pause-schedule": `{"id": "report"}`, "trigger-schedule": `{"id": "report"}`,
	} {
		plan := w.preview(name, body)
		answer := w.post(name, "confirm="+plan.Confirm, body)
		if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "role") {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
		}
	}
}

// A plan of catch-up needs a second connection while it has one.
func TestManyPreviewsAtOnceDoNotWaitForEachOthersConnections(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.aDay()
	w.DB.SetMaxOpenConns(slots.OwnConnections + 1) // as few as there may be
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var previews sync.WaitGroup
	for range 20 {
		previews.Go(func() {
			if _, err := w.board.Preview(ctx, web.Who{Name: "ops", MayChange: true},
				action.CatchUp{Mode: slots.ModeRun}); err != nil {
				t.Error(err)
			}
		})
	}
	previews.Wait()
}

// An entity may have more items than a page has rows.
func TestTheChecksOfAnItemAreFoundHoweverManyOthersTheEntityHas(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.Client.EnqueueAll(t.Context(), jobs.OwnTx(w.DB), func(yield func(jobs.Request) bool) {
		for i := range 60 {
			r := jobs.Request{
				JobExec: "ok", EntityName: "order", EntityKey: "1", ItemKey: strconv.Itoa(i), CheckAt: w.Now().Add(time.Hour),
			}
			if !yield(r) {
				return
			}
		}
	})
	w.must(err)
	for _, also := range []string{"", "&job_exec=ok"} { // two addresses, because an answer is kept for a while
		e := get[board.Entity](w, "/entity?entity_name=order&entity_key=1&item_key=59"+also)
		if len(e.Checks) != 1 || e.Checks[0].ItemKey != "59" {
			t.Errorf("the checks of item 59: %+v", e.Checks)
		}
		w.DB.MustExec("select prescient.cancel_entity('order', '1')") // of all items, which history has then
	}
}

func TestAPageOfChecksEndsAfterFourMegabytes(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "its workers do not follow the clock of a kit")
	w := setup(t)
	const rows, size = 120, 60_000
	for i := range rows {
		w.enqueue("ok", w.Now().Add(time.Hour), strconv.Itoa(i))
	}
	w.DB.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	get := func(from string) (body string) {
		answer := w.getAgain(Prefix + from)
		if n := answer.Body.Len(); answer.Code != http.StatusOK || n > 5<<20 {
			t.Errorf("%s: %d with %d bytes", from, answer.Code, n)
		}
		return answer.Body.String()
	}
	var first, second board.Waiting
	w.must(json.Unmarshal([]byte(get("/checks?limit=200")), &first))
	w.must(json.Unmarshal([]byte(get("/checks?limit=200&after="+*first.After)), &second))
	if n := len(first.Checks) + len(second.Checks); n != rows || first.After == nil || second.After != nil {
		t.Errorf("%d and %d checks of %d; after: %v and %v", len(first.Checks), len(second.Checks), rows,
			first.After, second.After)
	}
	w.RunAll()
	var ended board.History
	w.must(json.Unmarshal([]byte(get("/history?limit=200&until="+url.QueryEscape(w.Now().Add(time.Minute).Format(time.RFC3339)))), &ended))
	if n := len(ended.Checks); n < 60 || n > 80 || ended.After == nil {
		t.Errorf("%d ended checks; after: %v", n, ended.After)
	}
}

// A document shows null for a field that may have any value.
func TestChecksAreCancelledByANullPayloadLikeByNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", w.Now().Add(time.Hour), "1")
	if done := w.do("cancel-many", `{"job_exec": "ok", "payload": null}`); done.Result != "1 check was cancelled" ||
		done.Target != "waiting checks of job ok" {
		t.Errorf("%+v", done)
	}
	if answer := w.post("cancel-many", "preview=true", `{"payload": null}`); answer.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestAPageOfDeadLettersEndsAfterFourMegabytes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.DB.MustExec(`
		insert into prescient.event_dead (consumer, id, source, type, dead_at, data)
		select 'desk', n, 's', 't', clock_timestamp(), to_json(repeat('x', 3 << 20)) from generate_series(1, 3) as n`)
	first := get[board.DeadLetters](w, "/dead-letters?limit=200")
	if len(first.DeadLetters) != 2 || first.After == nil {
		t.Fatalf("%d dead letters; after: %v", len(first.DeadLetters), first.After)
	}
	second := get[board.DeadLetters](w, "/dead-letters?limit=200&after="+*first.After)
	if len(second.DeadLetters) != 1 || second.DeadLetters[0].ID != "3" || second.After != nil {
		t.Errorf("%d dead letters; after: %v", len(second.DeadLetters), second.After)
	}
}

// The mark of a destination stays at an event that it has not got. Others behind it may be of types that it does not get.
func TestOnlyEventsOfItsTypesWaitForAConsumer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.DB.MustExec(`
		insert into prescient.event_outbox (id, source, type, written_at)
		select n, 's', case when n = 3 then 'a' else 'b' end, clock_timestamp() - interval '1 hour' * (10 - n) from generate_series(1, 6) as n;
		insert into prescient.event_consumer (name, mark, position, address, types) values ('desk', '0', 0, 'file:///desk', '{a}')`)
	type consumers struct {
		Consumers []struct {
			Waiting int64
			AtLeast bool `json:"at_least"`
			Oldest  duration.Text
		}
	}
	for _, of := range []string{"/overview", "/events"} {
		list := get[consumers](w, of).Consumers
		if len(list) != 1 || list[0].Waiting != 1 || list[0].AtLeast ||
			time.Duration(list[0].Oldest) < 6*time.Hour || time.Duration(list[0].Oldest) > 8*time.Hour {
			t.Errorf("%s: %+v", of, list)
		}
	}
}
