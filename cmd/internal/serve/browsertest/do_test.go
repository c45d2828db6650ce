package browsertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/jobs"
)

// press presses the one button of a page that does something.
func (b *browser) press() {
	b.t.Helper()
	b.follows(chromedp.Click(chromedp.CSS("main button.do")))
}

func TestEveryActionCanBeDoneInABrowserThatRunsNoScript(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(3)
	w.Trouble()
	b := open(t, w)
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	b.login(story.OperatorToken)
	for _, step := range []struct {
		path string
		fill map[chromedp.CSS]string // nil: there is nothing to fill in
		want string
	}{
		{"/do/reschedule?job=order.unshiped&name=order&key=90", map[chromedp.CSS]string{"#f-at": "9h"}, "reschedule"},
		{"/do/cancel?name=order&key=91", nil, "cancel"},
		{"/do/retry?since=24h", map[chromedp.CSS]string{}, "retry"},
		{"/do/pause-job?job=order.unshipped", nil, "pause job"},
		{"/do/resume-job?job=order.unshipped", nil, "resume job"},
		{"/do/trigger-schedule?id=stock-feed", nil, "trigger schedule"},
		{"/do/backfill-schedule?id=stock-feed", map[chromedp.CSS]string{"#f-from": "3h", "#f-to": "1h"}, "backfill schedule"},
		{"/do/pause-schedule?id=stock-feed", nil, "pause schedule"},
		{"/do/resume-schedule?id=stock-feed", nil, "resume schedule"},
		{"/do/catch-up", map[chromedp.CSS]string{}, "catch-up"},
	} {
		b.goes(step.path)
		if step.fill != nil {
			for field, text := range step.fill {
				b.do(chromedp.SendKeys(field, text))
			}
			b.press()
		}
		if plan := b.text("main"); !strings.Contains(plan, "This is what will be done") {
			t.Errorf("%s: there is no preview:\n%s", step.path, plan)
			continue
		}
		b.press()
		if done := b.text("main"); !strings.Contains(done, step.want) || !strings.Contains(done, "otto from 127.0.0.1") {
			t.Errorf("%s: it was not done:\n%s", step.path, done)
		}
	}
}

func TestThePageKeepsItselfUpToDate(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(1)
	b := open(t, w)
	b.login(story.ReadToken)
	b.goes("/")
	if text := b.text("h1"); text != "All is well" {
		t.Fatalf("the first page says %q", text)
	}
	w.Enqueue(jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}, w.Now().Add(time.Hour))
	w.Clock.Set(w.Now().Add(3 * time.Hour)) // no runner works
	ask[bool](b, `new Promise(resolve => {
		const changed = () => /wrong/.test(document.querySelector("h1").textContent) && resolve(true);
		new MutationObserver(changed).observe(document.getElementById("verdict"), {childList: true, subtree: true});
		changed();
	})`)
	if text := b.text("#state"); !strings.Contains(text, "wrong") {
		t.Errorf("the foot of the page says %q", text)
	}
	if text := b.text("#live"); text != "updates every 2 seconds" {
		t.Errorf("it is said to be %q", text)
	}
}

func TestPagesAreUsedByKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(1)
	b := open(t, w)
	b.login(story.OperatorToken)
	b.goes("/")
	b.do(chromedp.KeyEvent("\t"))
	if text := ask[string](b, `document.activeElement.textContent`); text != "Skip to the content" {
		t.Errorf("the first thing that has the focus is %q", text)
	}
	if outline := ask[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("the focus is seen by an outline that is %s", outline)
	}
	b.do(chromedp.KeyEvent("\r"))
	if id := ask[string](b, `document.activeElement.id`); id != "main" {
		t.Errorf("it leads to %q", id)
	}
	seen := map[string]bool{}
	for range 40 {
		b.do(chromedp.KeyEvent("\t"))
		seen[ask[string](b, `document.activeElement.tagName + " " + document.activeElement.textContent.trim().slice(0, 40)`)] = true
	}
	if !seen["SUMMARY The same as a table"] {
		t.Errorf("the table of the chart is not among what the key Tab leads to: %v", seen)
	}
}

func TestNothingThatIsStoredRuns(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(1)
	w.Trouble()
	w.Hostile()
	b := open(t, w)
	b.login(story.OperatorToken)
	for _, path := range seen(w) {
		b.goes(path)
		if ask[bool](b, `"hacked" in window || document.querySelector("main img, main script") !== null`) {
			t.Errorf("%s runs what is stored", path)
		}
	}
}
