package cmd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestTheServerAnswersWhoMayAsk(t *testing.T) {
	const operator = "0123456789abcdef"
	t.Setenv("PRESCIENT_SERVE_TOKEN", "ops:"+operator)
	url := serve(t, "serve")
	if status, body := ask(t, http.MethodGet, url+"/healthz", "", ""); status != http.StatusOK || strings.TrimSpace(body) != `{"problems":[]}` {
		t.Errorf("%d %s", status, body)
	}
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

func TestReadingNeedsATokenWhereReadersHaveOne(t *testing.T) {
	const reader = "fedcba9876543210"
	t.Setenv("PRESCIENT_SERVE_READ_TOKEN", reader)
	url := serve(t, "serve")
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
		t.Setenv("PRESCIENT_SERVE_PROXY", "https")
		refusesToServe(t, nil)
	})
}

func refusesToServe(t *testing.T, args []string) {
	t.Helper()
	var log syncBuffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = io.Discard, &log
	if code := app.Run(context.WithoutCancel(t.Context()), append([]string{"serve"}, args...)); code != Usage || !strings.Contains(log.String(), "serve.token") {
		t.Errorf("exit code %d\n%s", code, &log)
	}
}
