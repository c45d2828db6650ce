package pages_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
)

const rulesFile = `rules:
  - name: order.late
    table: public.orders
    key: id
    since: placed_at
    done: shipped_at
    where: channel <> 'test'
    steps:
      - {after: 1h, event: order.late}
      - {after: 3h, name: lost, sql: "select 1 / ($key::bigint - 5)"}
`

// The statements that count the same as the page of the rule. The table is as at the end: an order that the rule found
// shipped was shipped before the slot.
var ruleFigureTests = []figureTest{
	{"/rule?name=order.late", "Waiting for a step", `select count(*) from orders where id in (5, 20)`},
	{"/rule?name=order.late", "Met in time", `select count(*) from orders where shipped_at < placed_at + interval '1 hour'`},
	{"/rule?name=order.late", "Met after a step", `select count(*) from orders where shipped_at > placed_at + interval '1 hour'`},
	{"/rule?name=order.late", "Open after the last step", `select count(*) from orders where shipped_at is null and id < 5`},
	{"/rule?name=order.late", "Deleted or outside", `select count(*) from orders where channel = 'test'`},
	{"/rule?name=order.late", "Cancelled", `select count(*) from prescient.future_job_history where outcome = 'cancelled'`},
	{"/rule?name=order.late", "Given up", `select count(*) from prescient.future_job_history where outcome = 'failed'`},
	{"/rule?name=order.late", "Steps of the rule | order.late | Fired", `select count(*) from prescient.rule_fired where step = 'order.late'`},
	{"/rule?name=order.late", "Steps of the rule | lost | Fired", `select count(*) from orders where shipped_at is null and id < 5`},
	{"/rule?name=order.late", "Steps of the rule | order.late | Dead letters", `select count(*) from prescient.event_dead`},
	{"/rule?name=order.late", "Rows that wait in the next slots | NEXT | Rows", `select count(*) from prescient.future_job where entity_key = '20'`},
}

func TestTheFiguresOfARuleAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	f := &figures{shop: setup(t, nil), text: map[string]string{}}
	f.liveWithARule()
	f.browser = f.shop.browser().login(story.ReadToken)
	next := f.Client.Grid().Ceil(f.Now().Add(time.Hour)).Format(time.RFC3339)
	for _, test := range ruleFigureTests {
		if test.what == "Rows that wait in the next slots | NEXT | Rows" {
			test.what = "Rows that wait in the next slots | " + next + " | Rows"
		}
		var want float64
		f.must(f.DB.Get(&want, test.sql))
		if got, err := f.figure(test.place, test.what); err != nil || got != want || want == 0 {
			t.Errorf("%s is %v, want %v, and not 0 (%v)", test.what, got, want, err)
		}
	}
	f.completePages(ruleFigureTests)
	page := f.text["/rule?name=order.late"]
	for _, bar := range []string{`<rect class="run" width="100"`, `<rect class="run" width="50"`} { // 6 and 3 have fired
		if !regexp.MustCompile(regexp.QuoteMeta(bar)).MatchString(page) {
			t.Errorf("the page has no bar %s", bar)
		}
	}
	f.has(f.browser.get("/rules", http.StatusOK), "order.late", "public.orders")
	f.has(f.browser.get("/job?name=order.late", http.StatusOK), "<dt>Checked</dt>")
	f.Clock.Set(f.Now().Add(4 * time.Hour)) // no runner runs
	slot := f.browser.get("/slot?at="+next, http.StatusOK)
	f.has(slot, "Rows that wait in the slot", "order.late")
	if strings.Contains(slot, "not registered") {
		t.Errorf("the page of a slot calls the rule unserved:\n%s", slot)
	}
}

// The jobs of a test have been registered by a run, as those of no rule are.
func TestTheJobOfARuleThatWasRemovedHasNoFigures(t *testing.T) {
	t.Parallel()
	f := &figures{shop: setup(t, nil), text: map[string]string{}}
	f.liveWithARule()
	f.DB.MustExec(`delete from prescient.rule`)
	f.DB.MustExec(`update prescient.job set registered_at = null where name = 'order.late'`)
	gone := f.shop.browser().login(story.ReadToken).get("/job?name=order.late", http.StatusOK)
	f.has(gone, "It was a rule, which was removed.", `aria-label="Slots of the job"`)
	if strings.Contains(gone, "<dt>Checked</dt>") {
		t.Errorf("the page has figures that leave out its slots:\n%s", gone)
	}
}

// liveWithARule lets four hours pass over orders that end in every way.
func (f *figures) liveWithARule() {
	f.t.Helper()
	path := f.t.TempDir() + "/rules.yaml"
	f.must(os.WriteFile(path, []byte(rulesFile), 0o600))
	f.DB.MustExec(`create table orders (id bigint primary key, channel text not null, placed_at timestamptz, shipped_at timestamptz)`)
	f.Rules(path)
	f.DB.MustExec(`insert into orders select n, 'web', $1 from generate_series(1, 11) n`, f.Now())
	f.DB.MustExec(`update orders set shipped_at = placed_at + interval '1 minute' where id in (6, 7)`)
	f.DB.MustExec(`update orders set channel = 'test' where id = 8`)
	for _, key := range []string{"9", "11"} {
		_, err := f.Client.Cancel(f.t.Context(), jobs.OwnTx(f.DB), jobs.Key{JobExec: "order.late", EntityName: "orders", EntityKey: key})
		f.must(err)
	}
	f.RunFor(2 * time.Hour)
	f.DB.MustExec(`update orders set shipped_at = placed_at + interval '2 hours' where id in (4, 10)`)
	f.RunFor(2 * time.Hour)
	f.DB.MustExec(`update prescient.future_job_history set outcome = 'failed', last_error = 'refused' where entity_key = '11'`)
	f.DB.MustExec(`insert into prescient.event_dead (consumer, id, source, type, data, dead_at) values ('desk', '1', 's', 't', '{"rule": "order.late", "step": "order.late"}', now())`)
	f.DB.MustExec(`insert into orders values (20, 'web', $1)`, f.Now())
}
