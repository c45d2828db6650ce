package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxFailures bounds the wrong tokens of an address within failuresFor. An address is an IPv4
	// address, or an IPv6 network, which belongs to one machine.
	maxFailures = 5
	failuresFor = time.Minute
	// maxAddresses bounds the addresses that are remembered. All others share one counter.
	maxAddresses = 10_000
)

// Failures counts wrong tokens by address, in bounded memory. It is safe for concurrent use.
type Failures struct {
	now func() time.Time

	mu    sync.Mutex
	byIP  map[netip.Prefix]*failed
	swept time.Time // when old addresses were last removed, so that a full memory costs no time
}

type failed struct {
	n     int
	since time.Time
}

// NewFailures returns an empty Failures. now is a clock that measures durations.
func NewFailures(now func() time.Time) *Failures {
	return &Failures{now: now, byIP: map[netip.Prefix]*failed{}}
}

// TooMany tells whether an address has sent too many wrong tokens lately. Its next token is then
// refused unread.
func (f *Failures) TooMany(address netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := network(address)
	account := f.byIP[of]
	if account == nil && len(f.byIP) >= maxAddresses {
		account = f.byIP[netip.Prefix{}]
	}
	return account != nil && f.now().Sub(account.since) <= failuresFor && account.n >= maxFailures
}

// Wrong counts a wrong token.
func (f *Failures) Wrong(address netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account(network(address)).n++
}

func (f *Failures) account(of netip.Prefix) *failed {
	now := f.now()
	if f.byIP[of] == nil && len(f.byIP) >= maxAddresses && now.Sub(f.swept) > failuresFor {
		f.sweep(now)
	}
	if f.byIP[of] == nil && len(f.byIP) >= maxAddresses {
		of = netip.Prefix{}
	}
	account := f.byIP[of]
	if account == nil || now.Sub(account.since) > failuresFor {
		account = &failed{since: now}
		f.byIP[of] = account
	}
	return account
}

func (f *Failures) sweep(now time.Time) {
	f.swept = now
	for of, account := range f.byIP {
		if now.Sub(account.since) > failuresFor {
			delete(f.byIP, of)
		}
	}
}

func network(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
