package cmd

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// wire is a way to the database of a test that can fall silent: it accepts connections, and nothing
// gets through.
type wire struct {
	url    string
	silent sync.RWMutex // held for writing while nothing gets through
}

func newWire(t *testing.T) *wire {
	t.Helper()
	to, err := url.Parse(pgtest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	query, network, address := to.Query(), "tcp", to.Host
	if dir := query.Get("host"); strings.HasPrefix(dir, "/") {
		network, address = "unix", filepath.Join(dir, ".s.PGSQL."+query.Get("port"))
		query.Del("host")
		query.Del("port")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	to.Host, to.RawQuery = listener.Addr().String(), query.Encode()
	w := &wire{url: to.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.join(client, network, address)
		}
	}()
	return w
}

// join passes on what a client and the server send until one of them ends.
func (w *wire) join(client net.Conn, network, address string) {
	server, err := net.Dial(network, address)
	if err != nil {
		_ = client.Close()
		return
	}
	pass := func(to, from net.Conn) {
		part := make([]byte, 64<<10)
		for {
			n, err := from.Read(part)
			w.silent.RLock()
			_, lost := to.Write(part[:n])
			w.silent.RUnlock()
			if errors.Join(err, lost) != nil {
				_ = client.Close()
				_ = server.Close()
				return
			}
		}
	}
	go pass(server, client)
	pass(client, server)
}

// timed is an answer, and how long it took.
type timed struct {
	status int
	text   string
	took   time.Duration
}

// fetch asks a server.
func fetch(t *testing.T, method, url, token, body string) timed {
	t.Helper()
	began := time.Now()
	status, text := ask(t, method, url, token, body)
	return timed{status, text, time.Since(began)}
}

// A database that accepts connections and answers nothing, as one whose machine swaps or is stopped.
func TestAServerAnswersInTimeWhenItsDatabaseFallsSilent(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for time-outs")
	}
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	w := newWire(t)
	t.Setenv("PRESCIENT_DATABASE_URL", w.url)
	server := serve(t, "serve")
	if got := fetch(t, http.MethodGet, server+"/readyz", "", ""); got.status != http.StatusOK {
		t.Fatal(got)
	}
	w.silent.Lock()
	speaks := sync.OnceFunc(w.silent.Unlock)
	defer speaks()
	fell := time.Now()

	var all sync.WaitGroup
	for _, asked := range []struct{ method, path, token, body string }{
		{http.MethodGet, "/api/v1/checks", "", ""},
		{http.MethodGet, "/api/v1/history", "", ""},
		{http.MethodGet, "/api/v1/jobs", "", ""},
		{http.MethodGet, "/api/v1/slots/2026-03-01T12:00:00Z", "", ""},
		{http.MethodGet, "/api/v1/entity?entity_name=order&entity_key=1", "", ""},
		{http.MethodGet, "/waiting", "", ""},
		{http.MethodGet, "/slot?at=2026-03-01T12:00:00Z", "", ""},
		{http.MethodGet, schedules, operator, ""},
		{http.MethodPost, "/api/v1/actions/cancel?preview=true", operator, `{"entity_name": "order", "entity_key": "1"}`},
	} {
		all.Go(func() {
			most := 13 * time.Second // a deadline, a second's grace, and one of a busy machine
			if asked.method == http.MethodPost {
				most = 33 * time.Second
			}
			got := fetch(t, asked.method, server+asked.path, asked.token, asked.body)
			if got.status != http.StatusServiceUnavailable || got.took > most {
				t.Errorf("%s: %+v", asked.path, got)
			}
			if strings.HasPrefix(asked.path, "/api/") && !strings.Contains(got.text, "try again") {
				t.Errorf("%s: %s", asked.path, got.text)
			}
		})
	}
	ready := http.StatusOK
	for ready == http.StatusOK {
		got := fetch(t, http.MethodGet, server+"/readyz", "", "")
		if ready = got.status; got.took > 2*time.Second || time.Since(fell) > 25*time.Second {
			t.Fatalf("/readyz after %s: %+v", time.Since(fell), got)
		}
	}
	got := fetch(t, http.MethodGet, server+"/healthz", "", "")
	if got.status != http.StatusServiceUnavailable || got.took > 2*time.Second ||
		!strings.Contains(got.text, `["the database `) || !strings.Contains(got.text, `"age":"`) {
		t.Errorf("/healthz: %+v", got)
	}
	all.Wait()

	speaks()
	for again := time.Now(); ready != http.StatusOK; {
		if ready = fetch(t, http.MethodGet, server+"/readyz", "", "").status; time.Since(again) > 3*time.Minute {
			t.Fatal("it is not ready again")
		}
	}
}
