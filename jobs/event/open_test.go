package event_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/event"
)

func init() {
	for _, scheme := range []string{"test-a", "test-b"} {
		event.Register(scheme, func(_ context.Context, to *url.URL, cfg event.Config) (event.Publisher, error) {
			return opened{to, cfg.Secret}, nil
		})
	}
	event.Register("refusing", func(context.Context, *url.URL, event.Config) (event.Publisher, error) {
		return nil, errors.New("no such topic")
	})
}

// opened is a publisher that knows what it was opened with.
type opened struct {
	to     *url.URL
	secret string
}

func (opened) Publish(context.Context, []event.Event) error { return nil }
func (opened) Close() error                                 { return nil }

func TestAURLIsOpenedByThePackageOfItsScheme(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]url.URL{
		"test-a:":                          {Scheme: "test-a"},
		"test-b:///var/log/events.jsonl":   {Scheme: "test-b", Path: "/var/log/events.jsonl"},
		"test-a://host:4222/a?b=c":         {Scheme: "test-a", Host: "host:4222", Path: "/a", RawQuery: "b=c"},
		"test-a://a:1,b/topic":             {Scheme: "test-a", Host: "a:1,b", Path: "/topic"},
		"test-a://a,b:2,[::1]:3":           {Scheme: "test-a", Host: "a,b:2,[::1]:3"},
		"test-a://me:p%2Cw@a:1,b:2/t?u=,v": {Scheme: "test-a", User: url.UserPassword("me", "p,w"), Host: "a:1,b:2", Path: "/t", RawQuery: "u=,v"},
		"test-a://me:p,w@a:1/t,u":          {Scheme: "test-a", User: url.UserPassword("me", "p,w"), Host: "a:1", Path: "/t,u"},
		"TEST-A:":                          {Scheme: "test-a"},
	} {
		publisher, err := event.Open(t.Context(), text, event.Config{Secret: "s"})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := publisher.(opened)
		if diff := cmp.Diff(want, *got.to, cmp.AllowUnexported(url.Userinfo{})); diff != "" || got.secret != "s" {
			t.Errorf("%s: %s, secret %q", text, diff, got.secret)
		}
	}
}

func TestAnErrorOfOpenShowsNoSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "must begin with one of refusing, test-a, test-b",
		"topic":                               "must begin with one of ",
		"://hunter2@host":                     "must begin with one of ",
		"refusing://me:hunter2@host:port/t":   "must begin with one of ",
		"refusing://me:hun%zzter2@a:1,b:2/t":  "must begin with one of ",
		"carrier-pigeon://me:hunter2@host/t":  `scheme "carrier-pigeon" is not linked into this binary, which has refusing, test-a, test-b: want one of these`,
		"nats://me:hunter2@host/t":            `add to its main package: import _ "github.com/prescient-go/prescient/jobs/event/nats"`,
		"refusing://me:hunter2@host/hunter2":  `open publisher of scheme "refusing": no such topic`,
		"refusing://hunter2@a:1,b:2/?hunter2": `open publisher of scheme "refusing": no such topic`,
	} {
		_, err := event.Open(t.Context(), text, event.Config{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hun") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A binary of one's own begins without the brokers of the stock binary. Here, no package of a scheme is linked.
func TestTheErrorAndThePageNameTheImportOfEachSchemeThatOnlyTheStockBinaryHas(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, found := read("../../docs/events.md"), 0
	stock := regexp.MustCompile(`_ ("[^"]+/jobs/event/(\w+)")`).FindAllStringSubmatch(read("../../cmd/prescient/main.go"), -1)
	for _, linked := range stock {
		if line := "import _ " + linked[1]; !strings.Contains(page, line) {
			t.Errorf("events.md lacks %s", line)
		}
		files, err := filepath.Glob(linked[2] + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range regexp.MustCompile(`event\.Register\("(\w+)"`).FindAllStringSubmatch(read(file), -1) {
				found++
				_, err := event.Open(t.Context(), m[1]+"://host/subject", event.Config{})
				if want := "add to its main package: import _ " + linked[1]; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", m[1], err, want)
				}
				if !strings.Contains(page, "`"+m[1]+"://") {
					t.Errorf("events.md lacks the scheme %s", m[1])
				}
			}
		}
	}
	if len(stock) == 0 || found < len(stock) {
		t.Errorf("%d schemes of %q", found, stock)
	}
}

func TestASchemeThatIsTakenPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, `"test-a": the scheme is registered already`) {
			t.Errorf("panicked with %q", text)
		}
	}()
	event.Register("test-a", func(context.Context, *url.URL, event.Config) (event.Publisher, error) { return nil, nil })
}
