package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	token     = "correct horse battery staple"
	readToken = "a horse that only reads"
)

var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

type world struct {
	t       testing.TB
	handler http.Handler
	store   *schedule.Store
	db      *sqlx.DB
	log     *bytes.Buffer
	seen    map[string]bool // operations and statuses that were answered; nil: the test does not need them
}

func setup(t testing.TB) *world {
	t.Helper()
	db := pgtest.New(t)
	store, err := schedule.NewStore(t.Context(), db, schedule.Config{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, db: db, log: new(bytes.Buffer)}
	w.handler, err = httpapi.New(w.config(db))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) config(db jobs.DB) httpapi.Config {
	return httpapi.Config{
		Store: w.store, DB: db, Tokens: []string{"another token altogether", token}, ReadTokens: []string{readToken},
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
}

// call sends a request that is in order but for what the headers, given in pairs, replace.
func (w *world) call(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.send(method, target, strings.NewReader(body), headers...)
}

// A second line of a header is as what stands after a comma.
func TestSeveralLinesOfIfMatchAreOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(http.StatusCreated, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	r := httptest.NewRequestWithContext(t.Context(), "DELETE", "/schedules/a", nil)
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "If-Match": {"*", `"7"`}}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusPreconditionFailed {
		t.Errorf("%d: %s", answer.Code, answer.Body)
	}
}

func (w *world) send(method, target string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	var sent bytes.Buffer
	r := httptest.NewRequestWithContext(w.t.Context(), method, target, io.TeeReader(body, &sent))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	w.compare(r, sent.String(), answer)
	return answer
}

// want calls, and compares the status and parts of the answer. It returns the answer as JSON.
func (w *world) want(status int, method, target, body string, headers ...string) map[string]any {
	w.t.Helper()
	answer := w.call(method, target, body, headers...)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if answer.Code != status {
		w.t.Errorf("%s %s: status %d, want %d: %s", method, target, answer.Code, status, text)
	}
	if status == http.StatusNoContent {
		if len(text) > 0 {
			w.t.Errorf("%s %s: %s", method, target, text)
		}
		return nil
	}
	media := "application/json"
	if status >= 400 {
		media = "application/problem+json"
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil || answer.Header().Get("Content-Type") != media {
		w.t.Errorf("%s %s: %s is %s, %v", method, target, answer.Header().Get("Content-Type"), text, err)
	}
	if status >= 400 && (v["status"] != float64(status) || v["title"] != http.StatusText(status) || v["detail"] == "") {
		w.t.Errorf("%s %s: no problem of RFC 9457: %s", method, target, text)
	}
	return v
}

func TestAScheduleFromItsCreationToItsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const id = "/schedules/a%2Fb%20%C3%BC"
	answer := w.call("POST", "/schedules", `{"id": "a/b ü", "crontab": "0 9 * * *", "timezone": "Europe/Berlin", "payload": {"n": 1}, "deadline": "2h", "spread": "10m", "misfire": "latest"}`)
	if answer.Code != http.StatusCreated || answer.Header().Get("Location") != id || answer.Header().Get("ETag") != `"1"` {
		t.Fatalf("%d %v %s", answer.Code, answer.Header(), answer.Body)
	}
	got := w.want(200, "GET", id, "")
	for _, field := range []string{"created_at", "updated_at", "slot", "coming", "overdue"} {
		if got[field] == nil {
			t.Errorf("%s is missing", field)
		}
		delete(got, field)
	}
	want := map[string]any{
		"id": "a/b ü", "crontab": "0 9 * * *", "timezone": "Europe/Berlin", "payload": map[string]any{"n": 1.0}, "deadline": "2h",
		"spread": "10m", "misfire": "latest", "anchor": "2030-03-01T12:00:00Z", "paused": false, "state": "active", "version": 1.0,
		"next": "2030-03-02T08:00:00Z", "dropped": 0.0, "error_count": 0.0, "last_error": "", "publishing_paused_at": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if v := w.want(200, "PUT", id, `{"crontab": "@hourly"}`, "If-Match", `"1"`); v["version"] != 2.0 || v["timezone"] != "" || v["anchor"] != want["anchor"] {
		t.Errorf("%v", v)
	}
	w.want(412, "PUT", id, `{"crontab": "@daily"}`, "If-Match", `"1"`)
	w.want(412, "POST", id+"/pause", "", "If-Match", `"1"`)
	if v := w.want(200, "POST", id+"/pause", "", "If-Match", `"2"`); v["state"] != "paused" || v["next"] != nil {
		t.Errorf("%v", v)
	}
	if v := w.want(200, "POST", id+"/resume", ""); v["state"] != "active" || v["version"] != 4.0 {
		t.Errorf("%v", v)
	}
	w.want(412, "DELETE", id, "", "If-Match", `"3"`)
	w.want(204, "DELETE", id, "", "If-Match", `*`)
	w.want(404, "GET", id, "")
	w.want(404, "DELETE", id, "")
}

func TestListComesInPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a1", "a2", "a3", "b"} {
		w.want(201, "POST", "/schedules", `{"id": "`+id+`", "crontab": "@daily", "paused": `+map[bool]string{true: "true", false: "false"}[id == "a2"]+`}`)
	}
	ids := func(target string) (list string, after any) {
		v := w.want(200, "GET", target, "")
		for _, s := range v["schedules"].([]any) {
			list += s.(map[string]any)["id"].(string) + " "
		}
		return list, v["after"]
	}
	for _, test := range []struct {
		target, want string
		after        any
	}{
		{"/schedules", "a1 a2 a3 b ", nil},
		{"/schedules?limit=2", "a1 a2 ", "a2"},
		{"/schedules?limit=2&after=a2", "a3 b ", nil},
		{"/schedules?prefix=a&state=active", "a1 a3 ", nil},
		{"/schedules?state=ended", "", nil},
	} {
		if got, after := ids(test.target); got != test.want || after != test.after {
			t.Errorf("%s: %s, then %v; want %s, then %v", test.target, got, after, test.want, test.after)
		}
	}
}

