package pages_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// shop is a world with a server.
type shop struct {
	*story.World
	t      *testing.T
	server *httptest.Server
}

// setup starts a server of an empty shop; change changes its settings.
func setup(t *testing.T, change func(*pages.Config)) *shop {
	t.Helper()
	s := &shop{World: story.New(t, change), t: t}
	s.server = httptest.NewServer(s.Pages)
	t.Cleanup(s.server.Close)
	return s
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// browser keeps cookies, as a browser does, and follows redirects. It runs no script.
type browser struct {
	*shop
	client *http.Client
	head   http.Header // of each request
}

func (s *shop) browser() *browser {
	jar, err := cookiejar.New(nil)
	s.must(err)
	// The end of another test's server closes the connections of http.DefaultTransport.
	client := &http.Client{Jar: jar, Transport: s.server.Client().Transport}
	return &browser{shop: s, client: client, head: http.Header{}}
}

// send makes a request, and returns the answer and its body.
func (b *browser) send(method, path string, form url.Values) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, strings.NewReader(form.Encode()))
	b.must(err)
	r.Header = b.head.Clone()
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if b.head["Origin"] == nil {
			r.Header.Set("Origin", b.server.URL)
		}
	}
	if host := b.head.Get("Host"); host != "" {
		r.Host = host
	}
	answer, err := b.client.Do(r)
	b.must(err)
	body, err := io.ReadAll(answer.Body)
	b.must(errors.Join(err, answer.Body.Close()))
	return answer, string(body)
}

// sendAgain sends a request that should get this status, again as long as the machine is too busy to answer it.
func (b *browser) sendAgain(method, path string, form url.Values, status int) (*http.Response, string) {
	b.t.Helper()
	answer, body := b.send(method, path, form)
	for began := time.Now(); answer.StatusCode == http.StatusServiceUnavailable && status == http.StatusOK &&
		time.Since(began) < await.Limit; {
		answer, body = b.send(method, path, form)
	}
	return answer, body
}

// get returns a page, which must have this status.
func (b *browser) get(path string, status int) string {
	b.t.Helper()
	answer, body := b.sendAgain(http.MethodGet, path, nil, status)
	if answer.StatusCode != status {
		b.t.Errorf("GET %s: %d, want %d\n%s", path, answer.StatusCode, status, body)
	}
	return body
}

var tokenOfForm = regexp.MustCompile(`name="form_token" value="([^"]+)"`)

// token is that of the forms of a page.
func (b *browser) token(page string) string {
	b.t.Helper()
	_, body := b.sendAgain(http.MethodGet, page, nil, http.StatusOK)
	m := tokenOfForm.FindStringSubmatch(body)
	if m == nil {
		b.t.Fatalf("%s has no form:\n%s", page, body)
	}
	return m[1]
}

// post sends a form of a page with its token.
func (b *browser) post(page, path string, form url.Values, status int) string {
	b.t.Helper()
	filled := url.Values{"form_token": {b.token(page)}}
	for name, values := range form {
		filled[name] = values
	}
	answer, body := b.send(http.MethodPost, path, filled)
	if answer.StatusCode != status {
		b.t.Errorf("POST %s: %d, want %d\n%s", path, answer.StatusCode, status, body)
	}
	return body
}

// login logs in.
func (b *browser) login(token string) *browser {
	b.t.Helper()
	form := url.Values{"form_token": {b.token("/login")}, "token": {token}}
	answer, body := b.send(http.MethodPost, "/login", form)
	if answer.StatusCode == http.StatusServiceUnavailable { // of the page behind the log-in
		answer, body = b.sendAgain(http.MethodGet, "/", nil, http.StatusOK)
	}
	if answer.StatusCode != http.StatusOK {
		b.t.Fatalf("log in: %d\n%s", answer.StatusCode, body)
	}
	return b
}

// has fails where a text lacks one of these.
func (s *shop) has(text string, all ...string) {
	s.t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			s.t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// deadLetters gives up on an event of schedule feed, and on another one.
func (s *shop) deadLetters() {
	s.t.Helper()
	_, err := s.DB.ExecContext(s.t.Context(), `insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		values ('desk', 'feed-1', 's', 't', 'feed', 3, '422', now()), ('desk', 'other-1', 's', 't', 'other', 3, '413', now())`)
	s.must(err)
}
