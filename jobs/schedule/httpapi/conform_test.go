package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// described is the document, as a client reads it.
func described() (*openapi3.T, routers.Router, error) {
	d := readDescription()
	return d.doc, d.router, d.err
}

type description struct {
	doc    *openapi3.T
	router routers.Router
	err    error
}

var readDescription = sync.OnceValue(func() (d description) {
	openapi3filter.RegisterBodyDecoder("application/merge-patch+json", openapi3filter.JSONBodyDecoder)
	text, err := documentJSON()
	if err == nil {
		d.doc, err = openapi3.NewLoader().LoadFromData(text)
	}
	if err == nil {
		d.router, err = gorillamux.NewRouter(d.doc)
	}
	d.err = err
	return d
})

// compare holds a request and its answer against the document. One that is refused need not be as
// the document has it.
func (w *world) compare(r *http.Request, body string, answer *httptest.ResponseRecorder) {
	w.t.Helper()
	_, router, err := described()
	if err != nil {
		w.t.Fatal(err)
	}
	route, parameters, err := router.FindRoute(r)
	if err != nil {
		if answer.Code != http.StatusNotFound && answer.Code != http.StatusMethodNotAllowed && answer.Code != http.StatusUnauthorized {
			w.t.Errorf("%s %s: %d, and the document does not have it: %v", r.Method, r.URL, answer.Code, err)
		}
		return
	}
	if w.seen != nil {
		w.seen[fmt.Sprintf("%s %d", route.Operation.OperationID, answer.Code)] = true
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(strings.NewReader(body))
	request := &openapi3filter.RequestValidationInput{
		Request: again, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if answer.Code < 400 && !strings.Contains(answer.Body.String(), `"status"`) { // that of a change which was refused
		if err := openapi3filter.ValidateRequest(r.Context(), request); err != nil {
			w.t.Errorf("%s %s is taken, and the document does not have it: %v", r.Method, r.URL, err)
		}
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: answer.Code, Header: answer.Header(), Options: request.Options,
	}
	if err := openapi3filter.ValidateResponse(r.Context(), response.SetBodyBytes(answer.Body.Bytes())); err != nil {
		w.t.Errorf("%s %s: %d %s is not as the document has it: %v", r.Method, r.URL, answer.Code, answer.Body, err)
	}
}

// operation is a request that is in order, and how it is made to be wrong.
type operation struct {
	method, target, body string
	wrong                string // a target, or a body where there is one, that is answered 422
}

func TestEveryAnswerOfTheDocumentIsGiven(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.seen = map[string]bool{}
	const nul = "/schedules/%00"
	operations := map[string]operation{
		"create-schedule":  {"POST", "/schedules", `{"id": "new", "crontab": "@daily"}`, `{"id": "", "crontab": "often"}`},
		"list-schedules":   {"GET", "/schedules", "", "/schedules?prefix=%00"},
		"get-schedule":     {"GET", "/schedules/a", "", nul},
		"replace-schedule": {"PUT", "/schedules/a", `{"crontab": "@hourly"}`, `{"crontab": "often"}`},
		"patch-schedule":   {"PATCH", "/schedules/a", `{"misfire": "skip"}`, `{"id": "b"}`},
		"delete-schedule":  {"DELETE", "/schedules/a", "", nul},
		"pause-schedule":   {"POST", "/schedules/a/pause", "", nul + "/pause"},
		"resume-schedule":  {"POST", "/schedules/a/resume", "", nul + "/resume"},
		"change-schedules": {"POST", "/schedule-changes", `{"changes": [{"action": "create", "schedule": {"id": "b", "crontab": "@daily"}}]}`, ""},
		"preview-crontab":  {"GET", "/crontab-preview?crontab=@daily&from=2030-03-01T12:00:00Z&to=2030-03-01T12:00:00Z", "", "/crontab-preview?crontab=often&from=2030-03-01T12:00:00Z&to=2030-03-01T12:00:00Z"},
		"describe":         {"GET", "/openapi.json", "", ""},
	}
	doc, _, err := described()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, item := range doc.Paths.Map() {
		for _, described := range item.Operations() {
			o, ok := operations[described.OperationID]
			if !ok {
				t.Errorf("nobody has called %s", described.OperationID)
			}
			w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
			for status := range described.Responses.Map() {
				want[described.OperationID+" "+status] = true
				w.provoke(o, status)
			}
			w.call("DELETE", "/schedules/a", "")
		}
	}
	w.want(404, "DELETE", "/schedules/a", "")
	if diff := cmp.Diff(want, w.seen); diff != "" {
		t.Errorf("(-described +given):\n%s", diff)
	}
}

// provoke sends an operation such that it is answered with a status.
func (w *world) provoke(o operation, status string) {
	w.t.Helper()
	query := "?"
	if strings.Contains(o.target, "?") {
		query = "&"
	}
	switch status {
	case "200":
		w.call(o.method, o.target, o.body)
	case "201", "409":
		w.call("POST", "/schedules", o.body)
	case "204":
		w.call(o.method, o.target, "")
		w.want(201, "POST", "/schedules", `{"id": "a", "crontab": "@daily"}`)
	case "400":
		if o.body == "" {
			w.call(o.method, o.target+query+"unknown=1", "")
		} else {
			w.call(o.method, o.target, o.body+"}")
		}
	case "401":
		w.call(o.method, o.target, o.body, "Authorization", "Bearer nobody's")
	case "403":
		if o.method == "GET" {
			w.without(status).call(o.method, o.target, "")
			return
		}
		w.call(o.method, o.target, o.body, "Authorization", "Bearer "+readToken)
	case "404":
		w.call(o.method, strings.Replace(o.target, "/a", "/nobody", 1), o.body)
	case "408":
		w.send(o.method, o.target, iotest.ErrReader(os.ErrDeadlineExceeded)) // as a connection has it
	case "412":
		w.call(o.method, o.target, o.body, "If-Match", `"99"`)
	case "413":
		w.call(o.method, o.target, strings.Replace(o.body, `: "`, `: "`+strings.Repeat("x", 1<<20), 1))
	case "415":
		w.call(o.method, o.target, o.body, "Content-Type", "text/plain")
	case "422":
		if o.body == "" {
			w.call(o.method, o.wrong, "")
		} else {
			w.call(o.method, o.target, o.wrong)
		}
	case "500", "503":
		w.without(status).call(o.method, o.target, o.body)
	default:
		w.t.Errorf("nobody knows how to be answered %s", status)
	}
}

// without is a world whose database is closed, or not there, or whose login has no rights.
func (w *world) without(status string) *world {
	w.t.Helper()
	url := "host=127.0.0.1 port=1 sslmode=disable connect_timeout=5"
	if status == "403" {
		url = pgtest.Direct(w.t) + "&options=-crole%3Dpg_signal_backend"
	}
	db, err := sqlx.Open("postgres", url)
	if err == nil && status == "500" {
		err = db.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	none := *w
	if none.handler, err = httpapi.New(w.config(db)); err != nil {
		w.t.Fatal(err)
	}
	return &none
}

func TestABodyThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.ReadTimeout = 50 * time.Millisecond // the daemon's is 30 s
	server.Start()
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST /schedules HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{", token); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered %s", answer.Status)
	}
}
