package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/cmd/internal/database"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestTheServerAnswersWhoMayAsk(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	url := serve(t, "serve")
	eventually(t, url+"/healthz", "", "", `{"ok":true,"problems":[]}`)
	status, body := ask(t, http.MethodGet, url+"/api/v1/overview", "", "") // from this machine
	var v struct {
		OK       bool `json:"ok"`
		Database struct {
			Version string `json:"version"`
		} `json:"database"`
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK || !v.OK || v.Database.Version == "" {
		t.Errorf("%d %s, %v", status, body, err)
	}
	const key = `{"entity_name": "order", "entity_key": "1"}`
	if status, _ := ask(t, http.MethodPost, url+"/api/v1/actions/cancel?preview=true", "", key); status != http.StatusForbidden {
		t.Errorf("who has no token may act: %d", status)
	}
	if status, body := ask(t, http.MethodPost, url+"/api/v1/actions/cancel?preview=true", operator, key); status != http.StatusOK || !strings.Contains(body, `"nothing":true`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(t, http.MethodGet, url+"/nowhere", "", ""); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/overview", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "rebound.example.com"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("asked by a name of somebody else's: %d", answer.StatusCode)
	}
}

func TestTheLogInPageNamesTheBinary(t *testing.T) {
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "fedcba9876543210")
	url := serve(t, "serve")
	if status, text := ask(t, http.MethodGet, url+"/login", "", ""); status != http.StatusOK || !strings.Contains(text, "<code>cmd.test serve</code>") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAServerWarnsOfTokensThatTravelUnencrypted(t *testing.T) {
	var log syncBuffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, &log
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:0123456789abcdef")
	t.Setenv("PRESCIENT_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
	for i, command := range []string{"serve", "daemon"} {
		app.Run(t.Context(), []string{command, "--listen", ":0"})
		if strings.Count(log.String(), "server.listen is :0: other machines reach it without TLS") != i+1 || strings.Contains(log.String(), "0123456789abcdef") {
			t.Errorf("%s logs\n%s", command, &log)
		}
	}
}

func TestReadingNeedsATokenWhereReadersHaveOne(t *testing.T) {
	const reader = "fedcba9876543210"
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", reader)
	url := serve(t, "serve")
	eventually(t, url+"/healthz", "", "problems", `{"ok":true}`)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "nobody's, and long": http.StatusUnauthorized, reader: http.StatusOK} {
		if status, body := ask(t, http.MethodGet, url+"/metrics", token, ""); status != want {
			t.Errorf("/metrics with %q: %d %s, want %d", token, status, body, want)
		}
	}
	eventually(t, url+"/metrics", reader, "", "\nprescient_authentication_failures_total 1\n")
	for token, want := range map[string]int{"": http.StatusUnauthorized, "nobody's, and long": http.StatusUnauthorized, reader: http.StatusOK} {
		if status, body := ask(t, http.MethodGet, url+"/api/v1/jobs", token, ""); status != want {
			t.Errorf("%q: %d %s, want %d", token, status, body, want)
		}
	}
}

func TestTheServerIsNotOpenToOthersWithoutAToken(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.URL(t))
	for name, args := range map[string][]string{
		"all addresses": {"--listen", ":0"},
		"one of them":   {"--listen", "192.0.2.1:0"},
		"a name":        {"--listen", "board.example.com:0"},
	} {
		t.Run(name, func(t *testing.T) { refusesToServe(t, args) })
	}
	t.Run("a proxy", func(t *testing.T) {
		t.Setenv("PRESCIENT_SERVER_PROXY", "https")
		refusesToServe(t, nil)
	})
}

func refusesToServe(t *testing.T, args []string) {
	t.Helper()
	var log syncBuffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, &log
	if code := app.Run(context.WithoutCancel(t.Context()), append([]string{"serve"}, args...)); code != Usage || !strings.Contains(log.String(), "server.token") {
		t.Errorf("exit code %d\n%s", code, &log)
	}
}

// writeStores has the settings list a store, one that is down, and a pattern; it returns the URL of the database.
func writeStores(t *testing.T) string {
	t.Helper()
	was := database.FindAgain
	database.FindAgain = 50 * time.Millisecond
	t.Cleanup(func() { database.FindAgain = was }) // when the last reader has ended
	database := pgtest.URL(t)
	t.Setenv("PRESCIENT_DATABASE_URL", database)
	file := filepath.Join(t.TempDir(), "prescient.yaml")
	list := "stores: [{name: shop}, {name: down, url: 'postgres://127.0.0.1:1/shop'}, {name: tenants, schema: tenant_*}]"
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PRESCIENT_CONFIG", file)
	return database
}

