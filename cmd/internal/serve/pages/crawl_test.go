package pages_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/slots/grid"
)

// follow asks for pages, for every page that they link to, and so on, but for no more than so many
// of one path, or an eighth of that in a short test. Each has to answer 200. It returns how many did by path.
func (b *browser) follow(most int, from ...string) map[string]int {
	b.t.Helper()
	if testing.Short() {
		most = (most + 7) / 8
	}
	asked, known, todo := map[string]int{}, map[string]bool{}, from
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		answer, body := b.send(http.MethodGet, path, nil)
		refused := strings.Contains(path, "/do/run-check?") && answer.StatusCode == http.StatusUnprocessableEntity
		if answer.StatusCode != http.StatusOK && !refused { // a run works on the slot, or nobody here knows the job
			b.t.Errorf("GET %s: %d\n%s", path, answer.StatusCode, text(body))
		}
		for _, m := range linked.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(m[1])
			u, err := url.Parse(to)
			b.must(err)
			if u.Path != "" && !known[to] && asked[u.Path] < most {
				known[to] = true
				asked[u.Path]++
				todo = append(todo, to)
			}
		}
	}
	return asked
}

// text returns the main element of a page.
func text(body string) string {
	_, body, _ = strings.Cut(body, "<main")
	body, _, _ = strings.Cut(body, "</main>")
	return body
}

func TestEveryLinkOfAServerInWhichEverythingOccursAnswers(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.Live(3)
	from := []string{"/"}
	for _, e := range s.Leftovers() {
		from = append(from, "/entity?"+url.Values{"name": {e.EntityName}, "key": {e.EntityKey}}.Encode())
	}
	s.Trouble()
	s.deadLetters()
	b := s.browser().login(story.OperatorToken) // from here on pages may show what was read before
	s.has(b.get("/", http.StatusOK), "Schedules that missed something", "late-feed", "Slots that were not run to their end", "order.unshiped")
	answered := b.follow(210, from...)
	for _, path := range []string{
		"/", "/ledger", "/slot", "/jobs", "/job", "/advice", "/schedules", "/schedule", "/events", "/alerts", "/actions", "/waiting", "/ended", "/entity", "/do/catch-up",
		"/do/retry", "/do/cancel", "/do/cancel-many", "/do/resend-events", "/do/discard-events", "/do/forget-consumer", "/do/reschedule", "/do/pause-job", "/do/resume-job", "/do/trigger-schedule", "/do/backfill-schedule", "/do/pause-schedule", "/do/resume-schedule",
	} {
		if answered[path] == 0 {
			t.Errorf("no page links to %s", path)
		}
	}
}

func TestSlotsOfAnotherWidthKeepTheirPages(t *testing.T) {
	t.Parallel()
	widths := []time.Duration{20 * time.Minute, 8 * time.Minute, time.Second}
	if testing.Short() {
		widths = widths[1:2]
	}
	for _, width := range widths {
		t.Run(width.String(), func(t *testing.T) {
			t.Parallel()
			s := setup(t, nil)
			s.Live(2)
			g, err := grid.New(width)
			s.must(err)
			_, err = s.Ledger.SetWidth(t.Context(), g)
			s.must(err)
			s.browser().login(story.OperatorToken).follow(60, "/")
		})
	}
}

func TestEveryLinkOfAServerOfSeveralStoresAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("make test follows the links of one store of several: TestEveryLinkOfAStoreStaysInIt")
	}
	t.Parallel()
	_, _, b := stores(t)
	b.login(story.OperatorToken)
	answered := b.follow(40, "/")
	if answered[tenant+"/"] == 0 || answered[tenant+"/slot"] == 0 {
		t.Errorf("these answered: %v", answered)
	}
}
