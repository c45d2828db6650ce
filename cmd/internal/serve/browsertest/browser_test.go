// Package browsertest looks at the pages of prescient serve with a real Chromium: each page, each
// action, by light and by dark, on a desk and on a phone. It is a module of its own, so that what
// drives the browser stays out of go.mod.
package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/prescient-go/prescient/cmd/internal/serve/internal/story"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// axe is the program that looks for what some people could not use.
func axe(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("axe-core is not there: run cmd/internal/serve/browsertest/install.sh, which make test-all does")
	}
	return string(text)
}

// look is a way to look at a page.
type look struct {
	name          string
	width, height int64
	scheme        string
	phone         bool
}

var looks = []look{
	{"light", 1280, 900, "light", false},
	{"dark", 1280, 900, "dark", false},
	{"phone", 375, 812, "light", true},
}

// browser is a Chromium with one tab.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string // address of the server
}

// open starts a Chromium that looks at a world.
func open(t *testing.T, w *story.World) *browser {
	t.Helper()
	return openHandler(t, w.Pages)
}

// openHandler starts a Chromium, with a profile of its own, that looks at what a handler serves.
func openHandler(t *testing.T, handler http.Handler) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: run cmd/internal/serve/browsertest/install.sh, which make test-all does")
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	silent := func(string, ...any) {} // the driver tells of every event that it does not know
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(silent), chromedp.WithLogf(silent))
	t.Cleanup(cancel)
	return &browser{t, ctx, server.URL}
}

// goes loads a page.
func (b *browser) goes(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// follows does something that leads to another page, and waits for that.
func (b *browser) follows(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// do has the browser do something, or ends the test.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// ask has the page answer, or ends the test.
func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	answer, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// text is that of an element, asked for at once: what the page swaps while a driver looks at it is
// gone.
func (b *browser) text(of chromedp.CSS) string {
	b.t.Helper()
	return ask[string](b, fmt.Sprintf("document.querySelector(%q).innerText", of))
}

// look changes how the browser looks at pages.
func (b *browser) look(l look) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	if l.phone {
		options = append(options, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	scheme := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}}
	b.do(chromedp.EmulateViewport(l.width, l.height, options...), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, scheme)
		return err
	}))
}

// login logs in by the form.
func (b *browser) login(token string) {
	b.t.Helper()
	b.goes("/login")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), token))
	b.follows(chromedp.Submit(chromedp.CSS("#token")))
	if text := b.text("h1"); text == "Log in" {
		b.t.Fatalf("the token is not taken: %s", b.text("main"))
	}
}

// picture returns an image of the window.
func (b *browser) picture() image.Image {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}

// shoot writes a picture of the whole page where PRESCIENT_SCREENSHOTS says.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("PRESCIENT_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
