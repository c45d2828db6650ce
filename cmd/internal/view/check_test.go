package view_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/view"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

func TestAPayloadThatCannotBeWrittenBreaksNoList(t *testing.T) {
	t.Parallel()
	row := func(payload string) admin.HistoryRow {
		return admin.HistoryRow{FutureJob: jobs.FutureJob{Payload: json.RawMessage(payload)}}
	}
	deep := strings.Repeat("[", 10500) + strings.Repeat("]", 10500)
	text, err := json.Marshal(view.NewEnded([]admin.HistoryRow{row(deep), row(`{"n": 1}`)}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"payload":"not shown: it is nested more than 5000 levels deep"`, `"payload":{"n":1}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the list lacks %s", want)
		}
	}
}
