package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
)

var (
	barOf    = regexp.MustCompile(`<a href="([^"]*)" tabindex="-1"><title>([^<]*)</title>`)
	choiceOf = regexp.MustCompile(`<li><a href="([^"]*)"( aria-current="true")?>(earlier|6h|24h|7d|30d|later)</a></li>`)
)

// ran records that slots of job order.unshipped were run, each with 2 rows, at instants before now.
func (s *shop) ran(before ...time.Duration) (slots []time.Time) {
	s.t.Helper()
	s.DB.MustExec(`select prescient.ensure_job('order.unshipped')`)
	for _, ago := range before {
		slot := s.Client.Grid().Floor(s.Now().Add(-ago))
		s.DB.MustExec(`insert into prescient.slot_run (slot, state, kind, planned, checked, finished, opened_at, finished_at)
			values ($1, 'done', 'run', 2, 2, 2, $1::timestamptz, $1::timestamptz)`, slot)
		s.DB.MustExec(`insert into prescient.slot_job (slot, job, planned, finished, drained, last_at)
			values ($1, prescient.find_job('order.unshipped'), 2, 2, true, $1::timestamptz)`, slot)
		slots = append(slots, slot)
	}
	return slots
}

// bars returns what the bars of a page say, by their links.
func bars(page string) map[string]string {
	all := map[string]string{}
	for _, m := range barOf.FindAllStringSubmatch(page, -1) {
		all[html.UnescapeString(m[1])] = m[2]
	}
	return all
}

func TestTheChartOfAJobHasTheSlotsOfTheRangeThatItsAddressNames(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.must(s.Ledger.Begin(t.Context(), s.Client.Grid().Floor(s.Now().Add(-40*24*time.Hour))))
	slots := s.ran(15*time.Minute, 2*time.Hour, 20*time.Hour, 5*24*time.Hour, 25*24*time.Hour)
	b := s.browser().login(story.ReadToken)
	for _, test := range []struct {
		of     string
		slots  int // with rows, of those above
		single bool
	}{
		{"&range=6h", 2, true},
		{"", 3, true},
		{"&range=24h", 3, true},
		{"&range=7d", 4, false},
		{"&range=30d", 5, false},
		{"&from=" + url.QueryEscape(slots[2].Format(time.RFC3339)) + "&to=" + url.QueryEscape(slots[1].Format(time.RFC3339)), 1, true},
	} {
		page := b.get("/job?name=order.unshipped&sort=rows"+test.of, http.StatusOK)
		want := map[string]bool{}
		for _, slot := range slots[:test.slots] {
			want["/slot?at="+url.QueryEscape(slot.Format(time.RFC3339))] = true
		}
		if strings.HasPrefix(test.of, "&from") {
			want = map[string]bool{"/slot?at=" + url.QueryEscape(slots[2].Format(time.RFC3339)): true}
		}
		got, rows := map[string]bool{}, 0
		for link, says := range bars(page) {
			got[link] = true
			var n int
			_, _ = fmt.Sscanf(says[strings.LastIndex(says, ": ")+2:], "%d rows", &n)
			rows += n
			if !test.single { // it leads to the narrower range, in which each bar is a slot
				zoomed := bars(b.get(link, http.StatusOK))
				for link := range zoomed {
					if !strings.HasPrefix(link, "/slot?at=") {
						t.Errorf("%s: the bar leads to %s", test.of, link)
					}
				}
				if len(zoomed) == 0 || !strings.Contains(link, "name=order.unshipped") || !strings.Contains(link, "sort=rows") {
					t.Errorf("%s: a bar leads to %s, with the bars %v", test.of, link, zoomed)
				}
			}
		}
		if diff := cmp.Diff(want, got); test.single && diff != "" {
			t.Errorf("%s: (- want, + got)\n%s", test.of, diff)
		}
		if rows != 2*test.slots {
			t.Errorf("%s: the bars have %d rows, want %d: %v", test.of, rows, 2*test.slots, bars(page))
		}
	}
	s.has(b.get("/job?name=order.unshipped&from=2026-01-01&to=2026-01-02", http.StatusOK), "No slot of this range had rows of it.")
}

