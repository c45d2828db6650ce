// Package languages tests the examples in other languages as they are, with the stock binary.
package languages

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/egress"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/jobs/schedule/httpapi"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asBinary makes the test binary be prescient.
const asBinary = "LANGUAGES_TEST_AS_BINARY"

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	token  = "a-token-for-this-test"
)

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		cmd.Main(jobs.NewRegistry())
		return
	}
	os.Exit(pgtest.Main(m))
}

// example is an application in another language.
type example struct {
	dir     string
	build   string
	command []string // before the application's own arguments
	env     []string
	client  []string // prints the client of an OpenAPI document, which is the last argument
	file    string   // has the client
}

// need skips the test where a program cannot be run; which of them make test-all has fetched, where it
// can.
func need(t *testing.T, e example, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = e.dir, append(os.Environ(), e.env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("%s %s: %v\n%s\nwhat examples/%s needs is fetched by make languages", name, strings.Join(args, " "), err, out, e.dir)
	}
}

func python(t *testing.T) example {
	t.Helper()
	lib, err := filepath.Abs("../build/python")
	if err != nil {
		t.Fatal(err)
	}
	e := example{
		dir: "python", build: "true", command: []string{"python3", "orders.py"}, env: []string{"PYTHONPATH=" + lib, "PYTHONDONTWRITEBYTECODE=1"},
		client: []string{"python3", "generate.py"}, file: "schedules.py",
	}
	need(t, e, "python3", "-c", "import psycopg; from typing import NotRequired")
	return e
}

func typescript(t *testing.T) example {
	t.Helper()
	e := example{
		dir: "typescript", build: "node_modules/.bin/tsc", command: []string{"node", "dist/orders.js"},
		client: []string{"node_modules/.bin/openapi-typescript"}, file: "schedules.d.ts",
	}
	need(t, e, "node", "-e", "import('pg').then(() => import('openapi-fetch'))")
	return e
}

var examples = map[string]func(t *testing.T) example{"python": python, "typescript": typescript}

var update = flag.Bool("update", false, "write the clients")

func TestTheClientsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	document := servedDocument(t)
	for name, setup := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			c := exec.CommandContext(t.Context(), e.client[0], append(e.client[1:], document)...)
			c.Dir, c.Env = e.dir, append(os.Environ(), e.env...)
			got, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(e.dir, e.file)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), strings.TrimSpace(string(got))); diff != "" {
				t.Errorf("the OpenAPI document has changed: make clients\n%s", diff)
			}
		})
	}
}

// servedDocument returns the path of a file with the OpenAPI document, as it is served.
func servedDocument(t *testing.T) string {
	t.Helper()
	db := pgtest.New(t)
	store, err := schedule.NewStore(t.Context(), db, schedule.Config{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Config{Store: store, DB: db, Tokens: []string{token}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, r)
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, answer.Body.Bytes(), 0o600); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d: %v", answer.Code, err)
	}
	return path
}

// world is an application, and its database.
type world struct {
	t *testing.T
	example
	db  *sqlx.DB
	env []string
}

func TestAnApplicationAsksInItsTransactionsAndAnswersForWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, setup := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t)
			c := exec.CommandContext(t.Context(), e.build)
			c.Dir = e.dir
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", e.build, err, out)
			}
			w := &world{t: t, example: e}
			url := pgtest.URL(t)
			var err error
			if w.db, err = pgsql.Open(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.db.Close() })
			w.env = append(os.Environ(), append(e.env, "DATABASE_URL="+url, "WEBHOOK_SECRET="+secret, "SCHEDULES_TOKEN="+token)...)

			w.slotsOfASecond()
			w.app("tables")
			w.app("place", "41")
			w.app("place", "42")
			w.app("ship", "42")
			if out, err := w.try("break", "43"); err == nil || !strings.Contains(out, "rolled back") {
				t.Errorf("break: %v\n%s", err, out)
			}
			service := "http://localhost:" + w.begin(w.command, "serve", "0")(`listening on port (\d+)`)
			w.refuses(service)
			w.survives(service)
			w.failsByItself()
			w.env = append(w.env, "SCHEDULES_URL=http://"+w.daemon(url, service)+"/api/v1")

			w.becomes(map[string]string{"41": "done", "42": "cancelled"})
			var alerts []string
			if err := w.db.SelectContext(t.Context(), &alerts, `select order_id from alert`); err != nil {
				t.Fatal(err)
			}
			diff(t, []string{"41"}, alerts)

			diff(t, "daily @daily version 1\n", w.app("remind", "daily", "@daily"))
			diff(t, "daily @hourly version 2\n", w.app("remind", "daily", "@hourly"))
			if out, err := w.try("remind", "often", "often"); err == nil || !strings.Contains(out, "crontab") {
				t.Errorf("a bad crontab: %v\n%s", err, out)
			}
		})
	}
}

