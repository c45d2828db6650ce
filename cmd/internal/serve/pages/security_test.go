package pages_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/cmd/internal/serve/pages"
	"github.com/prescient-go/prescient/jobs"
)

// reads are the pages that show something, and deeds those that do.
var (
	reads = []string{
		"/", "/ledger", "/slot?at=2026-03-01T13:15:00Z", "/jobs", "/job?name=order.unshipped", "/advice?name=order.unshipped", "/entity?name=order&key=1", "/schedules", "/schedule?id=report-42",
		"/events", "/alerts", "/actions", "/waiting", "/ended",
	}
	actionForms = []string{
		"/do/cancel?name=order&key=1", "/do/reschedule?job=order.unshipped&name=order&key=1&at=2h", "/do/retry?since=24h", "/do/pause-job?job=order.unshipped",
		"/do/resume-job?job=order.unshipped", "/do/catch-up", "/do/trigger-schedule?id=report-42", "/do/backfill-schedule?id=report-42&from=48h&to=24h",
		"/do/pause-schedule?id=report-42", "/do/resume-schedule?id=report-42",
	}
)

func TestWithoutATokenThereIsNothingToSeeAndNothingToDo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser()
	b.get("/live", http.StatusUnauthorized) // the script of an open page then says that the log-in has ended
	for _, path := range append(reads, actionForms...) {
		body := b.get(path, http.StatusOK)
		s.has(body, "<h1>Log in</h1>")
		if strings.Contains(body, "<nav") {
			t.Errorf("%s shows more than the log-in:\n%s", path, body)
		}
	}
	for _, path := range actionForms {
		s.has(b.post("/login", path, url.Values{"confirm": {"x"}}, http.StatusForbidden), "an operator")
	}
	s.has(b.get("/static/app.css", http.StatusOK), "--paper")
	b.get("/templates/layout.html", http.StatusNotFound)
	b.get("/static/", http.StatusNotFound)
}

func TestAReaderSeesEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(time.Hour))
	b := s.browser().login(story.ReadToken)
	for _, path := range actionForms {
		s.has(b.get(path, http.StatusForbidden), "This needs the token of an operator; you are logged in as a reader.")
		s.has(b.post("/", path, url.Values{"confirm": {"x"}}, http.StatusForbidden), "operator")
	}
	s.has(b.get("/entity?name=order&key=1", http.StatusOK), "1 check waits.")
}

func TestWhereReadingIsOpenActionsNeedAToken(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *pages.Config) { c.OpenReading = true })
	b := s.browser()
	s.has(b.get("/", http.StatusOK), "All is well", "Log in")
	for _, path := range actionForms {
		s.has(b.get(path, http.StatusOK), "<h1>Log in</h1>")
	}
	s.has(b.post("/login?next=%2Fdo%2Fcatch-up", "/login?next=%2Fdo%2Fcatch-up", url.Values{"token": {story.OperatorToken}}, http.StatusOK), "Catch up", "What to do with the rows")
	b.post("/", "/logout", nil, http.StatusOK)
	s.has(b.get("/do/catch-up", http.StatusOK), "<h1>Log in</h1>")
}

func TestAFormOfAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, s.Now().Add(time.Hour))
	const path = "/do/pause-job?job=order.unshipped"
	otto := s.browser().login(story.OperatorToken)
	good := otto.token(path)
	stranger := s.browser().login(story.OperatorToken).token(path)
	for name, test := range map[string]struct {
		head   http.Header
		token  string
		status int
	}{
		"ours":                                    {nil, good, http.StatusOK},
		"ours, by what browsers tell":             {http.Header{"Sec-Fetch-Site": {"same-origin"}}, good, http.StatusOK},
		"another origin":                          {http.Header{"Origin": {"https://evil.example"}}, good, http.StatusForbidden},
		"another port":                            {http.Header{"Origin": {"http://127.0.0.1:1"}}, good, http.StatusForbidden},
		"no origin that can be told":              {http.Header{"Origin": {"null"}}, good, http.StatusForbidden},
		"another site, by what they tell":         {http.Header{"Sec-Fetch-Site": {"cross-site"}}, good, http.StatusForbidden},
		"a neighbour, by what they tell":          {http.Header{"Sec-Fetch-Site": {"same-site"}}, good, http.StatusForbidden},
		"no token":                                {nil, "", http.StatusForbidden},
		"the token of another browser":            {nil, stranger, http.StatusForbidden},
		"no token, and no headers of any browser": {http.Header{"Origin": {""}}, "", http.StatusForbidden},
	} {
		for _, to := range []string{path, "/login", "/logout"} {
			b := s.browser().login(story.OperatorToken)
			b.client.Jar = otto.client.Jar
			for key, values := range test.head {
				b.head[key] = values
			}
			if test.status == http.StatusOK && to != path {
				continue // it would end the log-in
			}
			answer, body := b.send(http.MethodPost, to, url.Values{"form_token": {test.token}})
			if answer.StatusCode != test.status {
				t.Errorf("%s to %s: %d, want %d\n%s", name, to, answer.StatusCode, test.status, body)
			}
		}
	}
	s.has(otto.get("/", http.StatusOK), "Log out otto")
}

