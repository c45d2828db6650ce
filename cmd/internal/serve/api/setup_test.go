package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/prescient-go/prescient/cmd/internal/serve/board"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	operator = "0123456789abcdef"
	reader   = "fedcba9876543210"
)

// world is a database with a day behind it, and the API.
type world struct {
	*testkit.Kit
	t         *testing.T
	schedules *schedule.Store
	board     *board.Board
	handler   http.Handler
	config    Config
	token     string
	log       *bytes.Buffer
	seen      map[string]bool // operations and statuses that were answered; nil: the test does not need them
}

func setup(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, nil
	}), jobs.SLA(time.Minute))
	registry.Register("fail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("the warehouse does not answer")
	}), jobs.Retry(0))
	publishing := &schedule.PublishConfig{Source: "test"}
	schedule.Register(registry, publishing)
	w := &world{t: t, Kit: testkit.New(t, testkit.Config{Registry: registry}), token: operator, log: new(bytes.Buffer)}
	schema, err := pgsql.ParseSchema("")
	w.must(err)
	publishing.Publisher, publishing.Schema = outbox.New(w.DB, schema), schema
	w.schedules, err = schedule.NewStore(t.Context(), w.DB, schedule.Config{Now: w.Clock.Now})
	w.must(err)
	log := slog.New(slog.NewTextHandler(w.log, nil))
	w.board, err = board.New(t.Context(), board.Config{
		DB: w.DB, Runner: slots.Config{Registry: registry, Now: w.Clock.Now, Logger: log, Grace: time.Second},
		Publishing: publishing, Self: "shop",
		Logger: log, Now: w.Clock.Now,
	})
	w.must(err)
	t.Cleanup(w.board.Close)
	w.serve(w.board, change...)
	return w
}

// serve makes a new handler.
func (w *world) serve(b *board.Board, change ...func(*Config)) {
	w.t.Helper()
	keys, err := web.NewNamedKeys([]string{"ops:" + operator}, []string{reader})
	w.must(err)
	cfg := Config{Board: b, Schedules: w.schedules, DB: w.DB, Logger: slog.New(slog.NewTextHandler(w.log, nil))}
	cfg.Access = web.NewAccess(keys, nil, slog.New(slog.DiscardHandler)).LockingOut()
	for _, c := range change {
		c(&cfg)
	}
	w.config = cfg
	w.handler = New(cfg)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// send sends a request, and holds it and its answer against the document.
func (w *world) send(method, target string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	var text []byte
	if body == nil {
		body = http.NoBody
	} else if r, is := body.(*strings.Reader); is {
		text, _ = io.ReadAll(r)
		body = bytes.NewReader(text)
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, target, body)
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	w.compare(r, text, answer)
	return answer
}

// getAgain reads from the API, again as long as the machine is too busy to answer.
func (w *world) getAgain(target string) *httptest.ResponseRecorder {
	w.t.Helper()
	answer := w.send(http.MethodGet, target, nil)
	for began := time.Now(); answer.Code == http.StatusServiceUnavailable && time.Since(began) < await.Limit; {
		answer = w.send(http.MethodGet, target, nil)
	}
	return answer
}

type served struct {
	doc    *openapi3.T
	router routers.Router
}

var described = sync.OnceValues(func() (d served, err error) {
	made, _ := document("", comments())
	text, err := json.Marshal(made)
	if err != nil {
		return d, err
	}
	if d.doc, err = openapi3.NewLoader().LoadFromData(text); err == nil {
		d.router, err = gorillamux.NewRouter(d.doc)
	}
	return d, err
})

func (w *world) compare(r *http.Request, body []byte, answer *httptest.ResponseRecorder) {
	w.t.Helper()
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := answer.Header().Get(name); got != want {
			w.t.Errorf("%s %s: %s is %q", r.Method, r.URL, name, got)
		}
	}
	if media := answer.Header().Get("Content-Type"); media != "application/json" && media != web.ProblemJSON {
		w.t.Errorf("%s %s: Content-Type is %q", r.Method, r.URL, media)
	}
	d, err := described()
	w.must(err)
	route, path, err := d.router.FindRoute(r)
	if err != nil {
		if answer.Code != http.StatusNotFound && answer.Code != http.StatusMethodNotAllowed &&
			answer.Code != http.StatusUnauthorized {
			w.t.Errorf("%s %s: %d, and the document does not have it: %v", r.Method, r.URL, answer.Code, err)
		}
		return
	}
	if w.seen != nil {
		w.seen[route.Operation.OperationID+" "+http.StatusText(answer.Code)] = true
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	options := &openapi3filter.Options{
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: true,
	}
	request := &openapi3filter.RequestValidationInput{Request: again, PathParams: path, Route: route, Options: options}
	if answer.Code < 400 {
		if err := openapi3filter.ValidateRequest(r.Context(), request); err != nil {
			w.t.Errorf("%s %s is taken, and the document does not have it: %v", r.Method, r.URL, err)
		}
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: answer.Code,
		Header: answer.Header(), Options: options,
	}
	if err := openapi3filter.ValidateResponse(r.Context(), response.SetBodyBytes(answer.Body.Bytes())); err != nil {
		w.t.Errorf("%s %s: %d %.500s is not as the document has it: %.500v", r.Method, r.URL,
			answer.Code, answer.Body, err)
	}
}

// get reads something.
func get[T any](w *world, target string) (v T) {
	w.t.Helper()
	answer := w.getAgain(Prefix + target)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", target, answer.Code, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &v); err != nil {
		w.t.Fatalf("%s: %v: %s", target, err, answer.Body)
	}
	return v
}

