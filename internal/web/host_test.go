package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheServerIsAskedByNamesOfItsOwn(t *testing.T) {
	t.Parallel()
	names := []string{"batch.example.com", ".Shop.svc"}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "a.localhost": true, "127.0.0.1:8080": true, "[::1]:8080": true, "::1": true,
		"10.1.2.3": true, "batch.example.com": true, "Batch.Example.com.:443": true,
		"evil.example": false, "batch.example.com.evil.example": false, "localhost.evil.example": false, "": false, ":8080": false, "127.0.0.1.evil.example:80": false,
		"evilbatch.example.com": false, "a.batch.example.com": false,
		"notlocalhost": false, "orders.shop.svc:8080": true, "shop.svc": false, "orders-shop.svc": false,
	} {
		if got := HostIsOurs(host, names); got != want {
			t.Errorf("%q is ours: %v, want %v", host, got, want)
		}
	}
	if HostIsOurs("", []string{""}) {
		t.Error("nothing is a name of ours")
	}
}

func TestARequestForAnotherNameGetsAProblemAndABrowserAText(t *testing.T) {
	t.Parallel()
	guard := Guard([]string{"batch.example.com"}, "server.hosts", http.NotFoundHandler())
	for accept, media := range map[string]string{
		"": ProblemJSON, "*/*": ProblemJSON, "application/json": ProblemJSON,
		"text/html,application/xhtml+xml,*/*;q=0.8": "text/plain; charset=utf-8",
	} {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://evil.example/api/v1/overview", nil)
		request.Header.Set("Accept", accept)
		guard.ServeHTTP(answer, request)
		body := answer.Body.String()
		if answer.Code != http.StatusMisdirectedRequest || answer.Header().Get("Content-Type") != media || !strings.Contains(body, "server.hosts") ||
			strings.Contains(body, `"status":421`) != (media == ProblemJSON) {
			t.Errorf("%q: %d %v %s", accept, answer.Code, answer.Header(), body)
		}
	}
}
