package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
)

func TestFormsOfferTheNamesThatThereAre(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: `par"cel`, EntityKey: "1"}, s.Now().Add(2*time.Hour))
	_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: "feed", Crontab: "0 * * * *"})
	s.must(err)
	_, err = s.Outbox.Ack(t.Context(), "mailer", outbox.Position{})
	s.must(err)
	f := &figures{shop: s, text: map[string]string{}}
	f.liveWithARule()
	b := s.browser().login(story.OperatorToken)
	for path, want := range map[string][]string{
		"/do/cancel-many":    {`list="l-job"`, `<option value="review.ask">`, `list="l-name"`, `<option value="par&#34;cel">`},
		"/do/retry":          {`<datalist id="l-job">`, `<option value="review.ask">`},
		"/do/ack":            {`<option value="order.unshipped">`},
		"/do/catch-up":       {`<option value="order.unshipped">`},
		"/do/resend-events":  {`list="l-subject"`, `<option value="feed">`, `list="l-destination"`, `<option value="mailer">`},
		"/do/discard-events": {`<option value="mailer">`},
	} {
		s.has(b.get(path, http.StatusOK), want...)
	}
	for path, want := range map[string]string{ // a link without its value
		"/do/pause-job": "review.ask", "/do/trigger-schedule": "feed", "/do/remove-rule": "order.late", "/do/forget-consumer": "mailer", "/do/cancel?key=1": "par&#34;cel",
	} {
		s.has(b.get(path, http.StatusUnprocessableEntity), `<option value="`+want+`">`)
	}
}

func TestFiguresThatAreZeroAreNotShownAndTheOthersAreLinks(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for _, key := range []string{"1", "2"} {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: key}, s.Now().Add(30*time.Minute))
	}
	s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: "1", Payload: []byte(`{"broken": true}`)}, s.Now().Add(30*time.Minute))
	s.Enqueue(jobs.Request{JobExec: "cart.kept", EntityName: "cart", EntityKey: "1"}, s.Now().Add(20*time.Hour))
	slot := s.Client.Grid().Ceil(s.Now().Add(30 * time.Minute))
	s.RunFor(time.Hour)
	b := s.browser().login(story.ReadToken)
	for path, want := range map[string]struct{ shown, hidden []string }{
		"/job?name=review.ask": {
			[]string{
				`<dt>Checked</dt><dd><a href="/job?name=review.ask#slots">2</a>`, "<dt>Lateness</dt>", "in the registry of a run <time",
				"(noted once an hour, also if no row is due)", "<h3>Took</h3>", "Took: from the opening of a slot to the last row of this job.",
			},
			[]string{"<dt>Failed</dt>", "<dt>Given up</dt>", "max_checks", "<dt>SLA</dt>"},
		},
		"/job?name=invoice.unpaid": {
			[]string{
				`<dt>Given up</dt><dd><a href="/ended?job=invoice.unpaid&amp;outcome=failed"><span class="mark bad">1</span></a>`,
				`<dt>Failed</dt><dd><a href="/job?name=invoice.unpaid#errors"><span class="mark bad">1</span></a>`, `id="errors"`,
			},
			[]string{"max_checks"},
		},
		"/job?name=cart.kept": {[]string{"Nothing was checked in 24 hours."}, []string{"<dl"}},
		"/slot?at=" + slot.Format(time.RFC3339): {
			[]string{`<dt>Rows</dt><dd><a href="/slot?at=` + strings.ReplaceAll(slot.Format(time.RFC3339), ":", "%3A") + `#jobs">3</a>`, "<dt>Finished</dt>", "<dt>Failed</dt>", `id="jobs"`},
			[]string{"<dt>Rescheduled</dt>"},
		},
	} {
		page := b.get(path, http.StatusOK)
		s.has(page, want.shown...)
		for _, no := range want.hidden {
			if strings.Contains(text(page), no) {
				t.Errorf("%s shows %s:\n%s", path, no, text(page))
			}
		}
	}
}