// post asks for an action.
func (w *world) post(name, query, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.send(http.MethodPost, Prefix+"/actions/"+name+"?"+query, strings.NewReader(body))
}

// preview returns the plan of an action.
func (w *world) preview(name, body string) (p board.Plan) {
	w.t.Helper()
	answer := w.post(name, "preview=true", body)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("preview %s %s: %d %s", name, body, answer.Code, answer.Body)
	}
	w.must(json.Unmarshal(answer.Body.Bytes(), &p))
	return p
}

// do previews an action and does it, and waits until it has ended.
func (w *world) do(name, body string) board.Done {
	w.t.Helper()
	return w.ended(w.begin(name, body))
}

// begin previews an action and does it.
func (w *world) begin(name, body string) board.Done {
	w.t.Helper()
	plan := w.preview(name, body)
	answer := w.post(name, "confirm="+url.QueryEscape(plan.Confirm), body)
	var done board.Done
	w.must(json.Unmarshal(answer.Body.Bytes(), &done))
	if answer.Code != http.StatusOK && answer.Code != http.StatusAccepted {
		w.t.Fatalf("%s %s: %d %s", name, body, answer.Code, answer.Body)
	}
	if done.Text != plan.Text || done.Counts != plan.Counts {
		w.t.Errorf("%s: recorded %+v, planned %+v", name, done, plan)
	}
	return done
}

// ended waits until an action has ended.
func (w *world) ended(done board.Done) board.Done {
	w.t.Helper()
	await.True(w.t, "the action to end", func() bool {
		w.must(w.DB.GetContext(w.t.Context(), &done.Outcome,
			"select outcome from prescient.action where id = $1", done.ID))
		return done.Outcome != board.Running
	})
	var kept string
	w.must(w.DB.GetContext(w.t.Context(), &kept, "select result from prescient.action where id = $1", done.ID))
	done.Result = kept
	return done
}

// enqueue asks for checks of a job on orders.
func (w *world) enqueue(job string, at time.Time, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		j := jobs.Request{JobExec: job, EntityName: "order", EntityKey: key}
		j.CheckAt = at
		_, err := w.Client.Enqueue(w.t.Context(), jobs.OwnTx(w.DB), j)
		w.must(err)
	}
}
