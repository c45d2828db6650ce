package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLines is how many wrong tokens the log has at once, and how many more in each linesFor. The
	// line that follows counts the others.
	maxLines = 20
	linesFor = time.Minute
)

// Access identifies the sender of a request by its token. It counts wrong tokens and logs them, a
// bounded number of lines a minute. It is safe for concurrent use.
type Access struct {
	keys       Keys
	address    func(r *http.Request) netip.Addr
	log        *slog.Logger
	failures   *Failures // nil: no address is locked out
	failed     *atomic.Int64
	lines      *rate.Limiter
	suppressed *atomic.Int64 // since the last line
}

// NewAccess returns the access of the owners of keys. address returns where a request comes from
// and defaults to [Address]. log defaults to slog.Default().
func NewAccess(keys Keys, address func(r *http.Request) netip.Addr, log *slog.Logger) *Access {
	if address == nil {
		address = Address
	}
	return &Access{
		keys: keys, address: address, log: cmp.Or(log, slog.Default()), failed: new(atomic.Int64),
		lines: rate.NewLimiter(rate.Every(linesFor/maxLines), maxLines), suppressed: new(atomic.Int64),
	}
}

// LockingOut refuses all tokens from an address that has sent maxFailures wrong ones within a
// minute, and returns a. Use it for people, who choose tokens that can be guessed. Programs often
// share an address, where one with an old token would lock out the others.
func (a *Access) LockingOut() *Access {
	a.failures = NewFailures()
	return a
}

// Door returns the access to another part of the same server. An address that is locked out of one
// part is not locked out of another: a program with an old token, such as a collector of metrics,
// must not keep operators out. Failed and the bound of the log are those of all parts.
func (a *Access) Door() *Access {
	door := *a
	if a.failures != nil {
		door.failures = NewFailures()
	}
	return &door
}

// Address returns where a request comes from.
func (a *Access) Address(r *http.Request) netip.Addr { return a.address(r) }

// Failed returns how many requests had a wrong token, or came from a locked-out address.
func (a *Access) Failed() int64 { return a.failed.Load() }

// Who returns the sender of a request by its bearer token. known is false without a token, or with
// a wrong one.
func (a *Access) Who(r *http.Request) (who Who, known bool, err error) {
	token, given := Bearer(r)
	if !given {
		return Who{}, false, nil
	}
	return a.Find(r, token)
}

// Allows tells whether the sender of a request has a token.
func (a *Access) Allows(r *http.Request) bool {
	_, known, err := a.Who(r)
	return known && err == nil
}

// Find returns the owner of a token that came with a request. The error is a Problem of status 429
// if its address is locked out.
func (a *Access) Find(r *http.Request, token string) (who Who, known bool, err error) {
	address := a.address(r)
	if a.failures != nil && a.failures.TooMany(address) {
		a.failed.Add(1)
		return Who{}, false, NewProblem(http.StatusTooManyRequests,
			"too many wrong tokens came from this address: wait a minute")
	}
	if who, known = a.keys.Find(token); !known {
		a.failed.Add(1)
		if a.failures != nil {
			a.failures.Wrong(address)
		}
		if suppressed, write := a.line(); write {
			a.log.WarnContext(r.Context(), "a token is wrong", "address", address.String(), "method", r.Method,
				"path", short(r.URL.Path), "not_logged_before", suppressed)
		}
	}
	who.Address = address.String()
	return who, known, nil
}

// LoggedIn logs that a visitor has logged in: each operator, and as many readers as wrong tokens.
func (a *Access) LoggedIn(ctx context.Context, r *http.Request, who Who) {
	if _, write := a.line(); write || who.MayChange {
		a.log.InfoContext(ctx, "logged in", "name", who.Name, "operator", who.MayChange,
			"address", a.address(r).String())
	}
}

// short returns the beginning of a path, for the log.
func short(path string) string {
	const most = 200
	if len(path) > most {
		return strings.ToValidUTF8(path[:most], "") + "..."
	}
	return path
}

// line tells whether one more line may be written, and how many were suppressed since the last one.
func (a *Access) line() (suppressed int64, write bool) {
	if !a.lines.Allow() {
		a.suppressed.Add(1)
		return 0, false
	}
	return a.suppressed.Swap(0), true
}
