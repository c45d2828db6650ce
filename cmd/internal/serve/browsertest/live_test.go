package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
)

// shows waits until an element has a text.
func (b *browser) shows(selector, text string) {
	b.t.Helper()
	ask[bool](b, fmt.Sprintf(`new Promise(resolve => {
		const has = () => document.querySelector(%[1]q)?.textContent.includes(%[2]q) && resolve(true);
		new MutationObserver(has).observe(document.body, {childList: true, subtree: true, characterData: true});
		has();
	})`, selector, text))
}

func TestAnInstantAndASlotOfAChartSayTheLocalTimeUnderThePointer(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(3)
	b := open(t, w)
	b.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
		return err
	}))
	b.login(story.ReadToken)
	b.goes("/")
	for place, said := range map[string]string{"main time": "title", "#axis .chart a rect": "closest('a').querySelector('title').textContent"} {
		text := ask[string](b, fmt.Sprintf(`(e => {
			e.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
			e.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
			return e.%s;
		})(document.querySelector(%q))`, said, place))
		if strings.Count(text, "GMT+9") != 1 {
			t.Errorf("%s says %q under the pointer, which is not once the time of Tokyo", place, text)
		}
	}
}

func TestAnOpenPageDoesNotSayThatAllIsWellWithoutItsServerOrItsLogIn(t *testing.T) {
	t.Parallel()
	w := story.New(t, nil)
	w.Live(3)
	var down, loggedOut atomic.Bool
	b := openHandler(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			panic(http.ErrAbortHandler) // the browser sees that the connection ends
		case loggedOut.Load():
			r.Header.Del("Cookie")
		}
		w.Pages.ServeHTTP(out, r)
	}))
	b.login(story.ReadToken)
	for _, path := range []string{"/", "/jobs"} {
		b.goes(path)
		b.shows("#live", "updates every 2 seconds")
		place := "#verdict, #state" // the first of both
		b.shows(place, "All is well")
		for _, loss := range []struct {
			of   *atomic.Bool
			says string
		}{{&down, "The server does not answer."}, {&loggedOut, "You are logged out."}} {
			loss.of.Store(true)
			b.shows(place, "The state is unknown for ")
			b.shows("#live", loss.says)
			if text := b.text("body"); strings.Contains(text, "\nAll is well") {
				t.Errorf("%s: %s the page still says that all is well:\n%s", path, loss.says, text)
			}
			if login := ask[bool](b, `document.querySelector("#verdict a[href^='/login']") !== null`); login != (path == "/" && loss.of == &loggedOut) {
				t.Errorf("%s: %s is there a link to log in: %v", path, loss.says, login)
			}
			b.shoot("unknown-" + strings.Fields(loss.says)[1])
			loss.of.Store(false)
			b.shows(place, "All is well")
			b.shows("#live", "updates every 2 seconds")
		}
	}
}
