package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
)

func TestChangesAreRecordedUnderTheNameOfTheToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cfg := w.config(w.db)
	cfg.Tokens = []string{token, "ann:0123456789abcdef", "bob:0123456789abcde2"}
	var err error
	if w.handler, err = httpapi.New(cfg); err != nil {
		t.Fatal(err)
	}
	const ann, bob = "Bearer 0123456789abcdef", "Bearer 0123456789abcde2"
	for _, step := range []struct{ method, path, body, who string }{
		{"POST", "/schedules", `{"id": "a", "crontab": "@daily"}`, ann},
		{"PATCH", "/schedules/a", `{"crontab": "@hourly"}`, bob},
		{"PUT", "/schedules/a", `{"crontab": "@weekly"}`, ann},
		{"POST", "/schedules/a/pause", "", bob},
		{"POST", "/schedules/a/resume", "", ann},
		{"POST", "/schedule-changes", `{"changes": [{"action": "update", "schedule": {"id": "a", "crontab": "@monthly"}}]}`, bob},
		{"DELETE", "/schedules/a", "", ann},
		{"POST", "/schedules", `{"id": "a", "crontab": "@daily"}`, "Bearer " + token},
	} {
		before := w.actors()
		if answer := w.call(step.method, step.path, step.body, "Authorization", step.who); answer.Code >= 300 {
			t.Fatalf("%s %s: %d %s", step.method, step.path, answer.Code, answer.Body)
		}
		want := map[string]string{ann: "ann", bob: "bob", "Bearer " + token: "operator"}[step.who] + " from 192.0.2.1"
		if after := w.actors(); strings.Count(after, want) <= strings.Count(before, want) {
			t.Errorf("%s %s is not recorded as that of %s: %s", step.method, step.path, want, after)
		}
	}
}

// A change that touches no waiting row leaves no trace of its sender in the database.
func TestEachChangeIsLoggedUnderTheNameOfTheToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cfg := w.config(w.db)
	cfg.Tokens = []string{token, "ann:0123456789abcdef"}
	var err error
	if w.handler, err = httpapi.New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ method, path, body, logged string }{
		{"POST", "/schedules", `{"id": "a", "crontab": "@daily"}`, "schedule=a change=create %s version=1"},
		{"PATCH", "/schedules/a", `{"payload": {"n": 1}}`, "schedule=a change=update %s version=2"},
		{"PUT", "/schedules/a", `{"crontab": "@daily", "misfire": "skip"}`, "schedule=a change=update %s version=3"},
		{"POST", "/schedules/a/pause", "", "schedule=a change=pause %s version=4"},
		{"PATCH", "/schedules/a", `{"deadline": "1h"}`, "schedule=a change=update %s version=5"},
		{"POST", "/schedules/a/resume", "", "schedule=a change=resume %s version=6"},
		{"POST", "/schedules/a/pause", "", "schedule=a change=pause %s version=7"},
		{"DELETE", "/schedules/a", "", "schedule=a change=delete %s"},
		{"POST", "/schedule-changes", `{"changes": [{"action": "create", "schedule": {"id": "b", "crontab": "@daily"}}]}`, "schedule=b change=create %s"},
	} {
		w.log.Reset()
		if answer := w.call(step.method, step.path, step.body, "Authorization", "Bearer 0123456789abcdef"); answer.Code >= 300 {
			t.Fatalf("%s %s: %d %s", step.method, step.path, answer.Code, answer.Body)
		}
		want := ` level=INFO msg="schedule changed" ` + fmt.Sprintf(step.logged, `actor="ann from 192.0.2.1"`)
		if got := strings.TrimSpace(w.log.String()); !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s %s: logged %s, want %s", step.method, step.path, got, want)
		}
	}
	w.log.Reset()
	w.want(404, "DELETE", "/schedules/a", "")
	w.want(200, "GET", "/schedules/b", "")
	if w.log.Len() > 0 {
		t.Errorf("logged: %s", w.log)
	}
}

// actors lists who has done something with the row of the schedule.
func (w *world) actors() (list string) {
	w.t.Helper()
	err := w.db.GetContext(w.t.Context(), &list, `select coalesce(string_agg(what || ' by ' || actor, ', '), '') from prescient.why('schedule', 'a')`)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
