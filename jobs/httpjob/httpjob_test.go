package httpjob_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/httpjob"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var (
	noon     = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// world is a service, and the rows it is asked about.
type world struct {
	t      *testing.T
	db     *sqlx.DB
	schema string // empty: the default
	client *jobs.Client
	server *httptest.Server

	mu     sync.Mutex
	got    []*http.Request
	bodies []string
}

// setup starts a service that answers a request body with a status and a body.
func setup(t *testing.T, answer func(r request) (int, any)) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.New(t)}
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return noon }}); err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.got, w.bodies = append(w.got, req), append(w.bodies, string(body))
		w.mu.Unlock()
		var r request
		if err := json.Unmarshal(body, &r); err != nil {
			t.Error(err)
		}
		status, said := answer(r)
		rw.WriteHeader(status)
		if err := json.NewEncoder(rw).Encode(said); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(w.server.Close)
	return w
}

// request is the request that a service reads.
type request struct {
	Job  string
	Slot time.Time
	Rows []struct {
		ID        int64
		EntityKey string `json:"entity_key"`
	}
}

type result map[string]any

// each answers every row.
func each(say func(key string) result) func(r request) (int, any) {
	return func(r request) (int, any) {
		var results []result
		for _, row := range r.Rows {
			said := say(row.EntityKey)
			said["id"] = row.ID
			results = append(results, said)
		}
		return http.StatusOK, map[string]any{"results": results}
	}
}

