package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPatchChangesWhatItNamesAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily", "timezone": "Europe/Berlin", "deadline": "2h", "spread": "10m", "misfire": "latest",
		"payload": {"n": 1.50, "deep": {"a": 1, "b": [1, 2]}, "gone": true}, "anchor": "2030-01-01T00:00:00Z"}`)
	said := func(v map[string]any) map[string]any {
		for _, name := range []string{"created_at", "updated_at", "next", "slot", "dropped", "error_count", "last_error", "state", "id", "paused_at", "coming", "overdue"} {
			delete(v, name)
		}
		return v
	}
	want := said(w.want(200, "GET", "/schedules/a", ""))
	for _, step := range []struct {
		patch   string
		changes map[string]any
	}{
		{`{}`, nil},
		{`{"deadline": "1h", "id": "a"}`, map[string]any{"deadline": "1h", "version": 2.0}},
		{
			`{"payload": {"deep": {"a": null, "c": {"d": null, "e": 1}}, "gone": null, "n": 2.50}}`,
			map[string]any{"payload": map[string]any{"n": 2.5, "deep": map[string]any{"b": []any{1.0, 2.0}, "c": map[string]any{"e": 1.0}}}, "version": 3.0},
		},
		{`{"payload": [1, null]}`, map[string]any{"payload": []any{1.0, nil}, "version": 4.0}},
		{`{"payload": {"x": 1}}`, map[string]any{"payload": map[string]any{"x": 1.0}, "version": 5.0}},
		{
			`{"payload": null, "timezone": null, "deadline": null, "spread": null, "misfire": null, "anchor": null, "paused": null}`,
			map[string]any{"payload": nil, "timezone": "", "deadline": "0s", "spread": "0s", "misfire": "all", "version": 6.0},
		},
		{`{"paused": true}`, map[string]any{"paused": true, "paused_by": "operator from 192.0.2.1", "version": 7.0}},
	} {
		for name, v := range step.changes {
			want[name] = v
		}
		got := w.want(200, "PATCH", "/schedules/a", step.patch, "Content-Type", "application/merge-patch+json")
		if diff := cmp.Diff(want, said(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.patch, diff)
		}
	}
	for _, test := range []struct {
		status        int
		patch, detail string
	}{
		{400, `[]`, "want an object"},
		{400, `null`, "want an object"},
		{400, `{"cron": "@daily"}`, `unknown field "cron"`},
		{400, `{"cron": null}`, `unknown field "cron": did you mean crontab?`},
		{422, `{"payload": "\ud800"}`, "half a surrogate pair"},
		{400, `{"paused": "yes"}`, "paused: it must not be of the JSON type string"},
		{400, `{"deadline": "soon"}`, "such as 90s"},
		{422, `{"id": "b"}`, "keeps its id"},
		{422, `{"crontab": null}`, "crontab"},
	} {
		if detail, _ := w.want(test.status, "PATCH", "/schedules/a", test.patch)["detail"].(string); !strings.Contains(detail, test.detail) {
			t.Errorf("%s: %q, want %q", test.patch, detail, test.detail)
		}
	}
	w.want(412, "PATCH", "/schedules/a", `{"paused": false}`, "If-Match", `"6"`)
	w.want(200, "PATCH", "/schedules/a", `{"paused": false}`, "If-Match", `"7"`)
	w.want(404, "PATCH", "/schedules/b", `{"paused": false}`)
}

// The decoder would take these for the fields, which stand beside them.
func TestAPatchOfANameInOtherLettersIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "PATCH", "/schedules/a", strings.NewReader(`{"Paused": true}`))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w.handler.ServeHTTP(answer, r)
	if answer.Code != 400 || !strings.Contains(answer.Body.String(), "Paused") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestPatchesOfDifferentFieldsBesideEachOtherAreAllKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	var wg sync.WaitGroup
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		wg.Go(func() { w.want(200, "PATCH", "/schedules/a", `{"payload": {"`+name+`": 1}}`) })
	}
	wg.Wait()
	text, _ := json.Marshal(w.want(200, "GET", "/schedules/a", "")["payload"])
	if got := string(text); got != `{"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}` {
		t.Errorf("left %s", got)
	}
}

// JSON for HTML writes < in six bytes.
func TestAPatchKeepsTheBytesOfThePayload(t *testing.T) {
	t.Parallel()
	w := setup(t)
	payload := `"` + strings.Repeat("<", 12_000) + `"`
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily", "payload": `+payload+`}`)
	w.want(200, "PATCH", "/schedules/a", `{"crontab": "@hourly"}`)
	w.want(200, "PATCH", "/schedules/a", `{"payload": {"text": `+payload+`}}`)
	got := w.want(200, "PATCH", "/schedules/a", `{"payload": {"n": 1}}`)["payload"].(map[string]any)
	if len(got) != 2 || len(got["text"].(string)) != 12_000 {
		t.Errorf("%d fields", len(got))
	}
}

// SQL, or another binary, may have written what this one cannot read.
func TestAPatchPausesAScheduleWhoseCrontabCannotBeRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for id, payload := range map[string]string{"a": "null", "b": `{"to": "<ops>", "n": 1.50}`} {
		w.want(201, "POST", "/schedules", `{"id": "`+id+`", "crontab": "@daily", "payload": `+payload+`}`)
		w.db.MustExec("update prescient.schedule set crontab = 'whenever' where id = $1", id)
		w.want(422, "PATCH", "/schedules/"+id, `{"deadline": "1h"}`)
		if got := w.want(200, "PATCH", "/schedules/"+id, `{"paused": true}`); got["paused"] != true {
			t.Errorf("%+v", got)
		}
	}
}
