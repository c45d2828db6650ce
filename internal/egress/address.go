package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// ErrAddress is the error of an address that neither is public nor in Config.Allow.
var ErrAddress = errors.New("the address is private, link-local or otherwise special")

// azure is where Azure answers its virtual machines, beside the link-local address: metadata in the
// public range.
var azure = netip.MustParsePrefix("168.63.129.16/32")

// newTransport returns a transport that connects to allowed addresses alone, and by no proxy.
func newTransport(cfg Config) *http.Transport {
	return &http.Transport{
		DialContext:         Dialer(cfg.Allow).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: cfg.Idle,
		IdleConnTimeout:     90 * time.Second,

		MaxResponseHeaderBytes: maxHeaders,
	}
}

// Dialer returns a dialer that connects to public addresses, and to those that allow has. Its error matches ErrAddress
// for another address.
func Dialer(allow []netip.Prefix) *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Control: control(allow)}
}

// maxHeaders bounds the headers of an answer. The default of net/http is 10 MB, for each message that is
// being sent.
const maxHeaders = 64 << 10

// Forbidden looks up the host of a URL, and returns its addresses if allow forbids all of them. Returns
// an error for a name that cannot be looked up before ctx ends. A name may have another address when a
// message is sent: only the address that a connection is made to counts.
func Forbidden(ctx context.Context, to *url.URL, allow []netip.Prefix) ([]netip.Addr, error) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", to.Hostname()) // an address is its own
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", to.Hostname(), err)
	}
	check := control(allow)
	for i, address := range addresses {
		network := "tcp6"
		if address = address.Unmap(); address.Is4() {
			network = "tcp4"
		}
		if check(network, netip.AddrPortFrom(address, 443).String(), nil) == nil {
			return nil, nil
		}
		addresses[i] = address
	}
	return addresses, nil
}

// control refuses a connection by the address that was resolved, before it is made.
func control(allow []netip.Prefix) func(network, address string, _ syscall.RawConn) error {
	var v4, v6 []netip.Prefix
	for _, prefix := range allow {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	guardian := ssrf.New(
		ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(azure),
	)
	return func(network, address string, conn syscall.RawConn) error {
		if err := guardian.Safe(network, address, conn); err != nil {
			to, parseErr := netip.ParseAddrPort(address)
			if parseErr != nil {
				return fmt.Errorf("%w: %w", ErrAddress, err)
			}
			return fmt.Errorf("%w: %s is not allowed. To allow it, add %s to events.allowed_networks", ErrAddress, to.Addr(),
				Networks(to.Addr()))
		}
		return nil
	}
}

// Networks returns addresses as events.allowed_networks lists them.
func Networks(addresses ...netip.Addr) string {
	list := make([]string, len(addresses))
	for i, a := range addresses {
		a = a.Unmap().WithZone("")
		list[i] = netip.PrefixFrom(a, a.BitLen()).String()
	}
	return strings.Join(list, ", ")
}

// CheckURL refuses a URL that Post cannot send to: it must be http or https, with one host.
func CheckURL(to *url.URL) error {
	if (to.Scheme != "http" && to.Scheme != "https") || to.Hostname() == "" || strings.Contains(to.Host, ",") {
		return fmt.Errorf("%s is no http or https URL with one host", Origin(to))
	}
	return nil
}

// Origin returns what of a URL is fit for messages: the scheme and the host.
func Origin(to *url.URL) string { return to.Scheme + "://" + to.Host }

// maxRedirects is how many redirects are followed.
const maxRedirects = 3

var errRedirect = errors.New("the redirect is refused")

// checkRedirect refuses a redirect that would lose the body or the encryption, or goes on and on.
func checkRedirect(req *http.Request, via []*http.Request) error {
	status, first := req.Response.StatusCode, via[0]
	switch {
	case req.Method != first.Method:
		return fmt.Errorf("%w: %d to %s would lose the body, only 307 and 308 keep it: use the new URL", errRedirect,
			status, Origin(req.URL))
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: %d to %s is one more than the %d that are followed", errRedirect, status,
			Origin(req.URL), maxRedirects)
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: %d to %s would leave https", errRedirect, status, Origin(req.URL))
	}
	if err := CheckURL(req.URL); err != nil {
		return fmt.Errorf("%w: %d: %w", errRedirect, status, err)
	}
	return nil
}