func (w *world) due(list ...jobs.Request) {
	w.t.Helper()
	for _, job := range list {
		job.JobExec, job.EntityName = "overdue", "invoice"
		if job.CheckAt.IsZero() {
			job.CheckAt = slot(1)
		}
		if _, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), job); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) config(change ...func(*httpjob.Config)) httpjob.Config {
	cfg := httpjob.Config{Name: "overdue", URL: w.server.URL + "/checks", Secret: secret, Allow: loopback}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// run runs a slot.
func (w *world) run(at time.Time, cfg httpjob.Config, opts ...jobs.Option) slots.Result {
	w.t.Helper()
	return w.runWith(w.registry(cfg, opts...), at)
}

func (w *world) registry(cfg httpjob.Config, opts ...jobs.Option) *jobs.Registry {
	w.t.Helper()
	registry := jobs.NewRegistry()
	if err := httpjob.Register(registry, cfg, opts...); err != nil {
		w.t.Fatal(err)
	}
	return registry
}

func (w *world) runWith(registry *jobs.Registry, at time.Time) slots.Result {
	w.t.Helper()
	runner, err := slots.NewRunner(w.t.Context(), slots.Config{
		DB: w.db, Schema: w.schema, Registry: registry, Now: func() time.Time { return at.Add(1500 * time.Millisecond) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := runner.Run(w.t.Context(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// state tells what became of each entity's row: the outcome, or the slot and the error of one that
// waits.
func (w *world) state() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	ended, err := seq.Collect(admin.New(w.client).History(w.t.Context(), w.db, admin.HistoryFilter{Limit: 1000}))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range ended {
		state[e.EntityKey] = string(e.Outcome)
	}
	waiting, err := seq.Collect(admin.New(w.client).List(w.t.Context(), w.db, admin.Filter{Limit: 1000}))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range waiting {
		state[j.EntityKey] = strings.TrimSpace(j.NextCheckAt.Format(time.TimeOnly) + " " + j.LastError)
	}
	return state
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A daemon runs a slot beside the one before, and catch-up beside both.
func TestRequestsOfOneRunDoNotWaitForThoseOfAnother(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	both := make(chan struct{})
	w := setup(t, each(func(string) result {
		if arrived.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-time.After(10 * time.Second):
		}
		return result{"next": nil}
	}))
	w.due(jobs.Request{EntityKey: "first"}, jobs.Request{EntityKey: "second", CheckAt: slot(2)})
	registry := w.registry(w.config(func(c *httpjob.Config) { c.Concurrency, c.Timeout = 1, 5*time.Second }), jobs.Retry(0))
	var runs sync.WaitGroup
	for n := range 2 {
		runs.Go(func() { w.runWith(registry, slot(1+n)) })
	}
	runs.Wait()
	diff(t, map[string]string{"first": "done", "second": "done"}, w.state())
}

func invoices(keys ...string) (list []jobs.Request) {
	for _, key := range keys {
		list = append(list, jobs.Request{EntityKey: key})
	}
	return list
}

func TestTheServiceDecidesWhatBecomesOfEachRow(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(key string) result {
		switch key {
		case "later":
			return result{"next": slot(3).Add(-time.Minute)}
		case "broken":
			return result{"error": "the ledger does not answer"}
		}
		return result{"next": nil}
	}))
	w.due(invoices("paid", "later", "broken")...)
	w.run(slot(1), w.config())
	diff(t, map[string]string{"paid": "done", "later": "12:45:00", "broken": "12:30:00 the ledger does not answer"}, w.state())
	diff(t, 1, len(w.got))
}

func TestTheRequestTellsAllAboutTheRows(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(string) result { return result{} }))
	w.due(jobs.Request{EntityKey: "42", ItemKey: "second", GroupKey: "ada", Payload: json.RawMessage(`{"amount": 120}`)})
	w.run(slot(1), w.config())
	var row struct {
		Store      string
		ID         int64
		EnqueuedAt time.Time `db:"enqueued_at"`
	}
	if err := w.db.GetContext(t.Context(), &row, `select s.store, h.id, h.enqueued_at from prescient.future_job_history h, prescient.setting s`); err != nil {
		t.Fatal(err)
	}
	diff(t, fmt.Sprintf(`{"store":"%s","job":"overdue","slot":"2030-03-01T12:15:00Z","rows":[{"id":%d,"enqueued_at":"%s","entity_name":"invoice",`+
		`"entity_key":"42","item_key":"second","group_key":"ada","payload":{"amount":120},"first_check_at":"2030-03-01T12:15:00Z","check_count":0,`+
		`"error_count":0,"last_error":"","caught_up":false,"lateness_seconds":1.5}]}`, row.Store, row.ID, row.EnqueuedAt.UTC().Format(time.RFC3339Nano)), w.bodies[0])
	diff(t, []string{"POST", "/checks", "application/json"}, []string{w.got[0].Method, w.got[0].URL.Path, w.got[0].Header.Get("Content-Type")})
}

func TestRequestsAreSigned(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(string) result { return result{} }))
	w.due(invoices("1")...)
	w.run(slot(1), w.config())
	header := w.got[0].Header
	var seconds int64
	if _, err := fmt.Sscan(header.Get(egress.HeaderTimestamp), &seconds); err != nil {
		t.Fatal(err)
	}
	signer, err := egress.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{}
	signer.Sign(want, header.Get(egress.HeaderID), time.Unix(seconds, 0), []byte(w.bodies[0]))
	diff(t, want.Get(egress.HeaderSignature), header.Get(egress.HeaderSignature))
}

func TestARequestThatComesAgainHasTheSameID(t *testing.T) {
	t.Parallel()
	status := http.StatusServiceUnavailable
	w := setup(t, func(request) (int, any) { return status, "closed for lunch" })
	w.due(invoices("1", "2")...)
	w.run(slot(1), w.config())
	ids := map[string]int{}
	for _, r := range w.got {
		ids[r.Header.Get(egress.HeaderID)]++
	}
	if len(ids) != 1 || len(w.got) != 3 {
		t.Errorf("%d requests with the ids %v, want 3 with one", len(w.got), ids)
	}
	for key, state := range w.state() {
		if !strings.HasPrefix(state, "12:30:00 post to http://127.0.0.1") || !strings.Contains(state, "status 503") || !strings.Contains(state, "closed for lunch") {
			t.Errorf("row %s: %s", key, state)
		}
	}
	// In the next slot the rows are in another state, and it is another request.
	status = http.StatusBadRequest
	w.run(slot(2), w.config())
	if last := w.got[len(w.got)-1].Header.Get(egress.HeaderID); ids[last] > 0 {
		t.Errorf("the id %s is used again", last)
	}
}

