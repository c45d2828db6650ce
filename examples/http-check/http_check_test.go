// Package httpcheck tests the example as it is: its service, its configuration, and the stock
// binary.
package httpcheck

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// asBinary makes the test binary be prescient.
const asBinary = "HTTP_CHECK_TEST_AS_BINARY"

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestMain(m *testing.M) {
	if os.Getenv(asBinary) != "" {
		cmd.Main(jobs.NewRegistry())
		return
	}
	os.Exit(pgtest.Main(m))
}

func TestAnInvoiceThatIsNotPaidGetsThreeReminders(t *testing.T) {
	service := start(t)
	url := pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	due := time.Now().UTC().Truncate(time.Hour).Add(-4 * time.Hour)
	db.MustExec(`update prescient.setting set since = $1`, due)
	enqueue := func(invoice string) {
		db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
			values (prescient.ensure_job('invoice.overdue'), 'invoice', $1, $2, $2)`, invoice, due)
	}
	for _, invoice := range []string{"41", "42", "43"} {
		enqueue(invoice)
	}
	run := func() {
		t.Helper()
		c := exec.CommandContext(t.Context(), os.Args[0], "run", "--slot", due.Format(time.RFC3339))
		c.Env = append(os.Environ(), asBinary+"=1", "PRESCIENT_DATABASE_URL="+url, "PRESCIENT_CONFIG="+service.config,
			"PRESCIENT_EVENTS_SECRET="+secret)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run()
	diff(t, map[string]string{"41": "done", "42": "1 checks", "43": "there is no invoice 43"}, states(t, db))
	for range 2 { // tomorrow, and the day after
		due = due.Add(15 * time.Minute)
		db.MustExec(`update prescient.future_job set next_check_at = $1 where entity_key = '42'`, due)
		run()
	}
	diff(t, map[string]string{"41": "done", "42": "done", "43": "there is no invoice 43"}, states(t, db))
	for n := range 3 {
		diff(t, fmt.Sprintf("reminder %d for invoice 42", n+1), service.line())
	}
	due = due.Add(15 * time.Minute)
	if pgtest.OnCitus() {
		return // it restarts no sequence of a table
	}
	db.MustExec(`alter table prescient.future_job alter column id restart with 2`) // as a restore does
	enqueue("42")
	run()
	diff(t, "reminder 1 for invoice 42", service.line())
}

func TestARequestThatIsNotSignedIsRefused(t *testing.T) {
	service := start(t)
	for name, header := range map[string]http.Header{
		"unsigned":        {},
		"another's":       {"Webhook-Id": {"1"}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {"v1,c2lnbmF0dXJl"}},
		"of another time": {"Webhook-Id": {"1"}, "Webhook-Timestamp": {"1700000000"}, "Webhook-Signature": {"v1,c2lnbmF0dXJl"}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service.url, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		diff(t, name+": 401", fmt.Sprintf("%s: %d", name, resp.StatusCode))
	}
}

// process is the running service.
type process struct {
	t      *testing.T
	url    string
	config string // prescient.yaml with this URL
	out    *bufio.Reader
}

// start starts the service on a free port.
func start(t *testing.T) *process {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: the example is in Python")
	}
	c := exec.CommandContext(t.Context(), python, "service.py", "invoices.json", "0")
	c.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	reader, writer := io.Pipe()
	c.Stdout = writer
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = reader.Close()
		_ = c.Wait() // killed
		if t.Failed() {
			t.Logf("the service: %s", &stderr)
		}
	})
	p := &process{t: t, out: bufio.NewReader(reader)}
	var port int
	if _, err := fmt.Sscanf(p.line(), "listening on port %d", &port); err != nil {
		t.Fatal(err)
	}
	p.url = fmt.Sprintf("http://localhost:%d/checks", port)
	config, err := os.ReadFile("prescient.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.config = filepath.Join(t.TempDir(), "prescient.yaml")
	here := strings.ReplaceAll(string(config), "http://localhost:8080/checks", p.url)
	if err := os.WriteFile(p.config, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// line reads a line that the service prints.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// states tells of each invoice the outcome, the error, or how often it was checked.
func states(t *testing.T, db *sqlx.DB) map[string]string {
	t.Helper()
	var rows []struct{ Invoice, State string }
	err := db.SelectContext(t.Context(), &rows, `
		select entity_key as invoice, outcome as state from prescient.future_job_history
		union all select entity_key, coalesce(last_error, check_count || ' checks') from prescient.future_job`)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, row := range rows {
		list[row.Invoice] = row.State
	}
	return list
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