func TestPreviewAnswersWithInstantsAndSlots(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.want(200, "GET", "/crontab-preview?crontab=*/20+*+*+*+*&timezone=Europe/Berlin&from=2030-03-01T12:00:00Z&to=2030-03-01T14:00:00%2B01:00", "")
	text, _ := json.Marshal(v)
	want := `{"instants":[{"instant":"2030-03-01T12:00:00Z","local":"2030-03-01T13:00:00+01:00","slot":"2030-03-01T12:00:00Z"},` +
		`{"instant":"2030-03-01T12:20:00Z","local":"2030-03-01T13:20:00+01:00","slot":"2030-03-01T12:30:00Z"},` +
		`{"instant":"2030-03-01T12:40:00Z","local":"2030-03-01T13:40:00+01:00","slot":"2030-03-01T12:45:00Z"}],"more":false}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	v = w.want(200, "GET", "/crontab-preview?crontab=%40every+1s&from=2030-03-01T12:00:00Z&to=9999-03-01T14:00:00Z&limit=3", "")
	if len(v["instants"].([]any)) != 3 || v["more"] != true {
		t.Errorf("%v", v)
	}
}

func TestNothingIsToldToWhoDoesNotKnowTheToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x"} {
		for _, target := range []string{"/schedules", "/schedules/a", "/nowhere"} {
			answer := w.call("GET", target, "", "Authorization", header)
			if answer.Code != http.StatusUnauthorized || !strings.HasPrefix(answer.Header().Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%q on %s: %d", header, target, answer.Code)
			}
		}
	}
	for _, known := range []string{token, "another token altogether", readToken} {
		w.want(200, "GET", "/schedules", "", "Authorization", "bearer "+known)
	}
	db := pgtest.New(t)
	for _, cfg := range []httpapi.Config{
		{},
		{Store: w.store, Tokens: []string{token}},
		{Store: w.store, DB: db},
		{Store: w.store, DB: db, Tokens: []string{token, "short"}},
		{Store: w.store, DB: db, Tokens: []string{token}, ReadTokens: []string{""}},
	} {
		if _, err := httpapi.New(cfg); err == nil {
			t.Errorf("%+v makes a handler", cfg)
		}
	}
}

func TestMistakesAreProblems(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	for _, test := range []struct {
		status               int
		method, target, body string
		headers              []string
		detail               string
	}{
		{400, "POST", "/schedules", `{`, nil, "the body: it ends too early: want a whole JSON value"},
		{400, "POST", "/schedules", "", nil, "the body: it ends too early: want a whole JSON value"},
		{400, "POST", "/schedules", `{"id": "b", "cron": "@daily"}`, nil, `the body: it has the unknown field "cron": did you mean crontab?`},
		{400, "POST", "/schedules", `{"id": "b"} }`, nil, "goes on"},
		{400, "POST", "/schedules", `{"id": "b", "crontab": "@daily", "crontab": "@hourly"}`, nil, "the body: it has crontab twice, and only one of them would be read"},
		{400, "PATCH", "/schedules/a", `{"payload": {"a": 1, "a": 2}}`, nil, "payload has a twice"},
		{400, "POST", "/schedules", `{"id": "b", "crontab": "@daily", "Crontab": "@hourly"}`, nil, `the body: it has the unknown field "Crontab": want "crontab"`},
		{400, "POST", "/schedules", `{"id": "b\ud800", "crontab": "@daily"}`, nil, "the body: id has half a surrogate pair"},
		{400, "POST", "/schedules", `{"id": 1}`, nil, "id: it must not be of the JSON type number"},
		{400, "POST", "/schedules", `[]`, nil, "the whole"},
		{400, "POST", "/schedules", `{"deadline": "soon"}`, nil, "such as 90s"},
		{400, "POST", "/schedules", `{"start": "2030-01-01"}`, nil, `the body: "2030-01-01": want an instant such as 2006-01-02T15:04:05Z`},
		{400, "POST", "/schedules", `{"end": "2030-02-30T00:00:00Z"}`, nil, `the body: "2030-02-30T00:00:00Z": want an instant such as`},
		{400, "GET", "/schedules?limit=0", "", nil, "limit"},
		{400, "GET", "/schedules?limit=201", "", nil, "limit"},
		{422, "GET", "/schedules?state=asleep", "", nil, "state"},
		{400, "GET", "/schedules?prefx=a", "", nil, "prefx: there is no such parameter: did you mean prefix?"},
		{400, "GET", "/schedules?prefix=a&prefix=b", "", nil, "each once"},
		{400, "GET", "/schedules?prefix=%zz", "", nil, "query"},
		{400, "GET", "/crontab-preview?crontab=@daily&from=noon&to=2030-03-01T12:00:00Z", "", nil, "from"},
		{400, "GET", "/crontab-preview?crontab=@daily&from=2030-03-01T12:00:00Z&to=2030-03-01T11:00:00Z", "", nil, "to: must not be before from"},
		{404, "GET", "/", "", nil, "path"},
		{404, "PUT", "/schedules/nobody", `{"crontab": "@daily"}`, nil, "no such schedule"},
		{405, "POST", "/schedules/a", "", nil, "GET, PUT, PATCH, DELETE"},
		{405, "GET", "/schedules/a/pause", "", nil, "POST"},
		{409, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`, nil, "a schedule of this id"},
		{412, "PUT", "/schedules/a", `{"crontab": "@daily"}`, []string{"If-Match", "1"}, "If-Match"},
		{412, "PUT", "/schedules/a", `{"crontab": "@daily"}`, []string{"If-Match", `W/"1"`}, "If-Match"},
		{412, "PUT", "/schedules/a", `{"crontab": "@daily"}`, []string{"If-Match", ""}, "If-Match"},
		{400, "POST", "/schedules", "{\"id\": \"\xff\", \"crontab\": \"@daily\"}", nil, "UTF-8"},
		{400, "PATCH", "/schedules/a", "{\"timezone\": \"\xff\"}", nil, "UTF-8"},
		{413, "POST", "/schedules", `{"id": "` + strings.Repeat("x", 1<<20) + `"}`, nil, "1048576 bytes"},
		{415, "POST", "/schedules", `{}`, []string{"Content-Type", "text/plain"}, "application/json"},
		{415, "POST", "/schedules", `{}`, []string{"Content-Type", ""}, "application/json"},
		{422, "POST", "/schedules", `{"id": "", "crontab": "often", "misfire": "x"}`, nil, "must not be empty"},
		{422, "PUT", "/schedules/a", `{"id": "b", "crontab": "@daily"}`, nil, "keeps its id"},
		{422, "PUT", "/schedules/a", `{"crontab": "@daily", "payload": "\u0000"}`, nil, "payload"},
		{422, "GET", "/crontab-preview?crontab=0+0+30+2+*&from=2030-03-01T12:00:00Z&to=2030-03-01T12:00:00Z", "", nil, "never fire"},
	} {
		v := w.want(test.status, test.method, test.target, test.body, test.headers...)
		if detail, _ := v["detail"].(string); !strings.Contains(detail, test.detail) {
			t.Errorf("%s %s: %q, want %q", test.method, test.target, detail, test.detail)
		}
	}
	fields := ""
	for _, e := range w.want(422, "POST", "/schedules", `{"crontab": "often", "misfire": "x"}`)["errors"].([]any) {
		fields += e.(map[string]any)["field"].(string) + " "
	}
	if fields != "id crontab misfire " {
		t.Errorf("errors of %s", fields)
	}
	w.logsNoError()
}