// identities returns the documented identity of each check that the service was asked for.
func (w *world) identities() (list []string) {
	w.t.Helper()
	for _, body := range w.bodies {
		var r struct {
			Store string
			Rows  []struct {
				ID         int64
				EnqueuedAt string `json:"enqueued_at"`
				CheckCount int    `json:"check_count"`
			}
		}
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			w.t.Fatal(err)
		}
		for _, row := range r.Rows {
			list = append(list, fmt.Sprint(r.Store, " ", row.ID, " ", row.EnqueuedAt, " ", row.CheckCount))
		}
	}
	return list
}

// areApart expects two requests for the row 1, of checks that the service can tell apart.
func (w *world) areApart() {
	w.t.Helper()
	for _, body := range w.bodies {
		if !strings.Contains(body, `"id":1,`) {
			w.t.Fatalf("the row has another id: %s", body)
		}
	}
	checks := w.identities()
	if len(checks) != 2 || checks[0] == checks[1] {
		w.t.Errorf("want two checks, got %q", checks)
	}
	if w.got[0].Header.Get(egress.HeaderID) == w.got[1].Header.Get(egress.HeaderID) {
		w.t.Error("two checks have the same webhook-id")
	}
}

func TestTheChecksOfTwoStoresAreNotTheSame(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it takes no insert of rows of another schema")
	w := setup(t, each(func(string) result { return result{} }))
	w.due(invoices("1")...)
	w.run(slot(1), w.config())
	w.schema = "other"
	if err := pgsql.Migrate(t.Context(), w.db, pgsql.Schema(w.schema)); err != nil {
		t.Fatal(err)
	}
	// One instant for both rows: the store alone tells them apart.
	if _, err := w.db.ExecContext(t.Context(), `
		insert into other.future_job (job, entity_name, entity_key, first_check_at, next_check_at, enqueued_at)
		select other.ensure_job('overdue'), entity_name, entity_key, first_check_at, first_check_at, enqueued_at from prescient.future_job_history`); err != nil {
		t.Fatal(err)
	}
	w.run(slot(1), w.config())
	w.areApart()
}

