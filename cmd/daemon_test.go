package cmd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// serve runs a daemon, or the server, until the test ends, and returns where it listens.
func serve(t *testing.T, command string, args ...string) (url string) {
	t.Helper()
	if os.Getenv("PRESCIENT_DATABASE_URL") == "" {
		t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	}
	var log syncBuffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, &log
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan Code, 1)
	go func() { ended <- app.Run(ctx, append([]string{command, "--listen", "127.0.0.1:0"}, args...)) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != Done {
			t.Errorf("exit code %d\n%s", code, &log)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if address := regexp.MustCompile(`msg=listening .*address=(\S+)`).FindStringSubmatch(log.String()); address != nil {
			return "http://" + address[1]
		}
	}
	t.Fatalf("it does not listen\n%s", &log)
	return ""
}

func TestADaemonAnswersTheProbesOfItsManifest(t *testing.T) {
	url := serve(t, "daemon")
	list := containers(t, "prescient-daemon.yaml")
	c := list[slices.IndexFunc(list, func(c container) bool { return c.Args[0] == "daemon" })]
	for _, path := range []string{c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path} {
		answer := 0
		for deadline := time.Now().Add(20 * time.Second); answer != http.StatusOK; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d", path, answer)
			}
			answer, _ = ask(t, http.MethodGet, url+path, "", "")
		}
	}
	if answer, _ := ask(t, http.MethodGet, url+"/schedules", "", ""); answer != http.StatusNotFound {
		t.Errorf("without daemon.token, /schedules: %d", answer)
	}
}

// ask sends a request and returns the status and the body of the answer.
func ask(t *testing.T, method, url, token, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

func TestADaemonServesSchedulesToWhoKnowsItsToken(t *testing.T) {
	const token = "a-token-for-this-test"
	t.Setenv("PRESCIENT_DAEMON_TOKEN", token+" the-token-of-another")
	t.Setenv("PRESCIENT_DAEMON_READ_TOKEN", "a-token-that-reads")
	url := serve(t, "daemon")
	for _, wrong := range []string{"", "another-token-altogether"} {
		if status, text := ask(t, http.MethodGet, url+"/schedules", wrong, ""); status != http.StatusUnauthorized {
			t.Errorf("with the token %q: %d %s", wrong, status, text)
		}
	}
	report := `{"id": "report-42", "crontab": "0 9 * * mon-fri", "timezone": "Europe/Berlin"}`
	if status, text := ask(t, http.MethodPost, url+"/schedules", token, report); status != http.StatusCreated {
		t.Errorf("create: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodDelete, url+"/schedules/report-42", "a-token-that-reads", ""); status != http.StatusForbidden {
		t.Errorf("delete, with a token that reads: %d %s", status, text)
	}
	for _, reader := range []string{token, "the-token-of-another", "a-token-that-reads"} {
		if status, text := ask(t, http.MethodGet, url+"/schedules", reader, ""); status != http.StatusOK || !strings.Contains(text, `"report-42"`) {
			t.Errorf("list: %d %s", status, text)
		}
	}
	if status, text := ask(t, http.MethodGet, url+"/healthz", "", ""); !strings.Contains(text, `"next"`) {
		t.Errorf("/healthz: %d %s", status, text)
	}
}

func TestADaemonRunsEveryStoreThatCanBeReached(t *testing.T) {
	const token = "a-token-for-this-test"
	t.Setenv("PRESCIENT_DAEMON_TOKEN", token)
	database := writeStores(t)
	url := serve(t, "daemon")
	eventually(t, url+"/readyz", token, "", `"ready":true`)
	eventually(t, url+"/healthz", token, "", `store down: connect to the database`, `store tenants: no schema like tenant_* holds the tables`, `"shop":{`)
	eventually(t, url+"/livez", token, "", `"alive":true`)

	// A store that is made later is found.
	db, err := pgsql.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := pgsql.Migrate(t.Context(), db, "tenant_42"); err != nil {
		t.Fatal(err)
	}
	eventually(t, url+"/metrics", token, "", `prescient_runs_total{kind="run",result="done",store="shop"} 1`,
		`prescient_runs_total{kind="run",result="done",store="tenants/tenant_42"} 1`, `prescient_database_up{store="shop"} 1`)
	eventually(t, url+"/healthz", token, "store tenants:", `"tenants/tenant_42":{`) // the pattern is no problem any more

	// The schedules of each have a path of their own.
	report := `{"id": "report-42", "crontab": "0 9 * * mon-fri"}`
	if status, text := ask(t, http.MethodPost, url+"/stores/tenants/tenant_42/schedules", token, report); status != http.StatusCreated {
		t.Errorf("create: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/stores/shop/schedules", token, ""); status != http.StatusOK || strings.Contains(text, "report-42") {
		t.Errorf("list of another store: %d %s", status, text)
	}
	for _, path := range []string{"/schedules", "/stores/down/schedules"} {
		if status, text := ask(t, http.MethodGet, url+path, token, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}

	// One that is taken away is gone, and no problem.
	if _, err := db.ExecContext(t.Context(), "drop schema tenant_42 cascade"); err != nil {
		t.Fatal(err)
	}
	eventually(t, url+"/healthz", token, `tenants/tenant_42`, `store tenants: no schema like`)
	eventually(t, url+"/metrics", token, `tenants/tenant_42`)
}

func TestADaemonServesItsMetrics(t *testing.T) {
	t.Setenv("PRESCIENT_DAEMON_TOKEN", "a-token-for-this-test") // the metrics need none
	url := serve(t, "daemon")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		status, text := ask(t, http.MethodGet, url+"/metrics", "", "")
		if status == http.StatusOK && strings.Contains(text, "\nprescient_database_up 1\n") &&
			strings.Contains(text, "\n"+`prescient_runs_total{kind="run",result="done"} 1`+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d\n%s", status, text)
		}
	}
}