// logsNoError expects that the log has nothing but the changes.
func (w *world) logsNoError() {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		if !strings.Contains(line, ` level=INFO msg="schedule changed" `) {
			w.t.Errorf("logged: %s", line)
		}
	}
}

func TestWhatTheDatabaseSaysIsLoggedAndNotTold(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store, err := schedule.NewStore(t.Context(), db, schedule.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store, log: new(bytes.Buffer)}
	w.handler, err = httpapi.New(w.config(db))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	v := w.want(500, "GET", "/schedules", "")
	if strings.Contains(v["detail"].(string), "closed") || !strings.Contains(w.log.String(), "closed") {
		t.Errorf("told %v, logged %s", v["detail"], w.log)
	}
}

// interrupt makes the server end transactions that write the schedule with this id, as in a deadlock. when compares
// the number of the try.
func (w *world) interrupt(id, when string) {
	w.t.Helper()
	w.db.MustExecContext(w.t.Context(), `
		create sequence tries;
		create function deadlock() returns trigger language plpgsql as $$
		begin
			if nextval('tries') `+when+` then
				raise exception 'interrupted' using errcode = 'deadlock_detected';
			end if;
			return new;
		end $$;
		create trigger deadlock before insert or update on prescient.schedule
		for each row when (new.id = '`+id+`') execute function deadlock()`)
}

