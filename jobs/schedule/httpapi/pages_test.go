package httpapi_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"

	"github.com/prescient-go/prescient/internal/scheduleapi"
)

// A thousand payloads of 1 MiB are a gigabyte, in the server and in its client.
func TestAPageOfLargePayloadsEndsEarly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, err := w.db.ExecContext(t.Context(), `insert into prescient.schedule (id, crontab, anchor, payload)
		select chr(96 + n), '@daily', now(), to_jsonb(repeat('x', 1000000)) from generate_series(1, 12) as n`)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	pages := 0
	for after := ""; ; pages++ {
		answer := w.call("GET", "/schedules?limit=200&after="+url.QueryEscape(after), "")
		if answer.Code != 200 || answer.Body.Len() > 6<<20 {
			t.Fatalf("%d, with %d bytes", answer.Code, answer.Body.Len())
		}
		var page struct {
			Schedules []scheduleapi.View
			After     *string
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Schedules {
			ids = append(ids, s.ID)
		}
		if page.After == nil {
			break
		}
		after = *page.After
	}
	want := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	if !slices.Equal(ids, want) || pages != 2 {
		t.Errorf("%v on %d pages before the last, want %v on 2", ids, pages, want)
	}
}
