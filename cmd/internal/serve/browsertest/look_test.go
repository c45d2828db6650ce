package browsertest

import (
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
)

// seen is every page, in the states that there are, by the name of its picture.
func seen(w *story.World) map[string]string {
	slot := w.Client.Grid().Floor(w.Now())
	at := func(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339)) }
	return map[string]string{
		"now": "/", "ledger": "/ledger", "ledger-day": "/ledger?day=" + slot.Format(time.DateOnly),
		"slot": "/slot?at=" + at(slot.Add(-3*time.Hour)), "slot-running": "/slot?at=" + at(slot), "slot-missed": "/slot?at=" + at(slot.Add(-30*time.Minute)),
		"slot-ahead": "/slot?at=" + at(slot.Add(time.Hour)),
		"jobs":       "/jobs", "job": "/job?name=order.unshipped", "job-failing": "/job?name=invoice.unpaid", "advice": "/advice?name=order.unshipped",
		"entity": "/entity?name=invoice&key=702", "entity-waits": "/entity?name=order&key=91", "entity-none": "/entity?name=order&key=nobody", "find": "/entity",
		"rules": "/rules", "rule": "/rule?name=parcel.unshipped",
		"schedules": "/schedules", "schedule": "/schedule?id=report-42", "events": "/events", "alerts": "/alerts", "actions": "/actions",
		"waiting": "/waiting?job=order.unshipped", "ended": "/ended?job=invoice.unpaid&outcome=failed",
		"catch-up": "/do/catch-up", "cancel": "/do/cancel?name=order&key=91", "retry": "/do/retry?since=24h", "not-found": "/nothing",
	}
}

// violations asks axe, which the page has been given, what is wrong with the page that is shown.
func (b *browser) violations() []string {
	b.t.Helper()
	return ask[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v =>
		v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + (n.failureSummary || "")).join(" | ")))`)
}

func TestEveryPageCanBeUsedByEverybody(t *testing.T) {
	t.Parallel()
	program := axe(t)
	w := story.New(t, nil)
	w.Live(48)
	w.Trouble()
	apply(t, w)
	w.DB.MustExec(`update prescient.slot_run set waited_for = 'session 8855 of shop (terminal, idle in transaction)' where slot = $1`,
		w.Client.Grid().Floor(w.Now()).Add(-3*time.Hour)) // the longest name of a fact
	b := open(t, w)
	b.login(story.OperatorToken)
	b.suit(program, seen(w))
}

// apply gives the shop a rule, with rows that wait for it.
func apply(t *testing.T, w *story.World) {
	t.Helper()
	w.DB.MustExec(`create table parcels (id bigint primary key, ordered_at timestamptz, shipped_at timestamptz)`)
	path := t.TempDir() + "/rules.yaml"
	err := os.WriteFile(path, []byte(`rules:
  - name: parcel.unshipped
    table: public.parcels
    key: id
    since: ordered_at
    done: shipped_at
    where: id > 0
    steps:
      - {after: 1h, event: parcel.late}
      - {after: 72h, name: lost, sql: "update public.parcels set shipped_at = now() where id = $key::bigint"}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	w.Rules(path)
	w.DB.MustExec(`insert into parcels select n, $1 from generate_series(1, 30) as n`, w.Now())
}