// eventually asks until an answer has these parts, and lacks one.
func eventually(t *testing.T, url, token, lacks string, parts ...string) {
	t.Helper()
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		_, text := ask(t, http.MethodGet, url, token, "")
		if (lacks == "" || !strings.Contains(text, lacks)) && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s lacks one of %q, or has %q:\n%s", url, parts, lacks, text)
		}
	}
}

func TestEveryStoreIsServedThatCanBeReached(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	database := writeStores(t)
	url := serve(t, "serve")
	eventually(t, url+"/healthz", "", "", `"store down: the database cannot be read"`, `"store tenants: the database cannot be read"`)
	eventually(t, url+"/api/v1/stores", "", "", `"name":"shop"`, "connect to the database", "no schema like tenant_* holds the tables")
	eventually(t, url+"/", "", "", `href="/stores/shop/"`, "no schema like tenant_* holds the tables", "2 stores cannot be read.")

	// A store that is made later is found, and the pattern is no problem any more.
	db, err := pgsql.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := pgsql.Migrate(t.Context(), db, "tenant_42"); err != nil {
		t.Fatal(err)
	}
	eventually(t, url+"/healthz", "", "store tenants:", `"store down: the database cannot be read"`)
	eventually(t, url+"/", "", "no schema like", `href="/stores/tenants/tenant_42/"`)
	const tenant = "/stores/tenants/tenant_42"
	for path, want := range map[string]string{
		tenant + "/": `href="` + tenant + `/jobs"`, tenant + "/jobs": "The tables are in schema tenant_42.", tenant + "/static/app.js": "ETag", tenant + "/api/v1/overview": `"schema":"tenant_42"`,
		"/stores/shop/api/v1/overview": `"schema":"prescient"`, tenant + "/api/v1/openapi.json": `"/stores/tenants/tenant_42/api/v1"`,
	} {
		if status, text := ask(t, http.MethodGet, url+path, "", ""); status != http.StatusOK || !strings.Contains(strings.ReplaceAll(text, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("%s: %d, and it lacks %s\n%.2000s", path, status, want, text)
		}
	}
	const key = `{"entity_name": "order", "entity_key": "1"}`
	if status, text := ask(t, http.MethodPost, url+tenant+"/api/v1/actions/cancel?preview=true", operator, key); status != http.StatusOK || !strings.Contains(text, `"nothing":true`) {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/api/v1/overview", "/stores/nobody/", "/stores/nobody/api/v1/overview", "/jobs"} {
		if status, text := ask(t, http.MethodGet, url+path, "", ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// answer sends a request without a token, follows no redirect, and returns what comes back without the name of the store.
func answer(t *testing.T, method, url, store, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url+"/stores/"+store+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	response.Header.Del("Date")
	response.Header.Del("Set-Cookie")
	response.Header.Del("Content-Length") // with the name
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`name="form_token" value="[^"]+"`).ReplaceAllString(fmt.Sprint(response.StatusCode, response.Header, string(body)), "")
	return strings.NewReplacer("stores/"+store, "stores/STORE", "stores%2F"+store, "stores%2FSTORE").Replace(text)
}

func TestWithoutATokenNobodyLearnsWhichStoresThereAre(t *testing.T) {
	const reader = "fedcba9876543210"
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", reader)
	writeStores(t)
	url := serve(t, "serve")
	eventually(t, url+"/stores/shop/api/v1/overview", reader, "", `"as_of"`)
	eventually(t, url+"/api/v1/stores", reader, "", "connect to the database")
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, path := range []string{
			"", "/", "/jobs", "/login", "/logout", "/live", "/nowhere", "/static/app.js", "/do/cancel", "/api", "/api/v1", "/api/v1/overview",
			"/api/v1/nowhere", "/api/v1/actions/cancel", "/api/v1/", "/jobs/api", schedules,
		} {
			want := answer(t, method, url, "nobody", path)
			for _, store := range []string{"shop", "down"} {
				if diff := cmp.Diff(want, answer(t, method, url, store, path)); diff != "" {
					t.Errorf("%s %s: store %s is told from one that is not there:\n%s", method, path, store, diff)
				}
			}
		}
	}
	if text := answer(t, http.MethodGet, url, "shop", "/jobs"); !strings.Contains(text, "Location:[/login?next=%2Fstores%2FSTORE%2Fjobs]") {
		t.Error(text)
	}
}

func TestAStoreThatIsDownAnswersThatItCannotBeRead(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	writeStores(t)
	url := serve(t, "daemon")
	for path, want := range map[string]string{
		"/stores/down/api/v1/overview": "store down cannot be read: ", "/stores/down" + schedules: "store down cannot be read: ",
		"/stores/tenants/tenant_1/api/v1/overview": "store tenants cannot be read: ", "/stores/down/jobs": "Store down cannot be read: ",
	} {
		if status, text := ask(t, http.MethodGet, url+path, operator, ""); status != http.StatusServiceUnavailable || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	eventually(t, url+"/stores/down/api/v1/overview", operator, "", `{"title":"Service Unavailable","status":503,"detail":"store down cannot be read: connect to the database: `)
	if status, text := ask(t, http.MethodGet, url+"/stores/nobody/api/v1/overview", operator, ""); status != http.StatusNotFound || !strings.Contains(text, `"status":404`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/stores/down"+schedules, "guessed-guessed-guessed", ""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, text)
	}
}

func TestAPathThatTheAPIDoesNotHaveSaysWhereTheOthersAre(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	url := serve(t, "serve")
	for _, path := range []string{"/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nowhere", "/api/schedules/v1/schedules", "/api/v2/jobs"} {
		status, text := ask(t, http.MethodGet, url+path, operator, "")
		if status != http.StatusNotFound || !strings.Contains(text, "there is no such path: /api/v1/openapi.json describes") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	writeStores(t)
	url = serve(t, "serve")
	eventually(t, url+"/stores/shop/api/v1/overview", operator, "", `"as_of"`)
	for path, want := range map[string]string{
		"/stores/shop/api/v1": "/stores/shop/api/v1/openapi.json describes", "/stores/shop/api/v1/nowhere": "/stores/shop/api/v1/openapi.json describes",
		"/api/v1": "/api/v1/stores lists the stores", "/api/v1/jobs": "below /stores/NAME/api/v1", "/stores/nobody/api/v1": "there is no store of this name",
	} {
		if status, text := ask(t, http.MethodGet, url+path, operator, ""); status != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func TestWithoutTheTablesTheServerSaysHowToMakeThem(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVER_TOKEN", "ops:"+operator)
	url := serve(t, "serve")
	db := sqlx.MustOpen("postgres", os.Getenv("PRESCIENT_DATABASE_URL"))
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("drop schema prescient cascade")
	for _, path := range []string{"/api/v1/jobs", schedules, schedules + "/report", "/jobs", "/schedules"} {
		if status, text := ask(t, http.MethodGet, url+path, operator, ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "prescient migrate up") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for path, body := range map[string]string{
		schedules: `{"id": "a", "crontab": "@daily"}`, "/api/v1/actions/pause-job?preview=true": `{"job_exec": "a"}`,
	} {
		if status, text := ask(t, http.MethodPost, url+path, operator, body); status != http.StatusServiceUnavailable || !strings.Contains(text, "prescient migrate up") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

func TestAnOpenPageOfAStoreHearsThatItsLogInHasEnded(t *testing.T) {
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "fedcba9876543210")
	writeStores(t)
	url := serve(t, "serve")
	eventually(t, url+"/stores/shop/api/v1/overview", "fedcba9876543210", "", `"as_of"`)
	for _, store := range []string{"shop", "nobody"} {
		if status, text := ask(t, http.MethodGet, url+"/stores/"+store+"/live", "", ""); status != http.StatusUnauthorized {
			t.Errorf("of store %s: %d %.200s", store, status, text)
		}
	}
}

func TestWrongTokensAreCountedOverAllStores(t *testing.T) {
	t.Setenv("PRESCIENT_SERVER_READ_TOKEN", "fedcba9876543210")
	writeStores(t)
	url := serve(t, "serve")
	eventually(t, url+"/stores/shop/api/v1/overview", "fedcba9876543210", "", `"as_of"`)
	for range 3 {
		for _, path := range []string{"/api/v1/stores", "/stores/shop/api/v1/overview"} {
			ask(t, http.MethodGet, url+path, "guessed-guessed-guessed", "")
		}
	}
	if status, _ := ask(t, http.MethodGet, url+"/api/v1/stores", "fedcba9876543210", ""); status != http.StatusTooManyRequests {
		t.Errorf("the sixth token of an address: %d", status)
	}
}

func TestOneStoreOfSeveralIsServedAsIfItWereTheOnlyOne(t *testing.T) {
	writeStores(t)
	url := serve(t, "serve", "--store", "shop")
	if status, text := ask(t, http.MethodGet, url+"/api/v1/overview", "", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, http.MethodGet, url+"/", "", ""); status != http.StatusOK || !strings.Contains(text, `href="/jobs"`) || strings.Contains(text, "All stores") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(t, http.MethodGet, url+"/api/v1/stores", "", ""); status != http.StatusNotFound {
		t.Errorf("the list of stores: %d", status)
	}
}
