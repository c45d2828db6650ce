package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// while sends a request that waits for what a transaction has changed, commits that when it does,
// and returns the answer.
func (w *world) while(tx *sqlx.Tx, send func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	w.t.Helper()
	answered := make(chan *httptest.ResponseRecorder)
	go func() { answered <- send() }()
	for waits := false; !waits && w.t.Context().Err() == nil; {
		waits = pgtest.Waits(w.t, w.DB) > 0
	}
	w.must(tx.Commit())
	return <-answered
}

func TestNothingIsDoneToWhatAnApplicationChangesBetweenThePlanAndTheDoing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		action, body string
		before       string // a statement before the preview
		change       func(w *world, tx *sqlx.Tx) error
		want         string // of the new plan
	}{
		"cancelled, and asked for anew": {
			"cancel", `{"entity_name": "order", "entity_key": "1"}`, "",
			func(w *world, tx *sqlx.Tx) error {
				j := jobs.Request{JobExec: "ok", EntityName: "order", EntityKey: "1"}
				j.CheckAt = w.Now().Add(3 * time.Hour)
				_, err := w.Client.Enqueue(t.Context(), tx, j, jobs.Replace)
				return err
			}, "T12:00",
		},
		"cancelled, and done": {
			"cancel", `{"entity_name": "order", "entity_key": "1"}`, "",
			func(w *world, tx *sqlx.Tx) error {
				_, err := w.Client.CancelEntity(t.Context(), tx, "order", "1")
				return err
			}, "Cancels 0 waiting checks",
		},
		"moved, and moved": {"reschedule", `{"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "2100-01-05T00:00:00Z"}`, "", func(w *world, tx *sqlx.Tx) error {
			_, _, err := w.Client.Reschedule(t.Context(), tx,
				jobs.Key{JobExec: "ok", EntityName: "order", EntityKey: "1"}, w.Now().Add(10*time.Hour))
			return err
		}, "T19:00"},
		"sent, and another given up": {
			"discard-events", `{}`, deadLetter("a1"),
			func(_ *world, tx *sqlx.Tx) error {
				_, err := tx.Exec("delete from prescient.event_dead; " + deadLetter("b1"))
				return err
			}, "Deletes 1 dead letter",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue("ok", w.Now().Add(time.Hour), "1")
			w.DB.MustExec(test.before)
			plan := w.preview(test.action, test.body)
			tx := w.DB.MustBegin()
			w.must(test.change(w, tx))
			answer := w.while(tx, func() *httptest.ResponseRecorder {
				return w.post(test.action, "confirm="+plan.Confirm, test.body)
			})
			var now changed
			w.must(json.Unmarshal(answer.Body.Bytes(), &now))
			if answer.Code != http.StatusConflict || now.Plan == nil || !strings.Contains(now.Plan.Text, test.want) {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			if n := w.count("select count(*) from prescient.action"); n != 0 {
				t.Errorf("%d actions are recorded", n)
			}
		})
	}
}

// deadLetter returns the statement that gives an event up.
func deadLetter(id string) string {
	return "insert into prescient.event_dead (consumer, id, source, type, dead_at) values ('desk', '" + id + "', 's', 't', clock_timestamp())"
}

func TestOtherDeadLettersThanThoseOfThePreviewAreNotTouched(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"discard-events", "resend-events"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.DB.MustExec(deadLetter("a1"))
			plan := w.preview(action, `{}`)
			w.DB.MustExec("delete from prescient.event_dead; " + deadLetter("b1"))
			if answer := w.post(action, "confirm="+plan.Confirm, `{}`); answer.Code != http.StatusConflict {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			if n := w.count("select count(*) from prescient.event_dead where id = 'b1'"); n != 1 {
				t.Error("the letter is gone")
			}
		})
	}
}

