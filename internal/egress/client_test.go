package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/egress"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// receiver is a server that keeps what it gets.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []*http.Request
	body []string
}

// serve starts a receiver whose answers are those of handle, which finds the body of the request
// unread.
func serve(t *testing.T, handle http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got, r.body = append(r.got, req), append(r.body, string(body))
		r.mu.Unlock()
		handle(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// requests returns what the receiver has got.
func (r *receiver) requests() ([]*http.Request, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got, r.body
}

func (r *receiver) url(t *testing.T, path string) *url.URL {
	t.Helper()
	u, err := url.Parse(r.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func ok(http.ResponseWriter, *http.Request) {}

func newClient(t *testing.T, cfg egress.Config) *egress.Client {
	t.Helper()
	cfg.Backoff = time.Millisecond
	client, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

var message = egress.Message{ID: "reminder-1772357400", ContentType: "application/json", Body: []byte(`{"a":1}`)}

func TestAMessageArrivesAsItIsAndSigned(t *testing.T) {
	t.Parallel()
	r := serve(t, ok)
	client := newClient(t, egress.Config{Secret: secret, Allow: loopback})
	to := r.url(t, "/hook%2F1?key=a%20b&prescient=1")
	to.User = url.UserPassword("me", "pw")
	if _, err := client.Post(t.Context(), to, message); err != nil {
		t.Fatal(err)
	}
	got, body := r.requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	req := got[0]
	if req.Method != "POST" || req.RequestURI != "/hook%2F1?key=a%20b&prescient=1" || body[0] != `{"a":1}` {
		t.Errorf("%s %s %s", req.Method, req.RequestURI, body[0])
	}
	if req.Header.Get("Content-Type") != "application/json" || req.Header.Get("Webhook-Id") != message.ID {
		t.Errorf("%v", req.Header)
	}
	if user, password, _ := req.BasicAuth(); user != "me" || password != "pw" {
		t.Errorf("authorization %q", req.Header.Get("Authorization"))
	}
	if !verify(req.Header, []byte(body[0]), secret, time.Now()) {
		t.Errorf("a receiver finds the signature wrong: %v", req.Header)
	}
}

func TestWithoutASecretAMessageHasAnIDAndNoSignature(t *testing.T) {
	t.Parallel()
	r := serve(t, ok)
	if _, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), r.url(t, "/"), message); err != nil {
		t.Fatal(err)
	}
	got, _ := r.requests()
	header := got[0].Header
	if header.Get("Webhook-Id") != message.ID || header.Get("Webhook-Signature") != "" || header.Get("Webhook-Timestamp") != "" {
		t.Errorf("%v", header)
	}
}

func TestALoopbackAddressIsRefusedByNumberAndByName(t *testing.T) {
	t.Parallel()
	r := serve(t, ok)
	client := newClient(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	to := r.url(t, "/")
	for _, host := range []string{"127.0.0.1", "localhost"} {
		to.Host = host + ":" + to.Port()
		if _, err := client.Post(t.Context(), to, message); !errors.Is(err, egress.ErrAddress) {
			t.Errorf("%s: %v", host, err)
		}
	}
	to.Host = "localhost:" + to.Port()
	if _, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), to, message); err != nil {
		t.Errorf("localhost although it is allowed: %v", err)
	}
	if got, _ := r.requests(); len(got) != 1 {
		t.Errorf("%d requests arrived", len(got))
	}
}

func TestARedirectThatKeepsTheBodyIsFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{307, 308} {
		target := serve(t, ok)
		r := serve(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, target.URL+"/new", status) })
		if _, err := newClient(t, egress.Config{Secret: secret, Allow: loopback}).Post(t.Context(), r.url(t, "/"), message); err != nil {
			t.Fatal(err)
		}
		got, body := target.requests()
		if len(got) != 1 || got[0].Method != "POST" || body[0] != `{"a":1}` || !verify(got[0].Header, []byte(body[0]), secret, time.Now()) {
			t.Errorf("%d: %v, %v", status, got, body)
		}
	}
}