func TestATransactionThatTheServerInterruptsIsRepeated(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	for _, test := range []struct {
		status             int
		method, path, body string
	}{
		{201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`},
		{200, "PATCH", "/schedules/a", `{"crontab": "@hourly"}`},
		{200, "POST", "/schedules/a/pause", ``},
		{200, "POST", "/schedule-changes", `{"changes": [{"action": "create", "schedule": {"id": "a", "crontab": "@daily"}}]}`},
	} {
		w := setup(t)
		if test.status == 200 && test.path != "/schedule-changes" {
			w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
		}
		w.interrupt("a", "= 1")
		v := w.want(test.status, test.method, test.path, test.body)
		if test.path == "/schedule-changes" && v["done"] != 1.0 {
			t.Errorf("%v", v)
		}
		w.logsNoError()
	}
}

func TestWhoIsInterruptedAgainAndAgainIsToldToTryAgain(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.interrupt("a", "> 0")
	answer := w.call("POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" || !strings.Contains(answer.Body.String(), "try again") {
		t.Errorf("%d %v %s", answer.Code, answer.Header(), answer.Body)
	}
}

// FuzzCreate sends bodies: whatever they are, the answer is a schedule or a problem, and never a
// failure of the server.
func FuzzCreate(f *testing.F) {
	w := setup(f)
	f.Add(`{"id": "a", "crontab": "@daily", "payload": {"x": 1e5}, "deadline": "2h", "anchor": "2030-01-01T00:00:00Z"}`)
	f.Add(`{"id": "\u0000", "crontab": "CRON_TZ=Asia/Tokyo * * * * *", "spread": "-1s"}`)
	f.Add(`{"id": "a", "crontab": "@every 1s", "payload": "\ud800"}`)
	f.Fuzz(func(t *testing.T, body string) {
		answer := (&world{t: t, handler: w.handler}).call("POST", "/schedules", body)
		if answer.Code >= 500 || answer.Code < 200 || !json.Valid(answer.Body.Bytes()) {
			t.Errorf("%d: %s", answer.Code, answer.Body)
		}
	})
}