func (w *world) slotsOfASecond() {
	w.t.Helper()
	l, err := ledger.New(w.t.Context(), w.db, "", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	second, err := grid.New(time.Second)
	if err == nil {
		_, err = l.SetWidth(w.t.Context(), second)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// try runs the application, and returns what it prints.
func (w *world) try(args ...string) (string, error) {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), w.command[0], append(w.command[1:], args...)...)
	c.Dir, c.Env = w.dir, w.env
	out, err := c.CombinedOutput()
	return string(out), err
}

func (w *world) app(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", args, err, out)
	}
	return out
}

// begin starts a program that ends with the test. What it returns waits for a line that matches,
// and returns its group.
func (w *world) begin(command []string, args ...string) (wait func(pattern string) string) {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	c := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
	c.Dir, c.Env = w.dir, w.env
	reader, writer := io.Pipe()
	var log bytes.Buffer
	c.Stdout, c.Stderr = writer, writer
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines := bufio.NewReader(io.TeeReader(reader, &log))
	drained := make(chan struct{})
	w.t.Cleanup(func() {
		stop()
		_ = c.Wait() // killed
		_ = writer.Close()
		<-drained
		if w.t.Failed() {
			w.t.Logf("%s: %s", args, &log)
		}
	})
	return func(pattern string) string {
		w.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
				go func() { _, _ = io.Copy(io.Discard, lines); close(drained) }()
				return found[1]
			}
			if err != nil {
				close(drained)
				w.t.Fatalf("%s ended without a line %s: %v", args, pattern, err)
			}
		}
	}
}

