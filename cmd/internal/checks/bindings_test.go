package checks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/config"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// bound is a command whose settings bind jobs, with what it logs and publishes.
type bound struct {
	*factory.Factory
	t      *testing.T
	db     *sqlx.DB
	loaded config.Loaded
	bound  *Bound
	logs   bytes.Buffer

	mu     sync.Mutex
	events []event.Event
}

func setupBound(t *testing.T) *bound {
	t.Helper()
	b := &bound{t: t}
	b.Factory = factory.New(factory.Config{Name: "shop", Err: &b.logs, Registry: jobs.NewRegistry()})
	b.loaded.Config = config.Default()
	b.loaded.Config.Database.URL = config.NewURL(pgtest.URL(t))
	b.Use(b.loaded)
	var err error
	if b.db, err = database.Open(t.Context(), b.Factory); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.db.Close() })
	return b
}

// query binds a job to a query, http to a service.
func (b *bound) query(name, query string) *config.SQLJob {
	cfg := &b.loaded.Config
	cfg.SQLJobs = append(cfg.SQLJobs, config.SQLJob{Name: name, Query: query, Timeout: time.Minute, Concurrency: 2, Options: config.Options{MaxChecks: 2, Retry: 1}})
	return &cfg.SQLJobs[len(cfg.SQLJobs)-1]
}

func (b *bound) http(name, url string) *config.HTTPJob {
	cfg := &b.loaded.Config
	cfg.HTTPJobs = append(cfg.HTTPJobs, config.HTTPJob{Name: name, URL: config.NewEndpoint(url), Timeout: time.Minute, BatchSize: 10, Concurrency: 3, Options: config.Options{MaxChecks: 4}})
	return &cfg.HTTPJobs[len(cfg.HTTPJobs)-1]
}

func (b *bound) PublishTx(_ context.Context, _ jobs.Tx, events []event.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, events...)
	return nil
}

// bindAll binds, and releases at the end of the test.
func (b *bound) bindAll() {
	b.t.Helper()
	release, err := b.bind()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(release)
}

func (b *bound) bind() (release func(), err error) {
	b.Use(b.loaded)
	b.bound = &Bound{DB: b.db, Registry: b.Registry, Publisher: b}
	return b.bound.bind(b.Factory)
}

// run runs a slot with a row of each job, and returns what became of them.
func (b *bound) run(names ...string) map[string]string {
	b.t.Helper()
	at := time.Date(2030, time.March, 1, 12, 15, 0, 0, time.UTC)
	for _, name := range names {
		b.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
			values (prescient.ensure_job($1), 'order', '42', $2, $2)`, name, at)
	}
	cfg := b.bound.Runner(b.Factory, nil)
	cfg.Now = func() time.Time { return at }
	runner, err := slots.NewRunner(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := runner.Run(b.t.Context(), at); err != nil {
		b.t.Fatal(err)
	}
	var rows []struct{ Job, State string }
	err = b.db.SelectContext(b.t.Context(), &rows, `
		select job_exec as job, outcome || coalesce(' ' || last_error, '') as state from prescient.future_job_history
		union all select name, 'waits ' || coalesce(last_error, '') from prescient.future_job join prescient.job using (job)`)
	if err != nil {
		b.t.Fatal(err)
	}
	states := map[string]string{}
	for _, row := range rows {
		states[row.Job] = row.State
	}
	return states
}

const always = `select k as entity_key, '{}'::json as event from unnest($1::text[]) k`

func TestBoundJobsRunAsTheSettingsSay(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	var signatures string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signatures = r.Header.Get("webhook-signature")
		_, _ = io.WriteString(w, `{"results": []}`)
	}))
	t.Cleanup(service.Close)
	b.loaded.Config.Events.AllowedNetworks = config.Prefixes{netip.MustParsePrefix("127.0.0.0/8")}
	b.loaded.Config.Events.Secret = config.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	b.loaded.Config.Events.Source = "shop"
	b.query("a.query", always).Type = "com.example.query"
	b.http("a.service", service.URL)
	b.bindAll()

	states := b.run("a.query", "a.service")
	if states["a.query"] != "done" || states["a.service"] != "failed the answer has no result for the row" {
		t.Errorf("%v", states)
	}
	if len(b.events) != 1 || b.events[0].Source != "shop" || b.events[0].Type != "com.example.query" {
		t.Errorf("events %+v", b.events)
	}
	if !strings.HasPrefix(signatures, "v1,") {
		t.Errorf("signed %q", signatures)
	}
	query, _ := b.Registry.Lookup("a.query")
	http, _ := b.Registry.Lookup("a.service")
	if query.MaxChecks != 2 || query.Retry != 1 || query.Concurrency != 2 || http.MaxChecks != 4 || http.Concurrency != 3 || http.Timeout != time.Minute {
		t.Errorf("%+v\n%+v", query, http)
	}
}

func TestAServiceMayHaveASecretOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.loaded.Config.Events.Secret = config.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	b.http("a.service", "https://example.com").Secret = config.NewSecret("none")
	_, err := b.bind()
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "whsec_") || strings.Contains(err.Error(), "MfKQ") {
		t.Errorf("%v, want an error about the secret", err)
	}
}

func TestANameThatIsAGoJobIsAnErrorOfUsage(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	check := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	b.Registry.Register("order.unshipped", jobs.Row(check))
	b.Registry.Register("order.unpaid", jobs.Row(check))
	b.query("order.unshipped", always)
	b.http("order.unpaid", "https://example.com")
	_, err := b.bind()
	if exit.CodeOf(err) != exit.Usage {
		t.Fatalf("%v, want an error of usage", err)
	}
	for _, part := range []string{`http_jobs binds the job "order.unpaid"`, `sql_jobs binds the job "order.unshipped"`, "in Go"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nlacks %s", err, part)
		}
	}
}

func TestAQueryThatCannotRunIsLoggedAndHarmsItsOwnRowsAlone(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.query("good", always)
	b.query("bad", "select nothing from nowhere where k = any ($1)")
	b.query("far", always).Database = config.NewURL("host=/nonexistent dbname=x")
	b.bindAll()
	b.bound.logBroken(t.Context(), b.Factory)
	for _, part := range []string{`job=bad`, `relation \"nowhere\" does not exist at column 21`, `job=far`, "connect to the database"} {
		if !strings.Contains(b.logs.String(), part) {
			t.Errorf("%s\nlacks %s", b.logs.String(), part)
		}
	}
	states := b.run("good", "bad", "far")
	if states["good"] != "done" || !strings.Contains(states["bad"], "nowhere") || !strings.Contains(states["far"], "connect to the database") {
		t.Errorf("%v", states)
	}
}

