package event

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prescient-go/prescient/internal/uri"
)

// Config configures publishers beside their URL. Each opener reads the fields that it needs.
type Config struct {
	// Secret signs what webhook sends, as Standard Webhooks has it ("whsec_" and base64). Empty:
	// unsigned.
	Secret string
	// Allow are addresses that webhook may connect to although they are private, link-local or
	// otherwise special.
	Allow []netip.Prefix
	// Logger gets warnings. Default: slog.Default().
	Logger *slog.Logger
}

// Opener opens a publisher. It gets the URL parsed, with a list of hosts as it stands in URL.Host,
// and must refuse what it does not know in it. Its errors must not show a secret, such as the user
// or the query.
type Opener func(ctx context.Context, to *url.URL, cfg Config) (Publisher, error)

var (
	mu      sync.Mutex
	openers = map[string]Opener{}
)

// Register makes a scheme known; packages of publishers call it from init. It panics when the
// scheme is taken.
func Register(scheme string, open Opener) {
	mu.Lock()
	defer mu.Unlock()
	if _, taken := openers[scheme]; taken {
		panic(fmt.Sprintf("register publisher %q: the scheme is registered already", scheme))
	}
	openers[scheme] = open
}

// Open opens the publisher that a URL stands for. The caller closes it. Of the URL its error shows
// the scheme, and what the package of the scheme finds fit to be shown: never a password or a
// token.
func Open(ctx context.Context, to string, cfg Config) (Publisher, error) {
	u, open, err := find(to)
	if err != nil {
		return nil, err
	}
	publisher, err := open(ctx, u, cfg)
	if err != nil {
		return nil, fmt.Errorf("open publisher of scheme %q: %w", u.Scheme, err)
	}
	return publisher, nil
}

// find parses a URL, and returns what opens it.
func find(to string) (*url.URL, Opener, error) {
	u, err := uri.Parse(to)
	if err != nil || u.Scheme == "" {
		return nil, nil, fmt.Errorf("open publisher: not a URL: "+
			"it must begin with one of %s (it is not shown, as it may hold a password)", schemes())
	}
	mu.Lock()
	open := openers[u.Scheme]
	mu.Unlock()
	if open == nil {
		return nil, nil, notLinked(u.Scheme)
	}
	return u, open, nil
}

// packages are those of this module that register a scheme.
var packages = map[string]string{
	"file": "file", "stdout": "file", "http": "webhook", "https": "webhook", "kafka": "kafka", "nats": "nats",
	"tls": "nats",
}

// notLinked is the error for a scheme that no package has registered. It names the import that
// does, if there is one.
func notLinked(scheme string) error {
	name, known := packages[scheme]
	if !known {
		return fmt.Errorf("open publisher: scheme %q is not linked into this binary, which has %s: want one of these, "+
			"or import the package that registers it", scheme, schemes())
	}
	return fmt.Errorf("open publisher: scheme %q is not linked into this binary, which has %s: add to its main package: "+
		"import _ \"github.com/prescient-go/prescient/jobs/event/%s\"", scheme, schemes(), name)
}

// Schemes returns those that are linked into this binary, in alphabetical order.
func Schemes() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(openers))
}

func schemes() string {
	return cmp.Or(strings.Join(Schemes(), ", "), "(none is linked)")
}