// daemon starts a daemon that knows the service, and returns where it listens.
func (w *world) daemon(url, service string) (address string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "prescient.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	config := filepath.Join(w.t.TempDir(), "prescient.yaml")
	if err := os.WriteFile(config, bytes.ReplaceAll(text, []byte("http://localhost:8080"), []byte(service)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	p := &world{t: w.t, db: w.db, env: append(w.env, asBinary+"=1", "PRESCIENT_DATABASE_URL="+url, "PRESCIENT_CONFIG="+config,
		"PRESCIENT_EVENTS_SECRET="+secret, "PRESCIENT_SERVER_TOKEN="+token)}
	address = p.begin([]string{os.Args[0]}, "daemon", "--listen", "127.0.0.1:0")(`msg=listening address=(\S+)`)
	await.True(w.t, "the daemon to be ready", func() bool {
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return address
}

// refuses fails unless the service refuses what is not signed.
func (w *world) refuses(service string) {
	w.t.Helper()
	for name, header := range map[string]http.Header{
		"unsigned":        {},
		"another's":       {"Webhook-Id": {"1"}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {"v1,c2lnbmF0dXJl"}},
		"of another time": {"Webhook-Id": {"1"}, "Webhook-Timestamp": {"1700000000"}, "Webhook-Signature": {"v1,c2lnbmF0dXJl"}},
	} {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, service, strings.NewReader(`{"rows": []}`))
		if err != nil {
			w.t.Fatal(err)
		}
		r.Header = header
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = answer.Body.Close()
		diff(w.t, name+": 401", fmt.Sprintf("%s: %d", name, answer.StatusCode))
	}
}

// survives fails unless the service goes on when a caller goes away, and when the database ends its sessions.
func (w *world) survives(service string) {
	w.t.Helper()
	w.answers(service)
	c, err := net.Dial("tcp", strings.TrimPrefix(service, "http://"))
	if err == nil {
		_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.answers(service)
	if _, err = w.db.ExecContext(w.t.Context(), `select pg_terminate_backend(pid, 10000) from pg_stat_activity
		where datname = current_database() and query like '%insert into alert%' and pid <> pg_backend_pid()`); err != nil {
		w.t.Fatal(err)
	}
	w.answers(service)
}

// failsByItself fails unless the application tells of a transaction whose session the database ends, and ends by itself.
func (w *world) failsByItself() {
	w.t.Helper()
	lock, err := w.db.BeginTxx(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	lock.MustExec(`lock table orders`)
	ended := make(chan string, 1)
	go func() {
		out, _ := w.try("place", "44")
		ended <- out
	}()
	const waits = `select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
		where datname = current_database() and query like 'insert into orders%' and wait_event_type = 'Lock'`
	n := 0
	for deadline := time.Now().Add(await.Limit); n == 0; time.Sleep(20 * time.Millisecond) {
		if err := w.db.GetContext(w.t.Context(), &n, waits); err != nil || time.Now().After(deadline) {
			w.t.Fatalf("no session waits for the lock: %v", err)
		}
	}
	if out := <-ended; !strings.Contains(out, "terminating connection") || strings.Contains(out, "Unhandled") {
		w.t.Errorf("the application ended with\n%s", out)
	}
}

// answers waits until the service answers a request. It may fail once after its session has ended.
func (w *world) answers(service string) {
	w.t.Helper()
	signer, err := egress.NewSigner(secret)
	if err != nil {
		w.t.Fatal(err)
	}
	body := []byte(`{"rows": []}`)
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, service, bytes.NewReader(body))
		if err != nil {
			w.t.Fatal(err)
		}
		signer.Sign(r.Header, "1", time.Now(), body)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the service answers %d", answer.StatusCode)
		}
	}
}

// becomes waits until nothing waits any more, and compares what became of the orders.
func (w *world) becomes(want map[string]string) {
	w.t.Helper()
	waiting := 1
	for deadline := time.Now().Add(await.Limit); waiting > 0; time.Sleep(20 * time.Millisecond) {
		if err := w.db.GetContext(w.t.Context(), &waiting, `select count(*) from prescient.future_job`); err != nil || time.Now().After(deadline) {
			w.t.Fatalf("%d checks wait, %v", waiting, err)
		}
	}
	var rows []struct{ Order, Outcome string }
	if err := w.db.SelectContext(w.t.Context(), &rows, `select entity_key as "order", outcome from prescient.future_job_history`); err != nil {
		w.t.Fatal(err)
	}
	got := map[string]string{}
	for _, row := range rows {
		got[row.Order] = row.Outcome
	}
	diff(w.t, want, got)
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A variable of the example's own that begins like prescient's would be warned of by each of its
// commands.
func TestTheVariablesOfTheReadmesAreSettings(t *testing.T) {
	t.Parallel()
	shown := exec.CommandContext(t.Context(), os.Args[0], "config", "show", "--output", "json")
	shown.Env = append(os.Environ(), asBinary+"=1")
	settings, err := shown.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range examples {
		text, err := os.ReadFile(filepath.Join(name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`PRESCIENT_([A-Z_]+)=`).FindAllSubmatch(text, -1)
		if len(names) == 0 {
			t.Errorf("%s sets no variable", name)
		}
		for _, match := range names {
			key := strings.Replace(strings.ToLower(string(match[1])), "_", ".", 1)
			if key != "config" && !strings.Contains(string(settings), `"key": "`+key+`"`) {
				t.Errorf("%s sets %s, which is no setting", name, match[0])
			}
		}
	}
}