func TestAFormThatIsTooLargeIsNotTakenForOneOfAnotherSite(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.OperatorToken)
	row := strings.Repeat("%3C", 1<<10)
	body := b.post("/waiting", "/do/cancel-selected", url.Values{"row": slices.Repeat([]string{row}, 500)}, http.StatusRequestEntityTooLarge)
	s.has(body, "The form is larger than 1 MiB: select fewer rows, or send less text.")
}

func TestTooManyLogInsThatFailAreRefusedAndLogged(t *testing.T) {
	t.Parallel()
	log := new(bytes.Buffer)
	s := setup(t, func(c *pages.Config) {
		c.Access = story.Access(t, slog.New(slog.NewTextHandler(log, nil)), netip.MustParsePrefix("127.0.0.1/32"))
	})
	b := s.browser()
	from := func(address string) *browser { b.head.Set("X-Forwarded-For", "198.51.100.7, "+address); return b }
	wrong, right := url.Values{"token": {"guessed-guessed-guessed"}}, url.Values{"token": {story.OperatorToken}}
	for range 5 {
		s.has(from("192.0.2.1").post("/login", "/login", wrong, http.StatusForbidden), "This server does not know that token.")
	}
	s.has(from("192.0.2.1").post("/login", "/login", right, http.StatusTooManyRequests), "Try again in a minute.")
	from("192.0.2.2").post("/login", "/login", right, http.StatusOK)
	text := log.String()
	if strings.Count(text, "a token is wrong") != 5 || !strings.Contains(text, "address=192.0.2.1") || strings.Contains(text, "guessed") {
		t.Errorf("the log of wrong tokens is\n%s", text)
	}
	if want := `msg="logged in" name=otto operator=true address=192.0.2.2`; !strings.Contains(text, want) || strings.Contains(text, story.OperatorToken) {
		t.Errorf("the log lacks %s, or has the token\n%s", want, text)
	}
}

func TestALogInHasAnIdThatNobodyKnewBefore(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser()
	at, err := url.Parse(s.server.URL)
	s.must(err)
	b.get("/login", http.StatusOK)
	before := b.client.Jar.Cookies(at)[0]
	b.login(story.ReadToken)
	if after := b.client.Jar.Cookies(at)[0].Value; after == before.Value {
		t.Error("the id that the browser came with is that of the log-in")
	}
	other := s.browser()
	other.client.Jar.SetCookies(at, []*http.Cookie{{Name: before.Name, Value: before.Value, Path: "/"}})
	s.has(other.get("/", http.StatusOK), "<h1>Log in</h1>")
}

// inline finds what the policy forbids, and foreign finds requests to another server.
var (
	inline  = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	foreign = regexp.MustCompile(`(?i)(src|href|action)="(https?:)?//`)
)

func TestEveryAnswerForbidsWhatPagesDoNotNeed(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	s.Trouble()
	b := s.browser().login(story.OperatorToken)
	for _, path := range append(append(reads[:len(reads)-1:len(reads)-1], actionForms...), "/login", "/nothing", "/static/app.js") {
		answer, body := b.send(http.MethodGet, path, nil)
		for header, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := answer.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", path, header, got, want)
			}
		}
		if got := answer.Header.Get("Cache-Control"); !strings.HasPrefix(path, "/static") && got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
		if strings.HasPrefix(path, "/static") {
			continue
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %q, which the policy forbids", path, found)
		}
		if found := foreign.FindString(body); found != "" {
			t.Errorf("%s asks another server: %q", path, found)
		}
		for _, secret := range []string{story.ReadToken, story.OperatorToken, "postgres://"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s has %q", path, secret)
			}
		}
	}
}

func TestAnOpenPageGetsWhatHasChangedUntilTheLogInEnds(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.ReadToken)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	poll := func(tag string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+"/live", nil)
		s.must(err)
		r.Header.Set("If-None-Match", tag)
		answer, err := b.client.Do(r)
		s.must(err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	answer := poll("")
	parts := map[string]string{}
	s.must(json.NewDecoder(answer.Body).Decode(&parts))
	for _, id := range []string{"state", "verdict", "axis", "figures", "trouble"} {
		if parts[id] == "" {
			t.Errorf("there is no part %s", id)
		}
	}
	if answer := poll(answer.Header.Get("ETag")); answer.StatusCode != http.StatusNotModified {
		t.Errorf("%s, want 304 while nothing has changed", answer.Status)
	}
	b.client.CheckRedirect = nil
	b.post("/", "/logout", nil, http.StatusOK)
	if answer := poll(""); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s after the log-out", answer.Status)
	}
}
