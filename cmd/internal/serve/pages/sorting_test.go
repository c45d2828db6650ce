package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

var (
	firstCell = regexp.MustCompile(`<tr>(?:<td>.*?</td>)*<th scope="row"[^>]*>(.*?)</th>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	headOf    = regexp.MustCompile(`<th[^>]*aria-sort="(\w+)"[^>]*><a href="([^"]*)">([^<]*)</a></th>`)
	nextPage  = regexp.MustCompile(`href="([^"]*)">Next page`)
)

// rowsOf returns the heads of the rows of a page.
func rowsOf(page string) (list []string) {
	for _, m := range firstCell.FindAllStringSubmatch(page, -1) {
		list = append(list, html.UnescapeString(tag.ReplaceAllString(m[1], "")))
	}
	return list
}

// pagesFrom returns the rows of a page and of those behind it.
func (b *browser) pagesFrom(path string) (list []string) {
	b.t.Helper()
	for {
		page := b.get(path, http.StatusOK)
		list = append(list, rowsOf(page)...)
		next := nextPage.FindStringSubmatch(page)
		if next == nil {
			return list
		}
		path = html.UnescapeString(next[1])
	}
}

func TestTheListOfJobsIsSortedByEachColumnFromPageToPage(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.RunFor(time.Minute) // the ledger begins
	for i := range 60 {
		s.Enqueue(jobs.Request{JobExec: fmt.Sprintf("idle.%02d", i), EntityName: "order", EntityKey: "1"}, s.Now().Add(20*time.Hour))
	}
	_, err := s.Client.CancelEntity(t.Context(), jobs.OwnTx(s.DB), "order", "1") // or they are unserved
	s.must(err)
	broken := []byte(`{"broken": true}`)
	for i := range 5 {
		s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: fmt.Sprint(i)}, s.Now().Add(30*time.Minute))
	}
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprint(i)}, s.Now().Add(30*time.Minute))
		s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "order", EntityKey: fmt.Sprint(i), Payload: broken}, s.Now().Add(30*time.Minute))
	}
	s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "order", EntityKey: "8", Payload: broken}, s.Now().Add(30*time.Minute))
	s.RunFor(time.Hour)
	var names, quiet []string // all, and those without a check
	s.must(s.DB.Select(&names, "select name from prescient.job order by name"))
	s.must(s.DB.Select(&quiet, "select name from prescient.job where name not in ('invoice.unpaid', 'order.unshipped', 'review.ask') order by name"))
	backwards := slices.Clone(names)
	slices.Reverse(backwards)
	b := s.browser().login(story.ReadToken)
	for path, want := range map[string][]string{
		"/jobs":                          slices.Concat([]string{"invoice.unpaid", "order.unshipped", "review.ask"}, quiet),
		"/jobs?sort=checked&desc=1":      slices.Concat([]string{"order.unshipped", "invoice.unpaid", "review.ask"}, quiet),
		"/jobs?sort=checked":             slices.Concat([]string{"review.ask", "invoice.unpaid", "order.unshipped"}, quiet),
		"/jobs?sort=failed&desc=1":       slices.Concat([]string{"invoice.unpaid", "order.unshipped", "review.ask"}, quiet),
		"/jobs?sort=job_exec":            names,
		"/jobs?sort=job_exec&desc=1":     backwards,
		"/jobs?sort=gave_up&search=idle": slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(name, "idle") }),
	} {
		if diff := cmp.Diff(want, b.pagesFrom(path)); diff != "" {
			t.Errorf("%s: (- want, + got)\n%s", path, diff)
		}
	}
	for path, want := range map[string][]string{
		"/jobs":                     {"ascending", "/jobs?desc=1&sort=state", "State"},
		"/jobs?sort=checked&desc=1": {"descending", "/jobs?sort=checked", "Checked"},
		"/jobs?sort=checked":        {"ascending", "/jobs?desc=1&sort=checked", "Checked"},
	} {
		page := b.get(path, http.StatusOK)
		got := headOf.FindAllStringSubmatch(page, -1)
		if len(got) != 1 || got[0][1] != want[0] || html.UnescapeString(got[0][2]) != want[1] || got[0][3] != want[2] {
			t.Errorf("%s: the sorted columns are %v, want %v", path, got, want)
		}
		s.has(page, `<a href="/jobs?desc=1&amp;sort=failed">Failed</a>`)
	}
	s.has(b.get("/", http.StatusOK), `<a href="/jobs?desc=1&amp;sort=failed">Failed</a>`)
	s.has(b.get("/jobs?sort=mood", http.StatusBadRequest), "sort: must be one of checked, failed, gave_up, late, lateness_p50, lateness_p99, state, job_exec")
}

