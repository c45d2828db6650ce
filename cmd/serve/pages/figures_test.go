package pages_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// The ledger has begun moments ago, and a slot of it was left open by a job that no runner knows.
func TestFiguresAreThoseOfTheDatabaseAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []time.Duration{time.Second, time.Minute, 15 * time.Minute} {
		t.Run(width.String(), func(t *testing.T) {
			t.Parallel()
			s := &shop{World: story.NewOfWidth(t, width, nil), t: t}
			s.server = httptest.NewServer(s.Pages)
			t.Cleanup(s.server.Close)
			registry := jobs.NewRegistry()
			registry.Register("review.ask", func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
			runner, err := slots.NewRunner(t.Context(), slots.Config{DB: s.DB, Registry: registry, Now: s.Clock.Now, Logger: slog.New(slog.DiscardHandler)})
			s.must(err)
			client, err := jobs.NewClient(t.Context(), s.DB, jobs.Config{Now: s.Clock.Now}) // which knows the width
			s.must(err)
			begin := s.Now()
			for i, job := range []string{"review.ask", "review.ask", "review.ask", "misspelt"} {
				check := jobs.FutureJob{JobExec: job, EntityName: "order", EntityKey: fmt.Sprint(i), CheckAt: begin.Add(2 * width)}
				_, err := client.Enqueue(t.Context(), s.DB, check, jobs.Keep)
				s.must(err)
			}
			for n := range 4 {
				s.Clock.Set(begin.Add(time.Duration(n+1) * width))
				_, err := runner.Run(t.Context(), s.Now())
				s.must(err)
			}
			b := s.browser().login(story.ReadToken)
			var done, checked string
			s.must(s.DB.Get(&done, `select count(*) from prescient.slot_run where state = 'done'`))
			s.must(s.DB.Get(&checked, `select sum(finished) from prescient.slot_tally`))
			if done == "0" || checked != "3" {
				t.Fatalf("%s slots are done, and %s rows of an open one were recorded", done, checked)
			}
			day := s.Now().Format(time.DateOnly)
			s.has(b.get("/ledger", http.StatusOK), day+`</a></th><td class="n">`+done+`</td>`, "<h1>Ledger of 1 day</h1>")
			s.has(b.get("/job?name=review.ask", http.StatusOK), day+`</th><td class="n">1</td><td class="n">`+checked+`</td>`)
		})
	}
}
