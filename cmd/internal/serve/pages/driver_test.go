package pages_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
)

// The name of the driver before a message of the server says nothing to a person.
func TestNoPageNamesTheDriverBeforeAnError(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	s.Trouble()
	s.deadLetters()
	const says = `relation "shop.parcel" does not exist (42P01)`
	for _, column := range []string{
		"future_job.last_error", "future_job_history.last_error", "slot_job.error", "slot_progress.error", "event_dead.error",
	} {
		table, name, _ := strings.Cut(column, ".")
		s.DB.MustExec(`update prescient.`+table+` set `+name+` = 'call the function: pq: ' || $1::text`, says)
	}
	s.DB.MustExec(`update prescient.future_job set error_count = 1`)
	s.DB.MustExec(`insert into prescient.action (by_role, actor, what, target, plan, row_count, slots, schedules, events, outcome, result, finished_at)
		values ('shop', 'otto', 'catch-up', '', 'Catches up', 0, 0, 0, 0, 'failed', 'pq: ' || $1::text, now())`, says)
	b := s.browser().login(story.OperatorToken)
	shown := map[string]bool{}
	b.crawl(func(path, body string) {
		if i := strings.Index(body, "pq:"); i >= 0 {
			t.Errorf("%.80s names the driver: %s", path, body[max(0, i-100):min(len(body), i+60)])
		}
		if strings.Contains(body, "does not exist (42P01)") {
			u, err := url.Parse(path)
			s.must(err)
			shown[u.Path] = true
		}
	})
	for _, path := range []string{"/", "/jobs", "/job", "/slot", "/events", "/waiting", "/ended", "/actions"} {
		if !shown[path] {
			t.Errorf("%s shows none of the errors", path)
		}
	}
}
