package pages_test

import (
	"encoding/json"
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
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
)

var box = regexp.MustCompile(`<input type="checkbox" form="selected" name="row" value="([^"]*)" aria-label="Select ([^"]*)"( checked)?>`)

// boxes returns the values of the boxes of a page, by their labels, and how many are ticked.
func boxes(page string) (values map[string]string, ticked int) {
	values = map[string]string{}
	for _, m := range box.FindAllStringSubmatch(page, -1) {
		values[html.UnescapeString(m[2])] = html.UnescapeString(m[1])
		if m[3] != "" {
			ticked++
		}
	}
	return values, ticked
}

// carry returns what a form carries along in hidden fields.
func carry(page string, more url.Values) url.Values {
	values := url.Values{}
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</form>")
	for _, m := range regexp.MustCompile(`<input type="hidden" name="row" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		values.Add("row", html.UnescapeString(m[1]))
	}
	for name, list := range more {
		values[name] = list
	}
	return values
}

func TestTheSelectedChecksOfAListAreMovedAndCancelled(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	slot := s.Client.Grid().Ceil(s.Now().Add(2 * time.Hour))
	for i := range 4 {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprintf(`<"%d">`, i), ItemKey: "a b&c"}, slot)
	}
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "no key", Anonymous: true}, slot)
	_, err := s.Schedules.Create(t.Context(), s.DB, schedule.Spec{ID: "feed", Crontab: "0 * * * *"})
	s.must(err)
	reader := s.browser().login(story.ReadToken)
	if values, _ := boxes(reader.get("/waiting", http.StatusOK)); len(values) != 0 {
		t.Errorf("a reader can select %v", values)
	}
	b := s.browser().login(story.OperatorToken)
	page := b.get("/waiting", http.StatusOK)
	values, ticked := boxes(page)
	if len(values) != 4 || ticked != 0 {
		t.Fatalf("%d boxes, %d ticked: %v", len(values), ticked, values)
	}
	s.has(page, `href="/waiting?all=1">Select all of this page`)
	if _, ticked := boxes(b.get("/waiting?all=1", http.StatusOK)); ticked != 4 {
		t.Errorf("%d boxes are ticked", ticked)
	}
	row := func(i int) string { return values[fmt.Sprintf(`review.ask on order <"%d"> item a b&c`, i)] }

	// Move two. The third has gone since the list was shown, and stops no other.
	form := b.post("/waiting", "/do/reschedule-selected", url.Values{"row": {row(0), row(1), row(2)}, "edit": {"1"}}, http.StatusOK)
	s.has(form, "3 rows", "New time")
	_, err = s.Client.Cancel(t.Context(), jobs.OwnTx(s.DB), jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: `<"2">`, ItemKey: "a b&c"})
	s.must(err)
	to := slot.Add(3 * time.Hour)
	wrong := b.submit(form, carry(form, url.Values{"at": {"tomorrow"}}), http.StatusUnprocessableEntity)
	s.has(wrong, "is no time", "3 rows")
	plan := b.submit(wrong, carry(wrong, url.Values{"at": {to.Format(time.RFC3339)}}), http.StatusOK)
	s.has(html.UnescapeString(plan), "Moves 2 checks to slot "+to.Format(time.RFC3339)+`: review.ask on order <"0"> item a b&c, review.ask on order <"1"> item a b&c`,
		`no check review.ask on order <"2"> item a b&c waits`, "Change the fields")
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "2 checks wait for slot "+to.Format(time.RFC3339), "reschedule selected")

	// Cancel one of them, and one of the others.
	plan = b.post("/waiting", "/do/cancel-selected", url.Values{"row": {row(0), row(3)}}, http.StatusOK)
	s.has(html.UnescapeString(plan), `Cancels 2 waiting checks: review.ask on order <"0"> item a b&c, review.ask on order <"3"> item a b&c`)
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "other"}, slot) // which changes nothing
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "2 checks were cancelled")
	var left []string
	s.must(s.DB.Select(&left, "select entity_key || next_check_at from prescient.future_job where item_key = 'a b&c'"))
	var want string
	s.must(s.DB.Get(&want, `select '<"1">' || $1::timestamptz`, to))
	if diff := cmp.Diff([]string{want}, left); diff != "" {
		t.Error(diff)
	}

	// The sentence for one is that of the action of one.
	s.has(b.post("/waiting", "/do/cancel-selected", url.Values{"row": {row(1)}}, http.StatusOK), "Cancels 1 waiting check of review.ask on order")
	s.has(b.post("/waiting", "/do/cancel-selected", nil, http.StatusUnprocessableEntity), "no row is selected")
	s.has(b.post("/waiting", "/do/cancel-selected", url.Values{"row": {"42"}}, http.StatusUnprocessableEntity), "is no row of a list")
	s.has(b.post("/waiting", "/do/cancel-selected", url.Values{"row": {`{"entity_name": "order", "entity_key": "other"}`}}, http.StatusUnprocessableEntity), "job_exec: must be given")
}

// A Persian word, a Hindi word and an emoji have characters that pages show as U+FFFD.
func TestRowsWhoseKeysHaveInvisibleCharactersAreSelectedExactly(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	slot := s.Client.Grid().Ceil(s.Now().Add(2 * time.Hour))
	keys := []string{
		"می\u200cخواهم", "क्\u200dष", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "a\u0085b\u202ec\u2028d\u001be\x7ff\r\ng\"h",
	}
	for _, key := range keys {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: key}, slot)
	}
	shown := strings.Map(func(r rune) rune {
		if strings.ContainsRune("\u200c\u200d", r) {
			return '\uFFFD'
		}
		return r
	}, keys[0])
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: shown}, slot) // which pages show alike
	b := s.browser().login(story.OperatorToken)
	var rows []string
	for _, m := range box.FindAllStringSubmatch(b.get("/waiting", http.StatusOK), -1) {
		var row struct {
			Key string `json:"entity_key"`
		}
		value := html.UnescapeString(m[1])
		s.must(json.Unmarshal([]byte(value), &row))
		if row.Key != shown {
			rows = append(rows, value)
		}
	}
	if len(rows) != len(keys) {
		t.Fatalf("%d rows to select: %q", len(rows), rows)
	}
	to := slot.Add(time.Hour)
	form := b.post("/waiting", "/do/reschedule-selected", url.Values{"row": rows, "edit": {"1"}}, http.StatusOK)
	plan := b.submit(form, carry(form, url.Values{"at": {to.Format(time.RFC3339)}}), http.StatusOK)
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "4 checks wait for slot "+to.Format(time.RFC3339))
	plan = b.post("/waiting", "/do/cancel-selected", url.Values{"row": rows}, http.StatusOK)
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "4 checks were cancelled")
	var left []string
	s.must(s.DB.Select(&left, "select entity_key from prescient.future_job"))
	if diff := cmp.Diff([]string{shown}, left); diff != "" {
		t.Error(diff)
	}
}

// A row that is selected has ended since the list was shown, and another row of its key waits.
func TestASelectedRowIsNoOtherRowOfItsKey(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	slot := s.Client.Grid().Ceil(s.Now().Add(2 * time.Hour))
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprint(i)}, slot)
	}
	b := s.browser().login(story.OperatorToken)
	values, _ := boxes(b.get("/waiting", http.StatusOK))
	row := func(i int) string { return values[fmt.Sprint("review.ask on order ", i)] }
	key := jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: "0"}
	_, err := s.Client.Cancel(t.Context(), jobs.OwnTx(s.DB), key)
	s.must(err)
	s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: "0"}, slot)

	to := slot.Add(time.Hour)
	form := b.post("/waiting", "/do/reschedule-selected", url.Values{"row": {row(0), row(1), row(2)}, "edit": {"1"}}, http.StatusOK)
	plan := b.submit(form, carry(form, url.Values{"at": {to.Format(time.RFC3339)}}), http.StatusOK)
	s.has(plan, "Moves 2 checks", "no check review.ask on order 0 waits")
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "2 checks wait for slot "+to.Format(time.RFC3339))
	plan = b.post("/waiting", "/do/cancel-selected", url.Values{"row": {row(0), row(1), row(2)}}, http.StatusOK)
	s.has(plan, "Cancels 2 waiting checks", "nothing changes for review.ask on order 0")
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "2 checks were cancelled")
	var left []string
	s.must(s.DB.Select(&left, "select entity_key || next_check_at from prescient.future_job"))
	var want string
	s.must(s.DB.Get(&want, `select '0' || $1::timestamptz`, slot))
	if diff := cmp.Diff([]string{want}, left); diff != "" {
		t.Error(diff)
	}
}

// What was confirmed is done, and nothing else. A row that has changed since stops no other.
func TestWhatHasChangedOfASelectionIsLeftAndTheRestIsDone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	slot := s.Client.Grid().Ceil(s.Now().Add(2 * time.Hour))
	key := func(i int) jobs.Key {
		return jobs.Key{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprint(i)}
	}
	for i := range 5 {
		s.Enqueue(jobs.Request{JobExec: "review.ask", EntityName: "order", EntityKey: fmt.Sprint(i)}, slot)
	}
	move := func(i int) {
		t.Helper()
		_, _, err := s.Client.Reschedule(t.Context(), jobs.OwnTx(s.DB), key(i), slot.Add(time.Hour))
		s.must(err)
	}
	b := s.browser().login(story.OperatorToken)
	values, _ := boxes(b.get("/waiting", http.StatusOK))
	row := func(i int) string { return values[fmt.Sprint("review.ask on order ", i)] }
	plan := b.post("/waiting", "/do/cancel-selected", url.Values{"row": {row(0), row(1), row(2), row(3)}}, http.StatusOK)
	s.has(plan, "Cancels 4 waiting checks")
	move(1)
	_, err := s.Client.Cancel(t.Context(), jobs.OwnTx(s.DB), key(3))
	s.must(err)
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "Cancels 2 waiting checks: review.ask on order 0, review.ask on order 2",
		"2 checks were cancelled. Left as they are, because they have changed since the preview: review.ask on order 1, review.ask on order 3")
	var left []string
	s.must(s.DB.Select(&left, "select entity_key from prescient.future_job order by 1"))
	if diff := cmp.Diff([]string{"1", "4"}, left); diff != "" {
		t.Error(diff)
	}

	// A selection of which nothing is as it was, and another one than was confirmed, are refused.
	plan = b.post("/waiting", "/do/cancel-selected", url.Values{"row": {row(1), row(4)}}, http.StatusOK)
	other := carry(plan, nil)
	other["row"] = []string{row(1)}
	s.has(b.submit(plan, other, http.StatusConflict), "nothing was done")
	move(4)
	s.DB.MustExec(`update prescient.future_job set next_check_at = $1 where entity_key = '1'`, slot)
	s.has(b.submit(plan, carry(plan, nil), http.StatusConflict), "nothing was done")
}

func TestTheSelectedRowsThatGaveUpAreRetried(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	for i := range 3 {
		s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: fmt.Sprint(i), Payload: []byte(`{"broken": true}`)}, s.Now().Add(30*time.Minute))
	}
	s.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "good"}, s.Now().Add(30*time.Minute))
	s.RunFor(time.Hour)
	s.Enqueue(jobs.Request{JobExec: "invoice.unpaid", EntityName: "invoice", EntityKey: "2"}, s.Now().Add(time.Hour))
	b := s.browser().login(story.OperatorToken)
	values, _ := boxes(b.get("/ended", http.StatusOK))
	if len(values) != 3 { // not the one that did not fail
		t.Fatalf("the boxes are %v", values)
	}
	row := func(i int) string { return values[fmt.Sprint("invoice.unpaid on invoice ", i)] }
	plan := b.post("/ended", "/do/retry-selected", url.Values{"row": {row(0), row(1), row(2)}}, http.StatusOK)
	s.has(plan, "Puts 2 failed checks back into slot ", ": invoice.unpaid on invoice 0, invoice.unpaid on invoice 1", "1 failed check stays in history, since the key waits already.")
	if strings.Contains(plan, "Change the fields") {
		t.Error("a preview without fields offers to change them")
	}
	s.has(b.submit(plan, carry(plan, nil), http.StatusOK), "2 checks were put back", "retry selected")
	var waits []string
	s.must(s.DB.Select(&waits, "select entity_key from prescient.future_job order by 1"))
	if diff := cmp.Diff([]string{"0", "1", "2"}, waits); diff != "" {
		t.Error(diff)
	}
	s.has(b.post("/ended", "/do/retry-selected", url.Values{"row": {`{"job_exec": "invoice.unpaid", "entity_name": "invoice", "entity_key": "2"}`}}, http.StatusUnprocessableEntity), "id: must be given")
}
