package pages_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
)

// uncut is part of the texts of Hostile that no page shows whole. payload is the part that shows the payload of a
// schedule, which is whole.
var (
	uncut   = strings.Repeat("W", 4001)
	payload = regexp.MustCompile(`(?s)<pre .*</pre>`)
)

var value = regexp.MustCompile(`<(input|option)[^>]* value="[^"]*"`)

var linked = regexp.MustCompile(`<a[^>]* href="([^"]+)"`)

// crawl visits a page, and every page that one of those visited links to, a few of each kind.
func (b *browser) crawl(visit func(path, body string)) {
	b.t.Helper()
	todo, known, kinds := []string{"/waiting", "/", "/slot?at=" + b.Client.Grid().Floor(b.Now()).Format(time.RFC3339)}, map[string]bool{"/": true, "/waiting": true}, map[string]int{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		answer, body := b.send(http.MethodGet, path, nil)
		if answer.StatusCode >= http.StatusInternalServerError {
			b.t.Errorf("%s: %d\n%s", path, answer.StatusCode, body)
		}
		visit(path, body)
		for _, m := range linked.FindAllStringSubmatch(body, -1) {
			next := html.UnescapeString(m[1])
			u, err := url.Parse(next)
			b.must(err)
			if u.Path == "" || known[next] || kinds[u.Path] == 6 {
				continue
			}
			known[next] = true
			kinds[u.Path]++
			todo = append(todo, next)
		}
	}
}

func TestWhateverIsStoredIsShownAsText(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	s.Trouble()
	columns := s.Hostile()
	for _, column := range []string{
		"future_job.entity_name", "future_job.entity_key", "future_job.item_key", "future_job.last_error", "future_job.payload", "future_job_history.entity_key",
		"future_job_history.last_error", "future_job_history.runner", "job.name", "schedule.id", "schedule.payload", "slot_claim.runner", "slot_job.error",
		"event_outbox.id", "event_outbox.data", "event_consumer.name", "action.actor", "action.result",
	} {
		if !slices.Contains(columns, column) {
			t.Errorf("%s is not tested", column)
		}
	}
	b := s.browser().login(story.OperatorToken)
	escaped := map[string]bool{}
	b.crawl(func(path, body string) {
		body = value.ReplaceAllStringFunc(body, func(v string) string {
			return strings.ReplaceAll(v, "\u202e", "") // a browser sends values back as they are
		})
		for _, raw := range []string{"<script>hacked", "<img src=x", "\u202e"} {
			if i := strings.Index(body, raw); i >= 0 {
				t.Errorf("%.80s has %q: %s", path, raw, body[max(0, i-200):i+50])
			}
		}
		if len(body) > 1<<20 {
			t.Errorf("%.80s is %d bytes long", path, len(body))
		}
		if text := payload.ReplaceAllString(body, ""); strings.Contains(text, uncut) {
			t.Errorf("%.80s shows a text whole", path)
		}
		if strings.Contains(body, "&lt;script&gt;hacked") {
			u, err := url.Parse(path)
			s.must(err)
			escaped[u.Path] = true
		}
	})
	for _, path := range []string{"/", "/jobs", "/job", "/slot", "/schedules", "/schedule", "/events", "/waiting", "/ended", "/entity", "/do/cancel", "/do/pause-job"} {
		if !escaped[path] {
			t.Errorf("%s has shown none of the texts", path)
		}
	}
}