func TestThePagesOfSeveralStoresCanBeUsedByEverybody(t *testing.T) {
	t.Parallel()
	program := axe(t)
	quiet, wrong := story.New(t, nil), story.New(t, nil)
	quiet.Live(12)
	wrong.Live(12)
	wrong.Trouble()
	for _, w := range []*story.World{quiet, wrong} {
		if err := w.Board.Expect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	down := errors.New("connect to the database billing on billing.example.com: connection refused")
	s := story.Stores(t, map[string]*story.World{"shop": quiet, "tenants/tenant_42": wrong}, map[string]error{"billing": down})
	b := openHandler(t, s)
	b.login(story.OperatorToken)
	b.suit(program, map[string]string{
		"stores": "/", "stores-find": "/entity?name=order&key=91", "stores-now": "/stores/tenants/tenant_42/", "stores-cancel": "/stores/tenants/tenant_42/do/cancel?name=order&key=91",
	})

	// The page of all, and one of a store, are told what changes.
	for _, path := range []string{"/", "/stores/tenants/tenant_42/"} {
		b.goes(path)
		ask[bool](b, `new Promise(resolve => {
			const live = document.getElementById("live"), told = () => live.textContent === "updates every 2 seconds" && resolve(true);
			new MutationObserver(told).observe(live, {childList: true});
			told();
		})`)
	}
}

// suit looks at pages, by the names of their pictures, in every way that there is.
func (b *browser) suit(program string, paths map[string]string) {
	b.t.Helper()
	t := b.t
	for name, path := range paths {
		b.goes(path)
		ask[any](b, program+"; true")
		for _, l := range looks {
			b.look(l)
			for _, v := range b.violations() {
				t.Errorf("%s in %s: %s", path, l.name, v)
			}
			if wide := ask[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
				t.Errorf("%s in %s is %d pixels wider than the window", path, l.name, wide)
			}
			b.shoot(name + "-" + l.name)
		}
	}
}

func TestAQuietShopIsAllRight(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(48)
	b := open(t, w)
	b.login(story.ReadToken)
	for _, l := range looks {
		b.look(l)
		b.goes("/")
		if text := b.text("h1"); !strings.Contains(text, "All is well") {
			t.Errorf("the first page says %q", text)
		}
		b.shoot("quiet-" + l.name)
	}
}

func TestOnAPhoneTheVerdictIsFirstAndEachColumnOfTheStateIsSeen(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(3)
	w.Trouble()
	b := open(t, w)
	b.login(story.OperatorToken)
	b.look(look{"narrow", 390, 812, "light", true})
	b.goes("/")
	if first := ask[string](b, `document.querySelector("main").firstElementChild.id`); first != "verdict" {
		t.Errorf("the first page begins with %q", first)
	}
	if top := ask[int](b, `Math.round(document.querySelector("#verdict h1").getBoundingClientRect().top)`); top > 812/2 {
		t.Errorf("the verdict begins %d pixels below the top", top)
	}
	b.goes("/do/pause-job?job=order.unshipped") // or there is no table of actions
	b.press()
	for _, path := range []string{"/", "/jobs", "/rules", "/schedules", "/waiting", "/ended", "/actions"} {
		b.goes(path)
		cut := ask[[]string](b, `[...document.querySelectorAll(".scroll th")].filter(h => /^(State|Outcome)/.test(h.textContent) &&
			h.getBoundingClientRect().left + 40 > innerWidth).map(h => h.closest(".scroll").getAttribute("aria-label") + ": " + Math.round(h.getBoundingClientRect().left))`)
		for _, column := range cut {
			t.Errorf("%s cuts off a column that says the state: %s", path, column)
		}
		for _, wide := range ask[[]string](b, `[...document.querySelectorAll("caption")].filter(c => c.getBoundingClientRect().right > innerWidth).map(c => c.textContent)`) {
			t.Errorf("%s cuts off the text above a table: %s", path, wide)
		}
		b.shoot("narrow" + strings.ReplaceAll(path, "/", "-"))
	}
}

// A column that is cut off needs a scroll bar, which a finger hides. Text that is wider than its place covers what is
// beside it.
func TestAtADeskNothingIsCutOffOrCovered(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(3)
	w.Trouble()
	b := open(t, w)
	b.login(story.ReadToken)
	b.look(looks[0])
	for _, path := range []string{"/", "/ledger", "/jobs", "/job?name=invoice.unpaid", "/entity?name=invoice&key=702", "/schedules", "/schedule?id=report-42"} {
		b.goes(path)
		for _, wrong := range ask[[]string](b, `[
			...[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => "the table " + e.getAttribute("aria-label") + " is cut off"),
			...[...document.querySelectorAll(".timeline .at time")].filter(e => e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right).map(e => e.textContent + " leaves its column"),
			...[...document.querySelectorAll("td:not(.state) > .mark")].filter(e => e.getClientRects().length > 1).map(e => e.textContent + " is broken into lines"),
			...[...document.querySelectorAll("tbody code")].filter(e => e.getClientRects().length > 1).map(e => e.textContent + " is broken into lines"),
			...(document.querySelector("nav").getBoundingClientRect().bottom > document.querySelector(".top .search").getBoundingClientRect().top ? [] : ["the search is below the sections"]),
		]`) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
}

// A label in an SVG that stretches is as wide as the SVG.
func TestChartsReadAtEachWidthOfThePage(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(12)
	w.Trouble()
	b := open(t, w)
	b.login(story.ReadToken)
	for _, l := range []look{looks[0], {"narrow", 390, 812, "light", true}} {
		b.look(l)
		for _, path := range []string{"/", "/?range=30d", "/job?name=order.unshipped", "/job?name=order.unshipped&range=7d", "/ledger?range=6h"} {
			b.goes(path)
			for _, wrong := range ask[[]string](b, `[...document.querySelectorAll(".plot")].flatMap(plot => {
				const wrong = [], seen = e => getComputedStyle(e).display !== "none";
				const size = parseFloat(getComputedStyle(plot.querySelector("text")).fontSize);
				const lines = {};
				for (const text of [...plot.querySelectorAll("text")].filter(seen)) {
					const r = text.getBoundingClientRect();
					if (r.height > 1.6 * size || r.width > 0.8 * size * text.textContent.length) wrong.push(text.textContent + " is stretched");
					const svg = text.ownerSVGElement, box = svg.getBoundingClientRect(), hides = getComputedStyle(svg).overflow !== "visible";
					if (r.left < 0 || r.right > innerWidth || hides && (r.left < box.left - 1 || r.right > box.right + 1)) wrong.push(text.textContent + " is cut off");
					(lines[text.getAttribute("y") + text.ownerSVGElement.className.baseVal] ??= []).push([r.left, r.right, text.textContent]);
				}
				for (const line of Object.values(lines)) {
					line.sort((a, b) => a[0] - b[0]);
					for (let i = 1; i < line.length; i++) if (line[i][0] < line[i - 1][1] + 2) wrong.push(line[i - 1][2] + " touches " + line[i][2]);
				}
				if (plot.querySelectorAll(".times text").length < 2 || plot.querySelectorAll(".scale text").length < 3) wrong.push("there are no ticks");
				return wrong;
			})`) {
				t.Errorf("%s in %s: %s", path, l.name, wrong)
			}
			if n := ask[int](b, `document.querySelectorAll(".plot").length`); n == 0 {
				t.Errorf("%s has no chart", path)
			}
		}
	}
}

func TestAClickOnABarOrACellLeadsToItsSlotsAndThenToASlot(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(12)
	b := open(t, w)
	b.login(story.ReadToken)
	for path, leads := range map[string][]string{
		"/?range=30d": {"from=", "/slot?at="}, "/job?name=order.unshipped&range=30d": {"from=", "/slot?at="}, "/ledger": {"/slot?at="},
	} {
		b.goes(path)
		for _, want := range leads {
			// What lies on top of the tallest one takes the click, at once: the page swaps its parts every two seconds.
			b.follows(chromedp.Evaluate[chromedp.Void](`(bar => {
				bar.scrollIntoView({block: "center"});
				const r = bar.getBoundingClientRect(), top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
				top.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true, view: window}));
			})([...document.querySelectorAll(".plot a rect.run, .heat a rect.heat-5")].sort((a, b) => b.getBoundingClientRect().height - a.getBoundingClientRect().height)[0])`))
			if at := ask[string](b, `location.href`); !strings.Contains(at, want) {
				t.Errorf("%s: a click on a bar or a cell leads to %s, want %s", path, at, want)
			}
		}
	}
}

// A finger hides the bar of a browser, and a table that is cut off at a column looks whole.
func TestATableThatIsWiderThanAPhoneShowsThatItScrolls(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(48)
	w.Trouble()
	b := open(t, w)
	b.login(story.ReadToken)
	phone := looks[slices.IndexFunc(looks, func(l look) bool { return l.phone })]
	b.look(phone)
	b.goes("/")
	// The widest one, scrolled into view.
	const table = `[...document.querySelectorAll(".scroll")].sort((a, b) => b.scrollWidth - a.scrollWidth)[0]`
	if wider := ask[int](b, `(t => (t.scrollIntoView({block: "center"}), t.scrollWidth - t.clientWidth))(`+table+`)`); wider < 100 {
		t.Fatalf("the table is %d pixels wider than its place", wider)
	}
	for _, at := range []struct {
		scrolled    string
		left, right bool
	}{{"0", false, true}, {"t.scrollWidth / 3", true, true}, {"t.scrollWidth", true, false}} {
		box := ask[[]float64](b, `new Promise(done => {
			const t = `+table+`;
			t.scrollLeft = `+at.scrolled+`;
			const r = t.getBoundingClientRect();
			requestAnimationFrame(() => requestAnimationFrame(() => done([r.left, r.right, r.bottom, devicePixelRatio])));
		})`)
		picture := b.picture()
		row := int((box[2] - 2) * box[3]) // below the text of the last line
		paper := picture.At(int((box[0]+box[1])/2*box[3]), row)
		left, right := picture.At(int((box[0]+1)*box[3]), row) != paper, picture.At(int((box[1]-1)*box[3]), row) != paper
		if left != at.left || right != at.right {
			t.Errorf("scrolled to %s: a shadow on the left %v, on the right %v; want %v and %v", at.scrolled, left, right, at.left, at.right)
		}
	}
}