func TestAListThatIsWholeOnAPageIsSortedByEachColumn(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for i, minutes := range []int{90, 30, 60} {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprint(i)}, s.Now().Add(time.Duration(minutes)*time.Minute))
		_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: fmt.Sprint("feed-", i), Crontab: fmt.Sprintf("%d * * * *", 59-minutes/2)})
		s.must(err)
	}
	b := s.browser().login(story.ReadToken)
	for path, want := range map[string][]string{
		"/waiting":             {"order 1", "order 2", "order 0"},
		"/waiting?sort=entity": {"order 0", "order 1", "order 2"},
		"/waiting?sort=slot&desc=1&job=review.ask":   {"order 0", "order 2", "order 1"},
		"/schedules?sort=id&desc=1":                  {"feed-2", "feed-1", "feed-0"},
		"/schedules?sort=id&desc=1&prefix=feed-1":    {"feed-1"},
		"/schedules?sort=zone&state=active":          {"feed-0", "feed-1", "feed-2"},
		"/schedules?sort=dropped&desc=1&state=ended": nil,
	} {
		got := slices.DeleteFunc(rowsOf(b.get(path, http.StatusOK)), func(row string) bool { return strings.HasPrefix(row, "schedule") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (- want, + got)\n%s", path, diff)
		}
	}
	s.has(b.get("/waiting?sort=errors&desc=1&job=review.ask", http.StatusOK),
		`aria-sort="descending"><a href="/waiting?job=review.ask&amp;sort=errors">Errors</a>`, `<a href="/waiting?job=review.ask&amp;sort=slot">Slot</a>`)
	s.has(b.get("/waiting?sort=mood", http.StatusBadRequest), "sort: must be one of slot, state, entity, job, checks, errors, error.")
}

func TestASearchKeepsTheOrderAndTheOrderKeepsTheSearch(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: fmt.Sprintf("idle.%d", i), EntityName: "order", EntityKey: "1"}, s.Now().Add(time.Hour))
	}
	_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: "feed", Crontab: "0 * * * *"})
	s.must(err)
	b := s.browser().login(story.ReadToken)
	for path, field := range map[string]string{
		"/jobs?sort=job_exec&desc=1":               "search=idle",
		"/schedules?sort=zone&desc=1":              "prefix=feed",
		"/ended?sort=entity&desc=1&job=review.ask": "",
	} {
		page := b.get(path, http.StatusOK)
		_, form, _ := strings.Cut(page[strings.Index(page, "<main"):], `role="search"`)
		form, _, _ = strings.Cut(form, "</form>")
		query := url.Values{}
		for _, m := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
			query.Set(m[1], m[2])
		}
		want, _ := url.ParseQuery(path[strings.Index(path, "?")+1:])
		if diff := cmp.Diff(want, query); diff != "" {
			t.Errorf("%s: the form keeps (- want, + got)\n%s", path, diff)
		}
		if searched := b.get(path+"&"+field, http.StatusOK); field != "" && !strings.Contains(html.UnescapeString(searched), field+"&sort=") {
			t.Errorf("%s: the headers forget %s", path, field)
		}
	}
	if got := rowsOf(b.get("/jobs?search=idle&sort=job_exec&desc=1", http.StatusOK)); !slices.Equal(got, []string{"idle.2", "idle.1", "idle.0"}) {
		t.Errorf("the search has %v", got)
	}
}

func TestALongListHasTheOrderInWhichItsQueryPages(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.enqueueItems(201, s.Now().Add(2*time.Hour))
	b := s.browser().login(story.ReadToken)
	s.has(b.get("/waiting?sort=mood", http.StatusBadRequest), "sort: must be one of slot, state, entity, job, checks, errors, error.")
	first := b.get("/waiting", http.StatusOK)
	s.has(first, "In the order of their slots.", `<a href="/waiting?desc=1&amp;sort=checks">Checks</a>`)
	page := b.get("/waiting?sort=checks&desc=1", http.StatusOK)
	s.has(page, "In the order of their slots. The list is longer than a page that can be sorted.")
	next := nextPage.FindStringSubmatch(first)
	if next == nil {
		t.Fatal(first)
	}
	for _, page := range []string{page, b.get(html.UnescapeString(next[1]), http.StatusOK)} {
		if strings.Contains(page, "sort=") || strings.Contains(page, "aria-sort") {
			t.Errorf("a list in parts can be sorted:\n%s", page)
		}
	}
	if n := len(b.pagesFrom("/waiting")); n != 201 {
		t.Errorf("the pages have %d rows", n)
	}
}
