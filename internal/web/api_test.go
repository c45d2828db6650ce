package web

import (
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
