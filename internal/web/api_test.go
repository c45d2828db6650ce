package web

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWhatCannotBeWrittenIsAProblem(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	API{Logger: slog.New(slog.DiscardHandler)}.Answer(answer, httptest.NewRequest(http.MethodGet, "/", nil), math.NaN())
	if answer.Code != http.StatusInternalServerError || answer.Header().Get("Content-Type") != ProblemJSON || !strings.Contains(answer.Body.String(), `"status":500`) {
		t.Errorf("%d %v %s", answer.Code, answer.Header(), answer.Body)
	}
}

func TestTheCauseOfAProblemOfTheServerIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	api := API{Problem: func(err error) *Problem { return ProblemOf(err, nil) }, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	told, cause := NewProblem(http.StatusInternalServerError, "change 7 failed"), errors.New("a trigger has raised it")
	for _, err := range []error{told, errors.Join(told, cause)} {
		api.Fail(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), err)
	}
	if strings.Count(log.String(), "request failed") != 1 || !strings.Contains(log.String(), cause.Error()) {
		t.Errorf("logged: %s", &log)
	}
}

func TestWhoSendsNoTokenThatSomebodyHasIsToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	keys, err := NewNamedKeys([]string{"ops:0123456789abcdef"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	api := API{Problem: func(err error) *Problem { return ProblemOf(err, nil) }, Who: func(r *http.Request) (Who, bool, error) {
		token, _ := Bearer(r)
		who, known := keys.Find(token)
		return who, known, nil
	}}
	for token, want := range map[string]string{
		"ops:0123456789abcdef": "send it without the name and the colon",
		"0123456789abcdee":     "the token is not known",
		"":                     "send the header Authorization: Bearer, and the token",
	} {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		api.Handler("", 0, nil).ServeHTTP(answer, request)
		if answer.Code != http.StatusUnauthorized || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d %s", token, answer.Code, answer.Body)
		}
	}
}

func TestWhatAClientIsToDoNextIsInTheHeaders(t *testing.T) {
	t.Parallel()
	api := API{
		Problem: func(err error) *Problem { return ProblemOf(err, nil) },
		Who:     func(*http.Request) (Who, bool, error) { return Who{MayChange: true}, true, nil },
	}
	busy := func(http.ResponseWriter, *http.Request) (any, error) {
		return nil, NewProblem(http.StatusServiceUnavailable, "the database is restarting")
	}
	serve := api.serve(0, map[string]Route{
		http.MethodPost: {Method: http.MethodPost, Handle: busy}, http.MethodGet: {Method: http.MethodGet, Handle: busy},
	})
	for method, want := range map[string]struct {
		status            int
		header, value, no string
	}{
		http.MethodDelete: {http.StatusMethodNotAllowed, "Allow", "GET, POST", "Retry-After"},
		http.MethodGet:    {http.StatusServiceUnavailable, "Retry-After", "5", "Allow"},
	} {
		answer := httptest.NewRecorder()
		serve(answer, httptest.NewRequest(method, "/", nil))
		if h := answer.Header(); answer.Code != want.status || h.Get(want.header) != want.value || h.Get(want.no) != "" {
			t.Errorf("%s: %d %v", method, answer.Code, h)
		}
	}
}