func TestARedirectIsRefusedWhereItMustNotLead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		to     string
		want   string
		got    int // requests
	}{
		"301 loses the body":         {301, "/new", "301 to http://127.0.0.1", 1},
		"302 loses the body":         {302, "https://example.com/token", "302 to https://example.com would lose the body", 1},
		"303 loses the body":         {303, "/new", "would lose the body", 1},
		"to metadata":                {307, "http://169.254.169.254/latest/meta-data", "add 169.254.169.254/32 to events.allowed_networks", 1},
		"to a private address":       {308, "https://192.168.0.1/", "192.168.0.1 is not allowed. To allow it, add 192.168.0.1/32 to events.allowed_networks", 1},
		"to an address in an IPv6":   {307, "http://[::ffff:169.254.169.254]/", "add 169.254.169.254/32 to events.allowed_networks", 1},
		"to a file":                  {307, "file:///etc/passwd", "file:// is no http or https URL", 1},
		"in a circle":                {307, "/", "one more than the 3 that are followed", 4},
		"to nowhere":                 {307, "", "status 307", 1},
		"to what is no URL at all":   {307, "http://%zz", "failed to parse Location header", 1},
		"300, which is no redirect":  {300, "/new", "status 300", 1},
		"304, which is none as well": {304, "/new", "status 304", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.to != "" {
					w.Header().Set("Location", test.to)
				}
				w.WriteHeader(test.status)
			})
			client := newClient(t, egress.Config{MaxAttempts: 1, Allow: loopback})
			_, err := client.Post(t.Context(), r.url(t, "/"), message)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "token") {
				t.Errorf("%v, want %s", err, test.want)
			}
			if got, _ := r.requests(); len(got) != test.got {
				t.Errorf("%d requests", len(got))
			}
		})
	}
}

func TestWhatIsRefusedForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]int{"http://10.0.0.1/": 1, "/new": 4} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		_, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), r.url(t, "/"), message)
		if got, _ := r.requests(); err == nil || len(got) != want {
			t.Errorf("%s: %d requests, %v", to, len(got), err)
		}
	}
	var connections atomic.Int32
	secure := httptest.NewUnstartedServer(http.HandlerFunc(ok))
	secure.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	secure.StartTLS()
	defer secure.Close()
	u, err := url.Parse(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), u, message)
	if n := connections.Load(); err == nil || !strings.Contains(err.Error(), "certificate") || n != 1 {
		t.Errorf("a certificate of nobody: %d connections, %v", n, err)
	}
}

func TestAnErrorNamesTheHostAndNoSecretOfTheURL(t *testing.T) {
	t.Parallel()
	closed := serve(t, ok)
	closed.Close()
	full := "/services/hunter2/?token=hunter2"
	servers := map[string]*url.URL{
		"an answer":  serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }).url(t, full),
		"a redirect": serve(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, full, http.StatusFound) }).url(t, full),
		"a refusal":  {Scheme: "http", Host: "127.0.0.1:1", Path: "/hunter2"},
		"a scheme":   {Scheme: "gopher", Host: "127.0.0.1:1", Path: "/hunter2"},
		"no server":  closed.url(t, full),
		"a bad port": {Scheme: "http", Host: "127.0.0.1:b", Path: "/hunter2", RawQuery: "hunter2"},
	}
	for name, to := range servers {
		to.User = url.UserPassword("hunter2", "hunter2")
		allow := loopback
		if name == "a refusal" {
			allow = nil
		}
		_, err := newClient(t, egress.Config{Allow: allow}).Post(t.Context(), to, message)
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConnectionThatBreaksIsTriedAgain(t *testing.T) {
	t.Parallel()
	var once sync.Once
	r := serve(t, func(http.ResponseWriter, *http.Request) { once.Do(func() { panic(http.ErrAbortHandler) }) })
	if _, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), r.url(t, "/"), message); err != nil {
		t.Error(err)
	}
	if got, _ := r.requests(); len(got) != 2 {
		t.Errorf("%d requests", len(got))
	}
}

func TestAnErrorShowsTheBeginningOfTheAnswer(t *testing.T) {
	t.Parallel()
	r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "no such \x1b[31mfield\n%s", strings.Repeat("x", 1<<20))
	})
	_, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), r.url(t, "/"), message)
	status, found := errors.AsType[*egress.StatusError](err)
	want := `status 400 Bad Request: "no such \x1b[31mfield\nxxx`
	if !found || status.Status != 400 || len(status.Body) != 300 || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestAnErrorShowsNoPathAndNoQueryOfTheURLThatTheAnswerQuotes(t *testing.T) {
	t.Parallel()
	for name, quote := range map[string]func(req *http.Request) string{
		"the path":             func(req *http.Request) string { return "404: " + req.URL.Path + " not found" },
		"all of it":            func(req *http.Request) string { return "http://" + req.Host + req.RequestURI },
		"the query":            func(req *http.Request) string { return "wrong: " + req.URL.RawQuery },
		"the signature":        func(req *http.Request) string { return "wrong: " + req.URL.Query().Get("sig") },
		"a part of the path":   func(req *http.Request) string { return "no hook " + path.Base(req.URL.Path) },
		"the end of the error": func(req *http.Request) string { return strings.Repeat("x", 290) + req.URL.Path },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, func(w http.ResponseWriter, req *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, quote(req))
			})
			_, err := newClient(t, egress.Config{Allow: loopback}).Post(t.Context(), r.url(t, "/T00/s3cret-0123456789abcdef?sig=s3cret+0123456789abcdef"), message)
			if err == nil || strings.Contains(err.Error(), "s3cr") || strings.Contains(err.Error(), "/T00") || !strings.Contains(err.Error(), "***") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// By default, net/http reads 10 MB of headers, for each of the messages that are sent at once.
func TestTheHeadersOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{32 << 10, 128 << 10} {
		r := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", bytes)) })
		client := newClient(t, egress.Config{Allow: loopback})
		_, err := client.Post(t.Context(), r.url(t, "/"), message)
		if refused := err != nil && strings.Contains(err.Error(), "headers exceeded 65536 bytes"); refused != (bytes > 64<<10) {
			t.Errorf("headers of %d bytes: %v", bytes, err)
		}
	}
}

func TestAHostIsForbiddenIfAllItsAddressesAre(t *testing.T) {
	t.Parallel()
	for host, address := range map[string]string{
		"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "[::1]": "::1", "[::ffff:10.0.0.7]": "10.0.0.7", "93.184.216.34": "",
	} {
		to := &url.URL{Scheme: "https", Host: host}
		got, err := egress.Forbidden(t.Context(), to, nil)
		if wrong := address != "" && !slices.Contains(got, netip.MustParseAddr(address)); wrong || err != nil || address == "" && got != nil {
			t.Errorf("%s: %v, %v", host, got, err)
		}
		allowed := append(slices.Clone(loopback), netip.MustParsePrefix("10.0.0.0/8"))
		if got, err := egress.Forbidden(t.Context(), to, allowed); got != nil || err != nil {
			t.Errorf("%s although it is allowed: %v, %v", host, got, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := egress.Forbidden(ended, &url.URL{Scheme: "https", Host: "a.name.invalid"}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "look up a.name.invalid: ") {
		t.Errorf("a name that cannot be looked up: %v", err)
	}
}

func TestAnAnswerIsReadUpToItsLimit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit int64
		size  int
		want  int
		err   string
	}{
		"it is not wanted":         {0, 10, 0, ""},
		"it is long, not wanted":   {0, 1 << 20, 0, ""},
		"it is short":              {1000, 10, 10, ""},
		"there is none":            {1000, 0, 0, ""},
		"it is as long as allowed": {1000, 1000, 1000, ""},
		"it is longer":             {1000, 1001, 0, "the answer is too long: it has more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", test.size)) })
			answer, err := newClient(t, egress.Config{Allow: loopback, MaxResponseBytes: test.limit}).Post(t.Context(), r.url(t, "/"), message)
			if len(answer) != test.want || (err == nil) != (test.err == "") || err != nil && !strings.HasSuffix(err.Error(), test.err) {
				t.Errorf("%d bytes, %v", len(answer), err)
			}
			if got, _ := r.requests(); len(got) != 1 {
				t.Errorf("%d requests", len(got))
			}
		})
	}
}

func TestAReceiverThatHangsIsLeftWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	r := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		close(arrived)
		<-req.Context().Done()
	})
	errStopped := errors.New("stopped by a test")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(errStopped)
	}()
	if _, err := newClient(t, egress.Config{Allow: loopback}).Post(ctx, r.url(t, "/"), message); !errors.Is(err, errStopped) {
		t.Error(err)
	}
}

func TestABodyThatNobodyReadsHoldsNoMessageUntilTheTimeout(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		r := serve(t, func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("a byte"))
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		})
		_, err := newClient(t, egress.Config{Allow: loopback, Timeout: time.Hour}).Post(t.Context(), r.url(t, "/"), message)
		if (err == nil) != (status == http.StatusOK) || err != nil && !strings.Contains(err.Error(), "a byte") {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestATryThatIsTooSlowIsLeft(t *testing.T) {
	t.Parallel()
	r := serve(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	client := newClient(t, egress.Config{Allow: loopback, Timeout: 20 * time.Millisecond, MaxAttempts: 2})
	if _, err := client.Post(t.Context(), r.url(t, "/"), message); err == nil || !strings.HasSuffix(err.Error(), "no answer within 20ms") {
		t.Error(err)
	}
}