func TestOtherChecksThanThoseOfThePreviewAreNotCancelledOrPutBack(t *testing.T) {
	t.Parallel()
	for action, fail := range map[string]bool{"cancel-many": false, "retry": true} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			const body = `{"job_exec": "ok"}`
			add := func(key string) {
				w.enqueue("ok", w.Now().Add(time.Hour), key)
				if fail {
					_, err := w.Client.CancelEntity(t.Context(), jobs.OwnTx(w.DB), "order", key)
					w.must(err)
					w.DB.MustExec("update prescient.future_job_history set outcome = 'failed'")
				}
			}
			add("1")
			plan := w.preview(action, body)
			w.DB.MustExec("delete from prescient.future_job; delete from prescient.future_job_history")
			add("2")
			if answer := w.post(action, "confirm="+plan.Confirm, body); answer.Code != http.StatusConflict {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
}

// The checks of rules stay if no job is named, so the preview does not count them.
func TestTheChecksOfARuleAreCancelledOnlyByItsName(t *testing.T) {
	t.Parallel()
	const stays = "1 check of a rule stays, because rules keep them in step with their tables: give the name of the rule as the job to cancel it"
	for name, c := range map[string]struct {
		action, body, result string
		rows                 int64
		nothing              bool
		warns                string
	}{
		"no job":            {"cancel", `{"entity_name": "order", "entity_key": "1"}`, "1 check was cancelled", 1, false, stays},
		"nothing":           {"cancel", `{"entity_name": "order", "entity_key": "2"}`, "", 0, true, stays},
		"many":              {"cancel-many", `{"entity_name": "order", "entity_key": "1*"}`, "1 check was cancelled", 1, false, stays},
		"many, and nothing": {"cancel-many", `{"entity_name": "order", "entity_key": "2*"}`, "", 0, true, stays},
		"many of the job": {
			"cancel-many", `{"entity_name": "order", "entity_key": "1", "job_exec": "late"}`,
			"1 check was cancelled. late is a rule", 1, false, "late is a rule",
		},
		"the job": {
			"cancel", `{"entity_name": "order", "entity_key": "1", "job_exec": "late"}`,
			"1 check was cancelled. late is a rule", 1, false, "late is a rule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.DB.MustExec(`insert into prescient.rule (name, relation, definition) values ('late', 'public.orders', '{}')`)
			w.DB.MustExec(`select prescient.rule_wait('late', 'order', k, clock_timestamp() + interval '1 hour')
				from unnest(array['1', '2']) as k`)
			w.enqueue("ok", w.Now().Add(time.Hour), "1")
			plan := w.preview(c.action, c.body)
			if plan.Rows != c.rows || plan.Nothing != c.nothing || !strings.Contains(strings.Join(plan.Warnings, " "), c.warns) {
				t.Errorf("the preview is %+v", plan)
			}
			if c.nothing {
				return
			}
			done := w.do(c.action, c.body)
			if !strings.HasPrefix(done.Result, c.result) {
				t.Errorf("the result is %q", done.Result)
			}
			if n := w.count("select count(*) from prescient.future_job"); n != 3-int(c.rows) {
				t.Errorf("%d checks wait", n)
			}
		})
	}
}

// The action has begun, and waits, when another check is enqueued.
func TestACheckThatIsEnqueuedAfterTheConfirmationIsNotCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", w.Now().Add(time.Hour), "1")
	tx := w.DB.MustBegin()
	tx.MustExec("lock table prescient.future_job_history in share mode")
	done := w.begin("cancel-many", `{"job_exec": "ok"}`)
	pgtest.AwaitWaits(t, w.DB, 1)
	w.enqueue("ok", w.Now().Add(time.Hour), "2")
	w.must(tx.Commit())
	if done := w.ended(done); done.Result != "1 check was cancelled" {
		t.Errorf("%+v", done)
	}
	if n := w.count("select count(*) from prescient.future_job where entity_key = '2'"); n != 1 {
		t.Errorf("%d checks wait", n)
	}
}

func TestAnActionWaitsForNobodyForLong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", w.Now().Add(time.Hour), "1")
	const body = `{"entity_name": "order", "entity_key": "1"}`
	plan := w.preview("cancel", body)
	tx := w.DB.MustBegin()
	defer func() { _ = tx.Rollback() }()
	_, err := tx.Exec("update prescient.future_job set payload = '{}'")
	w.must(err)
	if answer := w.post("cancel", "confirm="+plan.Confirm, body); answer.Code != http.StatusConflict ||
		!strings.Contains(answer.Body.String(), board.ErrLocked.Error()) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if n := w.count("select count(*) from prescient.future_job"); n != 1 {
		t.Errorf("%d checks wait", n)
	}
}