func TestARowThatGetsAnIDAgainAfterARestoreIsAnotherCheck(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it restarts no sequence of a table")
	w := setup(t, each(func(string) result { return result{} }))
	w.due(invoices("1")...)
	w.run(slot(1), w.config())
	if _, err := w.db.ExecContext(t.Context(), `alter table prescient.future_job alter column id restart with 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.ExecContext(t.Context(), `delete from prescient.slot_run`); err != nil {
		t.Fatal(err)
	}
	w.due(invoices("1")...)
	w.run(slot(1), w.config())
	w.areApart()
}

func TestTheSameCheckKeepsItsIdentityAfterAnError(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(string) result { return result{"error": "the ledger does not answer"} }))
	w.due(invoices("1")...)
	w.run(slot(1), w.config())
	w.run(slot(2), w.config())
	checks := w.identities()
	if len(checks) != 2 || checks[0] != checks[1] {
		t.Errorf("want one check twice, got %q", checks)
	}
}

func TestARequestHasNoMoreRowsThanItMayAndAFailedOneFailsItsRowsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, func(r request) (int, any) {
		if r.Rows[0].EntityKey == "3" {
			return http.StatusForbidden, "not yours"
		}
		return each(func(string) result { return result{} })(r)
	})
	w.due(invoices("1", "2", "3", "4", "5")...)
	w.run(slot(1), w.config(func(c *httpjob.Config) { c.BatchSize = 2 }))
	diff(t, 3, len(w.got))
	state := w.state()
	for _, key := range []string{"3", "4"} {
		if !strings.Contains(state[key], "status 403") {
			t.Errorf("row %s: %s", key, state[key])
		}
		delete(state, key)
	}
	diff(t, map[string]string{"1": "done", "2": "done", "5": "done"}, state)
}

// A row that the service cannot take must not end the checks of the others in its request.
func TestARowWhoseContentTheServiceRefusesFailsAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity} {
		w := setup(t, func(r request) (int, any) {
			for _, row := range r.Rows {
				if row.EntityKey == "3" {
					return status, "no such invoice"
				}
			}
			return each(func(string) result { return result{} })(r)
		})
		w.due(invoices("1", "2", "3", "4", "5")...)
		w.run(slot(1), w.config())
		state := w.state()
		if got := state["3"]; !strings.HasPrefix(got, "12:30:00 post to http") || !strings.Contains(got, fmt.Sprintf("status %d", status)) {
			t.Errorf("row 3: %s", got)
		}
		delete(state, "3")
		diff(t, map[string]string{"1": "done", "2": "done", "4": "done", "5": "done"}, state)
	}
}

func TestTheDeepestPayloadThatTheDatabaseTakesIsSent(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(string) result { return result{} }))
	w.due(invoices("1", "deepest", "2")...)
	if _, err := w.db.ExecContext(t.Context(), `
		update prescient.future_job set payload = (repeat('[', 5000) || repeat(']', 5000))::jsonb where entity_key = 'deepest'`); err != nil {
		t.Fatal(err)
	}
	w.run(slot(1), w.config())
	diff(t, map[string]string{"1": "done", "2": "done", "deepest": "done"}, w.state())
}

func TestAnAnswerThatIsNoneFailsTheRowsOfItsRequest(t *testing.T) {
	t.Parallel()
	w := setup(t, func(request) (int, any) { return http.StatusOK, "fine" })
	w.due(invoices("1", "2")...)
	w.run(slot(1), w.config())
	for key, state := range w.state() {
		if !strings.HasPrefix(state, "12:30:00 answer of http://127.0.0.1") || !strings.Contains(state, "not JSON of the form") {
			t.Errorf("row %s: %s", key, state)
		}
	}
}

func TestAServiceThatHangsIsLeftAfterTheTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := setup(t, func(request) (int, any) {
		<-release
		return http.StatusOK, nil
	})
	defer close(release)
	w.due(invoices("1")...)
	w.run(slot(1), w.config(func(c *httpjob.Config) { c.Timeout = 50 * time.Millisecond }))
	if got := w.state()["1"]; !strings.HasPrefix(got, "12:30:00 timeout after 50ms: post to http://127.0.0.1") {
		t.Errorf("%s", got)
	}
}

func TestAPrivateAddressIsRefusedUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(string) result { return result{} }))
	w.due(invoices("1")...)
	w.run(slot(1), w.config(func(c *httpjob.Config) { c.Allow = nil }))
	if got := w.state()["1"]; !strings.Contains(got, egress.ErrAddress.Error()) {
		t.Errorf("%s", got)
	}
	diff(t, 0, len(w.got))
}

func TestTheOptionsOfTheJobHold(t *testing.T) {
	t.Parallel()
	w := setup(t, each(func(key string) result {
		if key == "fails" {
			return result{"error": "no"}
		}
		return result{"next": slot(9)}
	}))
	w.due(invoices("fails", "goes on")...)
	w.run(slot(1), w.config(), jobs.Retry(0), jobs.MaxChecks(1))
	diff(t, map[string]string{"fails": "failed", "goes on": "max_checks"}, w.state())
}

func TestAMistakeInABindingIsRefusedWithoutShowingSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  httpjob.Config
		want string
	}{
		"no URL":            {httpjob.Config{Name: "a"}, "no http or https URL"},
		"another scheme":    {httpjob.Config{Name: "a", URL: "ftp://u:s3cret@example.com/s3cret"}, "no http or https URL"},
		"a URL cut in two":  {httpjob.Config{Name: "a", URL: "https://u:s3%cret@example.com"}, "cannot be parsed"},
		"a bad secret":      {httpjob.Config{Name: "a", URL: "https://example.com", Secret: "s3cret"}, "whsec_"},
		"negative size":     {httpjob.Config{Name: "a", URL: "https://example.com", BatchSize: -1}, "must be positive"},
		"a negative number": {httpjob.Config{Name: "a", URL: "https://example.com", Concurrency: -1}, "must be positive"},
	} {
		err := httpjob.Register(jobs.NewRegistry(), test.cfg)
		if err == nil || !strings.HasPrefix(err.Error(), `bind job "a" to a service: `) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