func TestTheRangeIsKeptAndTheOtherRangesAreLinks(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.must(s.Ledger.Begin(t.Context(), s.Client.Grid().Floor(s.Now().Add(-40*24*time.Hour))))
	s.ran(15*time.Minute, 5*24*time.Hour)
	b := s.browser().login(story.ReadToken)
	for path, current := range map[string]string{
		"/": "24h", "/?range=6h": "6h", "/?range=30d": "30d", "/job?name=order.unshipped": "24h",
		"/job?name=order.unshipped&range=7d&sort=rows&desc=1": "7d", "/ledger?range=7d": "7d",
		"/job?name=order.unshipped&from=2026-01-01&to=2026-01-02": "", "/ledger?day=2026-01-01": "",
	} {
		page := b.get(path, http.StatusOK)
		chosen := ""
		for _, m := range choiceOf.FindAllStringSubmatch(page, -1) {
			if m[2] != "" {
				chosen += m[3]
			}
			link := html.UnescapeString(m[1])
			if want := strings.Contains(path, "sort=rows"); want && !strings.Contains(link, "desc=1") || want && !strings.Contains(link, "sort=rows") {
				t.Errorf("%s: %s leads to %s without the order", path, m[3], link)
			}
			if says := b.get(link, http.StatusOK); m[3] == "7d" && !strings.Contains(says, `aria-current="true">7d</a>`) {
				t.Errorf("%s: %s does not show 7 days", path, link)
			}
		}
		if chosen != current {
			t.Errorf("%s: the range %q is current, want %q", path, chosen, current)
		}
	}
	s.has(b.get("/job?name=order.unshipped&range=7d", http.StatusOK), `<a href="/job?desc=1&amp;name=order.unshipped&amp;range=7d&amp;sort=rows">Rows</a>`)
	s.has(b.get("/?range=7d", http.StatusOK), "Slots of the last 7 days and the next 24 hours", `data-live="/live?range=7d"`)
	for path, says := range map[string]string{
		"/job?name=order.unshipped&range=1y":                      "range: must be one of 6h, 24h, 7d, 30d.",
		"/?range=yesterday":                                       "range: must be one of 6h, 24h, 7d, 30d.",
		"/job?name=order.unshipped&from=now":                      "from and to: both must be instants, such as 2026-03-01T13:15:00Z.",
		"/ledger?from=2026-02-01&to=2026-01-01":                   "from: must be before to",
		"/job?name=order.unshipped&from=2010-01-01&to=2026-01-02": "from: the range has 561,120 slots, and a chart shows at most 100,000: take a shorter one",
	} {
		s.has(b.get(path, http.StatusBadRequest), says)
	}
}

func TestAnOpenPageIsToldOfTheRangeThatItShows(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	b := s.browser().login(story.ReadToken)
	for _, of := range []string{"", "?range=24h", "?range=7d"} {
		page := b.get("/"+of, http.StatusOK)
		told := b.get(regexp.MustCompile(`data-live="([^"]*)"`).FindStringSubmatch(page)[1], http.StatusOK)
		says := regexp.MustCompile(`<h2 id="axis-head">[^<]*`).FindString(page)
		if want := strings.NewReplacer("<", `\u003c`, `"`, `\"`, ">", `\u003e`).Replace(says); !strings.Contains(told, want) {
			t.Errorf("%s: the page says %s, and is told\n%s", of, says, told)
		}
	}
}

// A cell is passed over by the keyboard, which reaches the same slots through the links of the days.
func TestEachCellOfTheHeatMapLeadsToItsSlotAsTheTableOfItsDayDoes(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	s.must(s.Ledger.Begin(t.Context(), s.Client.Grid().Floor(s.Now().Add(-3*24*time.Hour))))
	slots := s.ran(15*time.Minute, 26*time.Hour, 50*time.Hour)
	b := s.browser().login(story.ReadToken)
	page := b.get("/ledger", http.StatusOK)
	cells := bars(page)
	for _, slot := range slots {
		link := "/slot?at=" + url.QueryEscape(slot.Format(time.RFC3339))
		if got, want := cells[link], slot.Format(time.RFC3339)+": run, 2 rows"; got != want {
			t.Errorf("the cell of %s says %q, want %q", link, got, want)
		}
		s.has(b.get(link, http.StatusOK), "Slot "+slot.Format(time.RFC3339))
	}
	if most := 3*96 + 1; len(cells) < 96 || len(cells) > most {
		t.Errorf("%d cells are links, want one for each slot that has begun, of at most %d", len(cells), most)
	}
	byKeyboard := map[string]bool{}
	for _, m := range regexp.MustCompile(`<li><a href="(/ledger\?day=[^"]*)"`).FindAllStringSubmatch(page, -1) {
		for _, m := range regexp.MustCompile(`<th scope="row"><a href="([^"]*)"`).FindAllStringSubmatch(b.get(m[1], http.StatusOK), -1) {
			byKeyboard[html.UnescapeString(m[1])] = true
		}
	}
	for link, says := range cells {
		if !byKeyboard[link] {
			t.Errorf("no table of a day leads to %s (%s)", link, says)
		}
	}
}