func TestAPreviewDoesNotWaitForALockedRowForLong(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a plan waits for a lock on a worker as long as a statement may take")
	w := setup(t)
	w.enqueue("ok", w.Now().Add(time.Hour), "1")
	tx := w.DB.MustBegin()
	defer func() { _ = tx.Rollback() }()
	_, err := tx.Exec("update prescient.future_job set payload = '{}'")
	w.must(err)
	body := fmt.Sprintf(`{"job_exec": "ok", "entity_name": "order", "entity_key": "1", "push_back": true, "at": "%s"}`,
		w.Now().Add(3*time.Hour).Format(time.RFC3339))
	if answer := w.post("reschedule", "preview=true", body); answer.Code != http.StatusConflict ||
		!strings.Contains(answer.Body.String(), board.ErrLocked.Error()) {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// What one operator has decided meanwhile, another one does not undo by a preview from before.
func TestAnActionThatUndoesWhatAnotherHasDoneMeanwhileIsNotDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before      []string // actions before the preview
		action      string
		meanwhile   []string
		left, wants string
	}{
		"silence": {
			nil, `silence {"finding": "failing/ok", "for": "1h", "because": "short"}`,
			[]string{`silence {"finding": "failing/ok", "for": "7d", "because": "migration"}`},
			"select because from prescient.alert", "migration",
		},
		"reschedule": {
			nil, `reschedule {"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "2100-01-05T00:00:00Z"}`,
			[]string{
				`reschedule {"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "2100-01-05T00:00:00Z"}`,
				`reschedule {"job_exec": "ok", "entity_name": "order", "entity_key": "1", "at": "2100-01-04T10:00:00Z"}`,
			},
			"select (next_check_at at time zone 'UTC')::text from prescient.future_job", "2100-01-04 10:00:00",
		},
		"resume": {
			[]string{`pause-job {"job_exec": "ok"}`},
			`resume-job {"job_exec": "ok"}`,
			[]string{`resume-job {"job_exec": "ok"}`, `pause-job {"job_exec": "ok"}`},
			"select (paused_at is not null)::text from prescient.job where name = 'ok'", "true",
		},
		"pause": {
			nil, `pause-job {"job_exec": "ok"}`,
			[]string{`pause-job {"job_exec": "ok"}`, `resume-job {"job_exec": "ok"}`},
			"select (paused_at is not null)::text from prescient.job where name = 'ok'", "false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue("ok", w.Now().Add(time.Hour), "1")
			do := func(list []string) {
				for _, line := range list {
					action, body, _ := strings.Cut(line, " ")
					w.do(action, body)
				}
			}
			do(test.before)
			action, body, _ := strings.Cut(test.action, " ")
			plan := w.preview(action, body)
			do(test.meanwhile)
			if answer := w.post(action, "confirm="+plan.Confirm, body); answer.Code != http.StatusConflict {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
			var left string
			w.must(w.DB.Get(&left, test.left))
			if left != test.wants {
				t.Errorf("left is %s, want %s", left, test.wants)
			}
		})
	}
}

func TestWhatIsConfirmedTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.schedules.Create(t.Context(), w.DB, schedule.Spec{ID: "feed", Crontab: "0 * * * *"})
	w.must(err)
	plan := w.preview("trigger-schedule", `{"id": "feed"}`)
	var clicks sync.WaitGroup
	var taken atomic.Int64
	for range 5 {
		clicks.Go(func() {
			if w.post("trigger-schedule", "confirm="+plan.Confirm, `{"id": "feed"}`).Code == http.StatusAccepted {
				taken.Add(1)
			}
		})
	}
	clicks.Wait()
	await.True(t, "the actions to end", func() bool {
		return w.count("select count(*) from prescient.action where outcome = 'running'") == 0
	})
	if n := w.count("select count(*) from prescient.event_outbox"); n != 1 || taken.Load() != 1 {
		t.Errorf("%d events are published, %d answers say so", n, taken.Load())
	}
}

func TestWhatAStoppedServerIsAskedForIsRecordedAsStopped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("ok", w.Now().Add(10*time.Minute), "1")
	w.Clock.Set(w.Now().Add(time.Hour))
	plan := w.preview("catch-up", `{"mode": "run"}`)
	w.board.Close()
	if answer := w.post("catch-up", "confirm="+plan.Confirm,
		`{"mode": "run"}`); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if n := w.count("select count(*) from prescient.action where outcome = 'stopped'"); n != 1 {
		t.Errorf("%d actions are recorded as stopped", n)
	}
}

func TestTwoHundredClientsWithAPageEachAreAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var asking sync.WaitGroup
	for i := range 200 {
		asking.Go(func() {
			target := fmt.Sprint(Prefix, "/entity?entity_name=order&entity_key=", i)
			if answer := w.getAgain(target); answer.Code != http.StatusOK {
				t.Errorf("%s: %d %s", target, answer.Code, answer.Body)
			}
		})
	}
	asking.Wait()
}

func TestARefusalByTheLimitOfStatementsIsNotLogged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	busy := readAll("/overview", "overview", "", func(context.Context, int64) (board.Overview, error) {
		return board.Overview{}, board.ErrBusy
	})
	w.log.Reset()
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/overview", nil)
	r.Header.Set("Authorization", "Bearer "+operator)
	newAPI(w.config).web.Handler("", maxBody, []web.Route{busy}).ServeHTTP(answer, r)
	if answer.Code != http.StatusServiceUnavailable || w.log.Len() > 0 {
		t.Errorf("%d; the log: %s", answer.Code, w.log)
	}
}

func (w *world) count(query string) (n int) {
	w.t.Helper()
	w.must(w.DB.GetContext(w.t.Context(), &n, query))
	return n
}