func TestAStopWhileQueriesAreTriedBlamesNone(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.query("good", always)
	b.bindAll()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	b.bound.logBroken(stopped, b.Factory)
	if b.logs.Len() > 0 || b.bound.Broken {
		t.Error(b.logs.String())
	}
}

func TestQueriesOnOneDatabaseShareAPool(t *testing.T) {
	t.Parallel()
	b := setupBound(t)
	b.query("one", always)
	b.query("two", always)
	b.query("three", always).Database = b.loaded.Config.Database.URL
	b.Use(b.loaded)
	queries, release := queriesOf(b.Factory)
	defer release()
	var pools [3]pgsql.Pool
	for i, query := range queries {
		db, err := query.DB(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pools[i] = db
	}
	if pools[0] != pools[1] || pools[0] == pools[2] || pools[0] == pgsql.Pool(b.db) {
		t.Errorf("pools %p %p %p", pools[0], pools[1], pools[2])
	}
	if a, b := pools[0].Stats().MaxOpenConnections, pools[2].Stats().MaxOpenConnections; a != 4 || b != 2 {
		t.Errorf("they have %d and %d connections, want 4 and 2", a, b)
	}
}

func TestADatabaseThatIsDownAtFirstIsOpenedLater(t *testing.T) {
	t.Parallel()
	url, down := pgtest.URL(t), errors.New("down")
	p := &pool{size: 1, address: func(context.Context) (string, error) { return url, down }}
	if _, err := p.open(t.Context()); !errors.Is(err, down) {
		t.Fatalf("%v", err)
	}
	down = nil
	first, err := p.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.open(t.Context()); err != nil || again != first {
		t.Errorf("opened again: %v", err)
	}
	p.close()
	if err := first.PingContext(t.Context()); err == nil {
		t.Error("the pool is open after it was closed")
	}
}

func TestDoctorTriesTheQueriesOfSQLJobs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query  string
		want   string
		broken bool
	}{
		"good": {always, `^job a.b, on the database of the jobs: its query can run$`, false},
		"bad":  {"select 1 form x", `^job a.b, on the database of the jobs: query of job "a.b": syntax error at or near "x"`, true},
	} {
		b := setupBound(t)
		b.query("a.b", test.query)
		b.Use(b.loaded)
		tried := TryQueries(t.Context(), b.Factory)
		if len(tried) != 1 || !regexp.MustCompile(test.want).MatchString(tried[0].String()) {
			t.Errorf("%s: %v does not match %s", name, tried, test.want)
		}
		if broken := tried[0].Problem != ""; broken != test.broken {
			t.Errorf("%s: broken %t", name, broken)
		}
	}
}
