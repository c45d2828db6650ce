package pages_test

import (
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
)

const tenant = "/stores/tenants/tenant_42"

// stores starts a server of three stores: a shop, another in trouble, and one that is down.
func stores(t *testing.T) (quiet, wrong *shop, b *browser) {
	t.Helper()
	quiet, wrong = &shop{World: story.New(t, nil), t: t}, &shop{World: story.New(t, nil), t: t}
	wrong.Live(3)
	wrong.Trouble()
	handler := story.Stores(t, map[string]*story.World{"shop": quiet.World, "tenants/tenant_42": wrong.World}, map[string]error{"billing": errors.New("connection refused")})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	quiet.server, wrong.server = server, server
	return quiet, wrong, quiet.browser()
}

func TestThePageOfAllStoresTellsTheWorstFirst(t *testing.T) {
	t.Parallel()
	quiet, _, b := stores(t)
	quiet.has(b.get("/", http.StatusOK), "<h1>Log in</h1>")
	body := b.login(story.ReadToken).get("/", http.StatusOK)
	rest := body
	for _, want := range []string{
		"Something is wrong in 2 of 3 stores", "1 store cannot be read.", "billing", "cannot be read", "connection refused",
		`href="` + tenant + `/">tenants/tenant_42</a>`, "things are wrong", `href="/stores/shop/">shop</a>`, "all is well",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or not in its place, in\n%s", want, body)
		}
		rest = after
	}
}

var asked = regexp.MustCompile(`<(?:a|form|link|script|body)[^>]* (?:href|src|action|data-live)="([^"#][^"]*)"`)

func TestEveryLinkOfAStoreStaysInIt(t *testing.T) {
	t.Parallel()
	_, wrong, b := stores(t)
	b.login(story.OperatorToken) // at /, for all of them
	todo, known, kinds := []string{tenant + "/", tenant + "/waiting?job=order.unshiped"}, map[string]bool{}, map[string]int{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		answer, body := b.send(http.MethodGet, path, nil)
		if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
		if strings.Contains(path, "/static/") {
			continue
		}
		wrong.has(body, `<a class="store" href="`+tenant+`/">tenants/tenant_42</a>`, "Log out otto")
		for _, m := range asked.FindAllStringSubmatch(body, -1) {
			next := html.UnescapeString(m[1])
			u, err := url.Parse(next)
			wrong.must(err)
			switch {
			case next == "/":
			case !strings.HasPrefix(next, tenant+"/"):
				t.Errorf("%s leads to %s", path, next)
			case !known[next] && kinds[u.Path] < 2 && !strings.HasSuffix(u.Path, "/live") && !strings.HasSuffix(u.Path, "/logout"):
				known[next] = true
				kinds[u.Path]++
				todo = append(todo, next)
			}
		}
	}
	for _, path := range []string{"/", "/ledger", "/jobs", "/job", "/slot", "/schedules", "/schedule", "/events", "/alerts", "/actions", "/waiting", "/ended", "/entity", "/do/cancel", "/static/app.js"} {
		if kinds[tenant+path] == 0 {
			t.Errorf("no link leads to %s", path)
		}
	}
}

func TestWhatIsDoneInAStoreIsDoneThere(t *testing.T) {
	t.Parallel()
	quiet, wrong, b := stores(t)
	for _, s := range []*shop{quiet, wrong} {
		s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42"}, s.Now().Add(2*time.Hour))
	}
	quiet.has(b.get(tenant+"/do/cancel?name=order&key=42", http.StatusOK), "<h1>Log in</h1>", `action="`+tenant+`/login?next=`)
	b.login(story.OperatorToken)
	page := b.get(tenant+"/do/cancel?name=order&key=42", http.StatusOK)
	m := regexp.MustCompile(`action="(` + tenant + `/do/cancel[^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("there is no form in\n%s", page)
	}
	form := url.Values{"form_token": {tokenOfForm.FindStringSubmatch(page)[1]}}
	answer, body := b.send(http.MethodPost, html.UnescapeString(m[1]), form)
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Request.URL.Path, tenant+"/actions") {
		t.Errorf("%d at %s\n%s", answer.StatusCode, answer.Request.URL, body)
	}
	quiet.has(b.get("/stores/shop/entity?name=order&key=42", http.StatusOK), "1 check waits.")
	quiet.has(b.get("/stores/shop", http.StatusOK), `<a class="store" href="/stores/shop/">`)
	b.get("/stores/nobody/", http.StatusNotFound)
	quiet.has(b.get("/stores/billing/jobs", http.StatusServiceUnavailable), "Store billing cannot be read: connection refused.")
	b.post(tenant+"/", tenant+"/logout", nil, http.StatusOK)
	quiet.has(b.get("/", http.StatusOK), "<h1>Log in</h1>")
	quiet.has(b.get("/stores/nobody/", http.StatusOK), "<h1>Log in</h1>")
}

func TestTheStoreThatHasAnEntityIsFound(t *testing.T) {
	t.Parallel()
	quiet, wrong, b := stores(t)
	wrong.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42"}, wrong.Now().Add(2*time.Hour))
	b.login(story.ReadToken)
	body := b.get("/entity?name=order&key=42", http.StatusOK)
	quiet.has(body, `href="`+tenant+`/entity?key=42&amp;name=order">tenants/tenant_42</a>`, "Stores that could not be asked", "connection refused")
	if strings.Contains(body, "/stores/shop/entity") {
		t.Errorf("a store that knows nothing of it is listed:\n%s", body)
	}
	quiet.has(b.get("/entity?name=ordre&key=42", http.StatusOK), "The key is that of ",
		`href="`+tenant+`/entity?key=42&amp;name=order">order 42</a> in tenants/tenant_42`)
	quiet.has(b.get("/entity?name=order&key=nobody", http.StatusOK), "No store that could be asked knows of it")
	quiet.has(b.get("/entity", http.StatusOK), "Find an entity")
}

func TestTheOpenPageOfAllStoresGetsWhatHasChanged(t *testing.T) {
	t.Parallel()
	quiet, _, b := stores(t)
	b.login(story.ReadToken)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/live", nil)
	quiet.must(err)
	answer, err := b.client.Do(r)
	quiet.must(err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	text, err := io.ReadAll(answer.Body)
	quiet.must(err)
	quiet.has(string(text), `"stores":`, `"verdict":`, "tenants/tenant_42")
}
