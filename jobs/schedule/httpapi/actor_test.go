package httpapi_test

import (
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

// actors lists who has done something with the row of the schedule.
func (w *world) actors() (list string) {
	w.t.Helper()
	err := w.db.GetContext(w.t.Context(), &list, `select coalesce(string_agg(what || ' by ' || actor, ', '), '') from prescient.why('schedule', 'a')`)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
